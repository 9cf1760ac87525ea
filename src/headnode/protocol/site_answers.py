"""Answers about the site below the cluster: its jobs, partitions and nodes.

Times are seconds since 1970.  The comment of a field is what the page of the protocol says of it.
"""

from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import Name, VerbRequest


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
