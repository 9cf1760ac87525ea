"""How the memory of each node that a batch script requests is reserved."""

from typing import Any

from headnode.core.model.job import HeldAmounts


def memory_fields(memory: int, *, array: bool, processors: int) -> dict[str, Any]:
    """Return the field of the job that reserves so many MB of each node; 0: none.

    The elements of an array are tasks of one job, and each has the memory for itself.  So there it is the
    memory of each of the `processors` that an element has on a node, rounded up.

    >>> memory_fields(1000, array=True, processors=3)
    {'process_memory': 334}
    """
    if not memory:
        return {}
    if array:
        return {"process_memory": -(-memory // max(1, processors))}
    return {"held": HeldAmounts(memory=memory)}


def fewest_on_a_node(processors: int, nodes: int, of_node: int) -> int:
    """Return how many of the processors of a program are on the node that has the fewest.

    `of_node`: how many a node has, which says on how many nodes they are; 0: they are on so many `nodes`.

    >>> fewest_on_a_node(6, 2, 0), fewest_on_a_node(6, 1, 3), fewest_on_a_node(5, 1, 2)
    (3, 3, 1)
    """
    return (processors % of_node or of_node) if of_node else processors // nodes
