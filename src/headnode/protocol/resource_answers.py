"""Requests and answers about resources, elastic pools and the site below the cluster.

The page of the protocol is printed from them.  Times are in seconds; points in time count from 1970.  The
comment of a field is what the page says of it; what is in braces there is of `core/model/resource_system`.
"""

from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import Duration, Name, Note, PathText, VerbRequest


class ResourceNameRequest(VerbRequest, frozen=True):
    """resource, remove_resource."""

    name: Name


class SetResourceRequest(ResourceNameRequest, frozen=True):
    """set_resource.  What is left out stays as it is, or has its default.  Times are in seconds."""

    system: Name | None = None  # {SYSTEM_NAMES}
    host: Name | None = None  # where its commands run, by ssh; empty: on the head's machine
    programs: PathText | None = None  # directory of its commands; empty: found by PATH
    settings: PathText | None = None  # {SETTINGS_VARIABLES}
    directory: PathText | None = None  # for files of attempts; empty: in the home of each user
    queue: Name | None = None  # partition or queue; empty: that of the site
    parallel: Name | None = None  # parallel environment of Grid Engine
    most_jobs: int | None = None  # of ours there at a time
    poll: Duration | None = None  # between two polls, at least
    settle: Duration | None = None  # until a submission without an answer may be repeated
    overlay: bool | None = None  # jobs that name no resource go there, and its queue is shown
    lost_after: Duration | None = None  # until a job counts as lost that is no longer listed


class ResourceObject(VerbAnswer, frozen=True):
    """A resource with its own scheduler, and how its last poll went.  Times are in seconds."""

    name: str
    system: str
    mark: str  # eight digits in the names of all our jobs there
    host: str
    programs: str
    settings: str
    directory: str
    queue: str
    parallel: str
    most_jobs: int
    poll: float
    settle: float
    lost_after: float
    jobs: int  # attempts that are there, or on their way
    waiting: int  # jobs of the queue that go there
    polled: float | None  # since 1970; null: not since the head started
    answered_in: float | None
    overlay: bool  # jobs that name no resource go there, and its queue is shown
    problem: str  # empty: the last poll was answered


class ResourcesAnswer(VerbAnswer, frozen=True):
    """resources."""

    resources: list[ResourceObject]


class ResourceAnswer(VerbAnswer, frozen=True):
    """resource, set_resource."""

    resource: ResourceObject


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
    gpus: int | None = None  # of each node
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
    gpus: int = 0  # of each node


class ElasticPoolsAnswer(VerbAnswer, frozen=True):
    """elastic_pools."""

    pools: list[ElasticPoolObject]


class ElasticPoolAnswer(VerbAnswer, frozen=True):
    """elastic_pool, set_elastic_pool, pause_elastic_pool, resume_elastic_pool."""

    pool: ElasticPoolObject


class SiteJobsRequest(VerbRequest, frozen=True):
    """site_jobs."""

    ended: bool = False  # those that have ended, newest first
    user: Name | None = None  # only of this user
    limit: int = 1000


class SiteJobObject(VerbAnswer, frozen=True):
    """A job of the site, of any user. One of ours names its job here."""

    id: str  # there
    user: str
    name: str
    state: str  # waiting, running, ended or unknown
    word: str  # the site's word for its state
    reason: str  # the site's, for which it waits
    priority: int
    partitions: list[str]
    submitted: float | None
    started: float | None
    ended: float | None
    run_time: float | None  # its time limit, in seconds
    processors: int
    nodes: str
    elements: int  # of an array, that wait
    job: int | None  # here, if it is ours
    p50: float | None  # the expected start
    p90: float | None
    site_start: float | None  # the start that the site expects


class SitePartitionObject(VerbAnswer, frozen=True):
    """A partition of the site; times are in seconds, null for no limit."""

    name: str
    default: bool
    state: str
    run_time: float | None
    default_run_time: float | None
    nodes: int
    processors: int


class SiteObject(VerbAnswer, frozen=True):
    """The site under the overlay, and how far it is known."""

    resource: str
    cluster: str  # what the site calls itself
    version: str
    scheduler: str
    partitions: list[SitePartitionObject]
    polled: float | None  # the last time that it answered
    problem: str  # why it does not answer
    running: int  # jobs
    waiting: int
    left_out: int  # jobs of the site beyond those that are kept
    hides_jobs: bool  # it shows each user only the user's own jobs
    accounting: bool  # its history can be read
    judged: int  # predicted starts that were compared with what happened


class SiteJobsAnswer(VerbAnswer, frozen=True):
    """site_jobs."""

    site: SiteObject
    jobs: list[SiteJobObject]
    total: int


class SiteNodeObject(VerbAnswer, frozen=True):
    """A node of the site; memory is in MB."""

    name: str
    state: str  # the site's word
    partitions: list[str]
    processors: int
    used: int
    memory: int
    features: list[str]
    closed: bool  # it starts no jobs


class SiteNodesAnswer(VerbAnswer, frozen=True):
    """site_nodes."""

    site: SiteObject
    nodes: list[SiteNodeObject]


class SiteExplanation(VerbAnswer, frozen=True):
    """Why a job of ours waits at the site."""

    resource: str
    id: str  # there
    reason: str  # the site's code
    text: str  # in a sentence
    priority: int
    partitions: list[str]
    ahead: int  # jobs there that go first
    jobs_ahead: list[SiteJobObject]  # the first five
    site_start: float | None  # the start that the site expects
    polled: float
    judged: int  # predicted starts that were compared with what happened
