"""Events of elastic pools and their allocations."""

from headnode.core.model.quantities import JobId
from headnode.core.model.resource import ElasticPool
from headnode.core.state.job_events import StateEvent


class ElasticPoolSet(StateEvent, frozen=True, gc=False, tag="ElasticPoolSet"):
    """An elastic pool is added or changed."""

    pool: ElasticPool
    by: str = ""


class ElasticPoolEvent(StateEvent, frozen=True, gc=False):
    """The base of all other events of elastic pools."""

    name: str


class ElasticPoolPaused(ElasticPoolEvent, frozen=True, gc=False, tag="ElasticPoolPaused"):
    """The pool makes no allocations any more; if it is `removing`, it is removed once it has none."""

    reason: str
    by: str = ""
    removing: bool = False


class ElasticPoolResumed(ElasticPoolEvent, frozen=True, gc=False, tag="ElasticPoolResumed"):
    """The pool may make allocations again; its failures are forgotten."""

    by: str = ""


class ElasticPoolRemoved(ElasticPoolEvent, frozen=True, gc=False, tag="ElasticPoolRemoved"):
    """The pool is removed; nothing of it is left."""

    by: str = ""


class ElasticNodeWanted(ElasticPoolEvent, frozen=True, gc=False, tag="ElasticNodeWanted"):
    """The pool makes an allocation: the job was submitted to its resource in the same batch."""

    job: JobId
    node: str
    digest: str  # of the secret with which its agent joins


class ElasticNodeLeaving(ElasticPoolEvent, frozen=True, gc=False, tag="ElasticNodeLeaving"):
    """The head gives an allocation back: its job is canceled in the same batch."""

    job: JobId
    reason: str


class ElasticNodeGone(ElasticPoolEvent, frozen=True, gc=False, tag="ElasticNodeGone"):
    """An allocation is over, and its node is no node any more."""

    job: JobId
