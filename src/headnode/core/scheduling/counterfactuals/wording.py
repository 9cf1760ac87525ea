"""Changes of a job in words, such as ``with 14 processors instead of 16``."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from headnode.core.model.job import JobRequest, NodeGroupOp
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.node_words import in_words as needs_in_words
from headnode.core.model.quantities import FOREVER, HIGHEST, Priority, Seconds, format_priority
from headnode.core.model.time_limits import format_time_limit
from headnode.core.scheduling.counterfactuals.axes import MINUTE, What, asked_size
from headnode.core.scheduling.counterfactuals.search import Change, Offer
from headnode.core.scheduling.reasons import counted


def in_words(offer: Offer, asked: JobRequest) -> str:
    """Return what is different, as the end of a sentence: it would start now ...

    `asked` is the request as it is.
    """
    said: list[str] = []
    for change in offer.changes:
        words = _WORDS[change.what](change, asked)
        shared = said and said[-1].startswith("with ") and words.startswith("with ")
        said.append(words.removeprefix("with ") if shared else words)
    return " and ".join(said)


def _run_time(change: Change, asked: JobRequest) -> str:
    longest = f"with a run time limit of at most {_span(Seconds(change.value * MINUTE))}"
    return longest if asked.run_time == FOREVER else f"{longest} instead of {_span(asked.run_time)}"


def _span(limit: Seconds) -> str:
    """Return a limit as it is typed."""
    return format_time_limit(limit)


def _size(change: Change, asked: JobRequest) -> str:
    size = asked_size(asked)
    least = "" if asked.minimum == asked.maximum else "at least "
    return f"with {least}{counted(change.value, asked.unit)} instead of {size}"


def _size_again(change: Change, asked: JobRequest) -> str:
    return f"{_size(change, asked)}, submitted again"


def _licences(change: Change, asked: JobRequest) -> str:
    wish = next(wish for wish in asked.licences if wish.feature == change.about)
    if not change.value:
        return f"without licence {change.about!r}"
    return f"with {change.value} of licence {change.about!r} instead of {wish.amount}"


def _requested(_: Change, asked: JobRequest) -> str:
    left = _other_wishes(asked)
    return f"on any node{left} instead of {_listed(asked.requested_nodes)}"


def _other_wishes(asked: JobRequest) -> str:
    """Return what the nodes must be when it is not asked for any by name."""
    return "".join(_wishes(asked))


def _wishes(asked: JobRequest) -> Iterator[str]:
    if asked.node_groups:
        word = " and " if asked.node_group_op is NodeGroupOp.INTERSECT else " or "
        yield f" of node group {word.join(map(repr, asked.node_groups))}"
    if asked.minimum_memory is not None:
        yield f" with at least {asked.minimum_memory} MB of memory"
    if asked.minimum_processors_per_node is not None:
        yield f" with at least {counted(asked.minimum_processors_per_node, 'processor')}"


def _node_need(change: Change, asked: JobRequest) -> str:
    dropped = NodeNeeds(**{change.about: getattr(asked.needs, change.about)})
    return f"on any nodes instead of nodes {needs_in_words(dropped)}"


def _task_nodes(change: Change, asked: JobRequest) -> str:
    part = asked.parts[int(change.about.partition(",")[0]) - 1]
    group = [f"in node group {part.node_group!r}"] if part.node_group else []
    words = ", ".join([*group, *filter(None, [needs_in_words(part.needs)])])
    who = f"task{'s' if ',' in change.about else ''} {change.about.replace(',', ', ')}"
    return f"with {who if asked.together else 'its tasks'} on any nodes instead of nodes {words}"


def _listed(names: tuple[str, ...], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _group(change: Change, asked: JobRequest) -> str:
    groups = [change.about] if change.about else list(asked.node_groups)
    return f"on nodes outside node group {' or '.join(map(repr, groups))} too"


def _minimum(noun: str, field: str) -> Callable[[Change, JobRequest], str]:
    def words(change: Change, asked: JobRequest) -> str:
        bound: int = getattr(asked, field)
        if not change.value:
            return f"on nodes with less than {bound} {noun} too"
        return f"on nodes with at least {change.value} {noun} instead of {bound}"

    return words


def _maximum(noun: str, field: str) -> Callable[[Change, JobRequest], str]:
    def words(change: Change, asked: JobRequest) -> str:
        bound: int = getattr(asked, field)
        if not change.value:
            return f"on nodes with more than {bound} {noun} too"
        return f"on nodes with at most {change.value} {noun} instead of {bound}"

    return words


def _memory(change: Change, asked: JobRequest) -> str:
    return f"with {change.value} MB of memory for each processor instead of {asked.memory}"


def _priority(change: Change, _: JobRequest) -> str:
    or_higher = "" if change.value == HIGHEST else " or higher"
    return f"with priority {format_priority(Priority(change.value))}{or_higher}"


def _plain(words: str) -> Callable[[Change, JobRequest], str]:
    return lambda _change, _asked: words


_WORDS: Mapping[What, Callable[[Change, JobRequest], str]] = MappingProxyType(
    {
        What.RUN_TIME: _run_time,
        What.SIZE: _size,
        What.SIZE_AGAIN: _size_again,
        What.RESERVATION: _plain("outside of its reservation"),
        What.EXCLUSIVE: _plain("sharing its nodes with other jobs"),
        What.SINGLE_NODE: _plain("on several nodes instead of one"),
        What.REQUESTED_NODES: _requested,
        What.EXCLUDED_NODES: lambda _, asked: (
            f"on the nodes it excludes too: {_listed(asked.excluded_nodes)}"
        ),
        What.REQUIRED_NODES: lambda _, asked: (
            f"without the nodes its tasks require: {_listed(asked.required_nodes)}"
        ),
        What.NODE_GROUP: _group,
        What.NODE_NEED: _node_need,
        What.TASK_NODES: _task_nodes,
        What.UNIFORM: _plain("on nodes of several of its node groups at once"),
        What.MINIMUM_MEMORY: _minimum("MB of memory", "minimum_memory"),
        What.MAXIMUM_MEMORY: _maximum("MB of memory", "maximum_memory"),
        What.MINIMUM_PROCESSORS: _minimum("processors", "minimum_processors_per_node"),
        What.MAXIMUM_PROCESSORS: _maximum("processors", "maximum_processors_per_node"),
        What.MEMORY: _memory,
        What.LICENCES: _licences,
        What.PRIORITY: _priority,
    }
)
