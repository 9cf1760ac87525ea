"""Elastic pools: nodes that are made of allocations at a resource as jobs want them, and are given back."""

import re

import msgspec

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}\Z", re.ASCII)
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


_LIMITS = (
    ("most_nodes", 1, 1000),
    ("most_queued", 1, 1000),
    ("allocation_time", 60, 30 * 86_400),
    ("processors", 1, 65_536),
    ("memory", 0, 2**31),
    ("idle_time", 1, 86_400),
    ("margin", 1, 86_400),
    ("retry", 1, 86_400),
)


def check_elastic_pool(wish: ElasticPool) -> None:
    """Refuse what is no elastic pool.

    Raises:  BadRequest ``elastic-...``.
    """
    if not _NAME.match(wish.name):
        raise BadRequest(
            code="elastic-name",
            what=f"an elastic pool cannot be called {wish.name[:40]!r}",
            fix="use up to 32 letters, digits, dots, dashes and underscores",
        )
    for field, least, most in _LIMITS:
        if not least <= getattr(wish, field) <= most:
            raise BadRequest(
                code=f"elastic-{field}".replace("_", "-"),
                what=f"{field.replace('_', ' ')} is {getattr(wish, field):g}",
                fix=f"choose {least} to {most:,}",
            )
    if wish.most_node_hours is not None and not 0 < wish.most_node_hours <= 10**9:
        raise BadRequest(
            code="elastic-most-node-hours",
            what=f"most node hours is {wish.most_node_hours:g}",
            fix="choose a number above 0",
        )
    _check_cost(wish)
    if wish.usable_time < wish.margin:
        raise BadRequest(
            code="elastic-margin",
            what=f"allocations of {wish.allocation_time:g} s with a margin of {wish.margin:g} s run no job",
            fix="make the allocation at least twice as long as the margin",
        )
    if wish.python and not _PATH.match(wish.python):
        raise BadRequest(
            code="elastic-python",
            what=f"{wish.python[:80]!r} is no absolute path",
            fix="begin it with a slash",
        )


def _check_cost(wish: ElasticPool) -> None:
    if not 0 <= wish.node_price <= MOST_MONEY:
        raise BadRequest(
            code="elastic-node-price",
            what=f"the price of a node-hour is {wish.node_price:g}",
            fix="choose a number from 0",
        )
    if wish.most_cost is None:
        return
    if not 0 < wish.most_cost <= MOST_MONEY:
        raise BadRequest(
            code="elastic-most-cost", what=f"most cost is {wish.most_cost:g}", fix="choose a number above 0"
        )
    if not wish.node_price:
        raise BadRequest(
            code="elastic-most-cost",
            what="a limit of cost has no meaning without the price of a node-hour",
            fix="say what a node-hour costs: --price N",
        )


MOST_MONEY = 10**9  # units of the currency
