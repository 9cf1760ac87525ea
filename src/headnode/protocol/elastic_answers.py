"""What the verbs about elastic pools are asked and answer.  The page of the protocol is printed from it.

Times are in seconds.  The comment of a field is what the page says of it.
"""

from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import Duration, Name, Note, PathText, VerbRequest


class ElasticNameRequest(VerbRequest, frozen=True):
    """elastic_pool, resume_elastic_pool, remove_elastic_pool."""

    name: Name


class PauseElasticRequest(ElasticNameRequest, frozen=True):
    """pause_elastic_pool."""

    reason: Note = ""


class SetElasticRequest(ElasticNameRequest, frozen=True):
    """set_elastic_pool.  What is left out stays as it is, or has its default.  Times are in seconds."""

    resource: Name | None = None  # where its allocations are jobs
    most_nodes: int | None = None
    most_node_hours: float | None = None  # in all; 0: no limit
    node_price: float | None = None  # of a node-hour, in the currency of the site
    most_cost: float | None = None  # in all, in the same currency; 0: no limit
    most_queued: int | None = None  # allocations that have not become nodes yet
    allocation_time: Duration | None = None
    processors: int | None = None  # of each node
    memory: int | None = None  # MB of each node; 0: none is asked for
    idle_time: Duration | None = None  # a node without a job for so long leaves
    margin: Duration | None = None  # so long before its allocation ends a node has no job
    retry: Duration | None = None  # after a failed allocation; doubled with each that fails after it
    python: PathText | None = None  # the Python with Headnode at the resource; empty: that of the head


class ElasticAllocationObject(VerbAnswer, frozen=True):
    """An allocation of an elastic pool."""

    job: int  # the job at the resource
    node: str
    state: str  # wanted, node, leaving
    made: float  # since 1970
    joined: float | None
    leaving: str  # why it is given back


class ElasticPoolObject(VerbAnswer, frozen=True):
    """An elastic pool.  Times are in seconds."""

    name: str
    resource: str
    owner: str  # as whom its agents run
    most_nodes: int
    most_node_hours: float | None
    node_price: float  # of a node-hour, in the currency of the site
    most_cost: float | None
    most_queued: int
    allocation_time: float
    processors: int
    memory: int
    idle_time: float
    margin: float
    retry: float
    python: str
    paused: str  # why; empty: it is not
    removing: bool
    node_hours: float  # of allocations that are over
    cost: float  # of allocations that are over
    failures: int  # one after the other
    trouble: str  # of the last one
    says: str  # why it does not do more now
    allocations: list[ElasticAllocationObject]


class ElasticPoolsAnswer(VerbAnswer, frozen=True):
    """elastic_pools."""

    pools: list[ElasticPoolObject]


class ElasticPoolAnswer(VerbAnswer, frozen=True):
    """elastic_pool, set_elastic_pool, pause_elastic_pool, resume_elastic_pool."""

    pool: ElasticPoolObject
