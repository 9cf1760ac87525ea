"""Resources: places with a scheduler of their own, to which jobs are handed over.

Elastic pools make nodes of allocations there.  A job with a choice of places has an estimate of each.

Source:  SSS 3.1.0, "Machine" and "ResourceManagerType"; grid job description, ``lrms``.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import inf

import msgspec

from headnode.core.model.bounds import GPUS
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.resource_system import ResourceSystem, system_named

HERE = "here"
"""The name of the cluster's own nodes; a job that names no resource runs there."""

ANY = "any"
"""The own nodes or any resource, whichever is expected to start the job first."""

PLACE_MARK = "@"
"""The first letter of the name that stands for a resource where a node stands; no node begins with it."""


_OURS = frozenset({"fork", "headnode"})
"""What job languages call own nodes, as the kind of a resource manager; in lower case."""


def places_of_kind(kind: str, systems: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the places with a resource manager of a kind; `systems` has resources and their schedulers.

    A resource that is itself called so is one, too.

    >>> places_of_kind("SGE", [("lab", "gridengine"), ("physics", "slurm")]), places_of_kind("Fork", [])
    (('lab',), ('here',))
    """
    wanted = kind.strip().lower()
    if wanted in _OURS:
        return (HERE,)
    meant = system_named(wanted)
    return tuple(name for name, system in systems if name.lower() == wanted or system == meant)


class BatchResource(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """A place with its own scheduler, and how it is reached.  Times are in seconds."""

    name: str
    system: ResourceSystem
    mark: str  # eight digits in the names of all our jobs there; made once, it stays through restores
    host: str = ""  # where its commands run, by ssh; empty: on the head's machine
    programs: str = ""  # directory of its commands; empty: they are found by PATH
    settings: str = ""  # its configuration, as its commands want it: `ResourceSystem.settings_variable`
    directory: str = ""  # for the files of attempts; empty: .headnode/attempts in the home of the user
    queue: str = ""  # partition or queue; empty: that of the site
    parallel: str = ""  # parallel environment of Grid Engine, for tasks with several processors
    most_jobs: int = 100  # of ours there at a time
    poll: Seconds = Seconds(30.0)  # between two polls, at least
    settle: Seconds = Seconds(90.0)  # until a submission without an answer may be repeated
    lost_after: Seconds = Seconds(600.0)  # until a job counts as lost that is no longer listed
    overlay: bool = False  # jobs that name no resource go there, and its queue and nodes are shown

    @property
    def key(self) -> str:
        """The name as it is compared: in lower case."""
        return self.name.lower()

    @property
    def place(self) -> str:
        """What stands for it where a node stands."""
        return PLACE_MARK + self.key


def places_in(resource: str) -> tuple[str, ...]:
    """Return the places that a job names as its resource, in its order and in lower case; none is `here`.

    >>> places_in(""), places_in("Physics"), places_in("chem, here,Chem")
    (('here',), ('physics',), ('chem', 'here'))
    """
    if not resource:
        return (HERE,)
    named = (each.strip().lower() for each in resource.split(","))
    return tuple(dict.fromkeys(each for each in named if each)) or (HERE,)


def is_choice(resource: str) -> bool:
    """Return whether a job names several places, of which one is chosen when it is in the queue."""
    places = places_in(resource)
    return len(places) > 1 or places == (ANY,)


def is_elsewhere(resource: str) -> bool:
    """Return whether a job cannot run on own nodes: each place it names has a scheduler of its own."""
    return not {HERE, ANY}.intersection(places_in(resource))


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}\Z", re.ASCII)
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9.:-]{0,253}\Z", re.ASCII)
_MARK = re.compile(r"[0-9a-f]{8}\Z", re.ASCII)
_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,@-]{0,127}\Z", re.ASCII)
_LIMITS = (("most_jobs", 1, 100_000), ("poll", 1, 3600), ("settle", 3, 3600), ("lost_after", 3, 86_400))


def check_resource(resource: BatchResource) -> None:
    """Refuse what is no resource.

    Raises:  BadRequest ``resource-...``.
    """
    if not _NAME.match(resource.name) or resource.key in (HERE, ANY):
        raise BadRequest(
            code="resource-name",
            what=f"a resource cannot be called {resource.name!r}",
            fix="use up to 32 letters, digits, dots, dashes and underscores; `here` are the own nodes, `any` "
            "is every place",
        )
    for field, form in (("host", _HOST), ("queue", _QUEUE), ("parallel", _QUEUE)):
        text = getattr(resource, field)
        if text and not form.match(text):
            raise BadRequest(
                code=f"resource-{field}",
                what=f"{text!r} is not a valid {field} of a resource",
                fix="use letters, digits, dots, dashes and underscores",
            )
    if not _MARK.match(resource.mark):
        raise BadRequest(
            code="resource-mark",
            what=f"{resource.mark!r} is not a mark of a resource",
            fix="use 8 hex digits",
        )
    for field in ("programs", "settings", "directory"):
        text = getattr(resource, field)
        if text and (not text.startswith("/") or "\0" in text or "\n" in text or len(text) > MAX_PATH):
            raise BadRequest(
                code=f"resource-{field}",
                what=f"{text[:200]!r} is not an absolute path",
                fix="begin it with a slash",
            )
    _check_limits("resource", resource, _LIMITS)


def _check_limits(kind: str, checked: object, limits: Iterable[tuple[str, int, int]]) -> None:
    """Refuse a field that is not between its least and its most."""
    for field, least, most in limits:
        if not least <= getattr(checked, field) <= most:
            raise BadRequest(
                code=f"{kind}-{field}".replace("_", "-"),
                what=f"{field.replace('_', ' ')} is {getattr(checked, field):g}",
                fix=f"choose {least} to {most:,}",
            )


MAX_PATH = 1024  # characters


class StartBasis(StrEnum):
    """What an expected start follows from; the value is told to people."""

    PREDICTED = "predicted from the queue here"
    NEVER = "own nodes never fit it"
    ENDLESS = "jobs before it have no time limit"
    QUEUE = "predicted from its queue"
    IDLE = "none of our tasks waits there"
    WAITS = "as long as our tasks waited there"
    UNKNOWN = "its start is not known"


class InstanceHandOff(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One attempt that another scheduler has, and its id there."""

    task: int
    instance: int
    attempt: int
    id: str


class PlaceEstimate(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """When a place is expected to start a job.  `start` None: unknown, or never.

    place:    the key of a resource, or `here`
    problem:  why the job cannot go there now; empty if it can
    """

    place: str
    start: Instant | None = None
    basis: StartBasis = StartBasis.UNKNOWN
    problem: str = ""

    @property
    def usable(self) -> bool:
        """Whether the job can go there, and its start is known."""
        return not self.problem and (
            self.start is not None or self.basis in (StartBasis.NEVER, StartBasis.ENDLESS)
        )

    @property
    def at(self) -> float:
        """The expected start; infinite if there is none."""
        return inf if self.start is None else self.start


class Placement(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The place that was chosen for a job, when, and what was known of all."""

    resource: str
    at: Instant
    estimates: tuple[PlaceEstimate, ...]


_POOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}\Z", re.ASCII)
_PATH = re.compile(r"/[^\0\n]{0,1023}\Z")


class ElasticPool(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """What an administrator allows.  Each allocation is a job at `resource` that is one node here.

    Times are in seconds, memory in MB.  The agents run as `owner`.
    """

    name: str
    resource: str
    owner: str
    uid: int
    gid: int
    most_nodes: int = 1
    most_node_hours: float | None = None  # in all; None: no limit
    node_price: float = 0.0  # of a node-hour, in the currency of the site; 0: it has none
    most_cost: float | None = None  # in all, in the same currency; None: no limit
    most_queued: int = 2  # allocations that have not become nodes yet
    allocation_time: Seconds = Seconds(3600.0)
    processors: int = 1  # of each node
    memory: int = 0  # of each node; 0: none is asked for, and jobs that ask for memory wait for other nodes
    gpus: int = 0  # of each node
    idle_time: Seconds = Seconds(300.0)  # a node without a job for so long leaves
    margin: Seconds = Seconds(60.0)  # so long before its allocation ends a node has no job any more
    retry: Seconds = Seconds(60.0)  # after a failed allocation; doubled with each that fails after it
    python: str = ""  # path of the Python with Headnode at the resource; empty: that of the head

    @property
    def key(self) -> str:
        """The name as it is compared: in lower case."""
        return self.name.lower()

    @property
    def usable_time(self) -> Seconds:
        """The longest run time limit of a job on a fresh node."""
        return Seconds(self.allocation_time - self.margin)

    @property
    def only_user(self) -> str:
        """The one user whose jobs its nodes can run; empty: an agent of root runs those of everybody."""
        return self.owner if self.uid else ""


_POOL_LIMITS = (
    ("most_nodes", 1, 1000),
    ("most_queued", 1, 1000),
    ("allocation_time", 60, 30 * 86_400),
    ("processors", 1, 65_536),
    ("memory", 0, 2**31),
    ("gpus", 0, GPUS.most),
    ("idle_time", 1, 86_400),
    ("margin", 1, 86_400),
    ("retry", 1, 86_400),
)


def check_elastic_pool(pool: ElasticPool) -> None:
    """Refuse what is no elastic pool.

    Raises:  BadRequest ``elastic-...``.
    """
    if not _POOL_NAME.match(pool.name):
        raise BadRequest(
            code="elastic-name",
            what=f"an elastic pool cannot be called {pool.name[:40]!r}",
            fix="use up to 32 letters, digits, dots, dashes and underscores",
        )
    _check_limits("elastic", pool, _POOL_LIMITS)
    if pool.most_node_hours is not None and not 0 < pool.most_node_hours <= 10**9:
        raise BadRequest(
            code="elastic-most-node-hours",
            what=f"the limit of node-hours is {pool.most_node_hours:g}",
            fix="choose a number above 0",
        )
    _check_cost(pool)
    if pool.gpus and pool.processors % pool.gpus:
        raise BadRequest(
            code="elastic-gpus",
            what=f"{pool.processors} processors of a node cannot be divided among its {pool.gpus} GPUs",
            fix=f"give it a multiple of {pool.gpus} processors",
        )
    if pool.usable_time < pool.margin:
        raise BadRequest(
            code="elastic-margin",
            what=f"allocations of {pool.allocation_time:g} s with a margin of {pool.margin:g} s run no job",
            fix="make the allocation at least twice as long as the margin",
        )
    if pool.python and not _PATH.match(pool.python):
        raise BadRequest(
            code="elastic-python",
            what=f"{pool.python[:80]!r} is not an absolute path",
            fix="begin it with a slash",
        )


def _check_cost(pool: ElasticPool) -> None:
    if not 0 <= pool.node_price <= MAX_MONEY:
        raise BadRequest(
            code="elastic-node-price",
            what=f"the price of a node-hour is {pool.node_price:g}",
            fix="choose a number from 0",
        )
    if pool.most_cost is None:
        return
    if not 0 < pool.most_cost <= MAX_MONEY:
        raise BadRequest(
            code="elastic-most-cost",
            what=f"the limit of cost is {pool.most_cost:g}",
            fix="choose a number above 0",
        )
    if not pool.node_price:
        raise BadRequest(
            code="elastic-most-cost",
            what="a limit of cost needs the price of a node-hour",
            fix="add the price: --price N",
        )


MAX_MONEY = 10**9  # units of the currency
