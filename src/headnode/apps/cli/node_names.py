"""The names of nodes that people type: one by one, or as sets such as ``node[01-16]``."""

from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from headnode.apps.cli.options import Asked
    from headnode.apps.client.client import Client

MOST_NODES = 100_000
_OF_SETS = frozenset("[]!&^")
ALL_NODES = Option("all", "", "All nodes of the cluster, in place of names")


def all_or_named(asked: "Asked", client: "Client") -> list[str]:
    """Return the nodes that were typed, or every node where ``/all`` was.

    Raises:  BadRequest ``usage`` for both; ``nodes``.
    """
    if not asked.flag("all"):
        return names_of(asked.words)
    if asked.words:
        raise usage(f"all nodes were chosen, and {asked.words[0]!r} too", "leave out one of them")
    return [str(node["name"]) for node in client.ask("nodes")["nodes"]]


def names_of(words: "Sequence[str]") -> list[str]:
    """Return the names that words stand for, in the order in which they were typed.

    Raises:  BadRequest ``nodes``.

    >>> names_of(["a,n[08-10]", "b"]), names_of(["n[1-4]!n3"])
    (['a', 'n08', 'n09', 'n10', 'b'], ['n1', 'n2', 'n4'])
    """
    found: list[str] = []
    for word in words:
        found += _set(word) if _OF_SETS & set(word) else word.split(",")
    return [name for name in found if name]


def _set(text: str) -> list[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    from headnode.core.model.errors import BadRequest

    try:
        found = NodeSet(text, resolver=RESOLVER_NOGROUP)
        if len(found) > MOST_NODES:
            raise NodeSetException(f"it names more than {MOST_NODES} nodes")
    except NodeSetException as error:
        raise BadRequest(
            code="nodes", what=f"{text!r} is no set of nodes: {error}", fix="write names as in node[1-8,12]"
        ) from None
    return [str(name) for name in found]
