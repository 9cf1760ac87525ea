"""What balanced mode is shown on top of what policies see: what jobs could use, and what they could give."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.balanced.share_out import Bias


class Held(msgspec.Struct, frozen=True, gc=False):
    """What a job holds of a node that it could do without, in processors.

    What is none of these runs tasks that must not be run twice.
    """

    node: str
    processors: int  # in all
    leaving: int = 0  # the job is to give up already, and nothing runs there or is being stopped
    awaited: int = 0  # it is to give up already, as soon as the tasks there end
    idle: int = 0
    stoppable: int = 0  # run tasks that may be run again, the youngest of which would be stopped first


class Sharer(msgspec.Struct, frozen=True, gc=False):
    """A running job that has a share.  Nodes that its tasks ask for are not among `held`."""

    job: JobId
    could_use: int = 0  # units that its tasks use, and that those that wait could, whatever is free
    waits: int = 0  # units more that its waiting tasks could use than it has idle: as much it can grow now
    held: tuple[Held, ...] = ()  # in the order of its allocation
    rests: bool = False  # it may not grow now: filters have a say
    lasting: bool = False  # what it starts next runs to its end: it must not be run twice


class Balancing(msgspec.Struct, frozen=True):
    """That the cluster is in balanced mode, and how.

    `due`: now processors may be taken from one job for the share of another.  For the minimum of a job that
    waits they may be taken at any time.
    """

    bias: Bias = Bias.MEDIUM
    immediate: bool = True  # tasks are stopped, and run again; else jobs give back as their tasks end
    due: bool = True
    next_due: Instant = NEVER  # when it is due again though no job comes or goes
    sharers: Mapping[JobId, Sharer] = MappingProxyType({})
