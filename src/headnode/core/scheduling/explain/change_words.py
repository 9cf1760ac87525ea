"""Changes of a job in words, such as ``with 14 processors instead of 16``."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from headnode.core.model.job import JobRequest, NodeGroupOp
from headnode.core.model.node_needs import NodeNeeds, needs_in_words
from headnode.core.model.quantities import (
    FOREVER,
    HIGHEST,
    Priority,
    Seconds,
    format_priority,
    format_time_limit,
)
from headnode.core.scheduling.explain.changes import MINUTE, ChangeKind, size_to_start
from headnode.core.scheduling.explain.counterfactual import RequestChange, Suggestion
from headnode.core.scheduling.reasons import counted


def changes_in_words(offer: Suggestion, request: JobRequest) -> str:
    """Return what is different, as the end of a sentence: it would start now ...

    `request` is the request as it is.
    """
    said: list[str] = []
    for change in offer.changes:
        words = _WORDS[change.what](change, request)
        shared = said and said[-1].startswith("with ") and words.startswith("with ")
        said.append(words.removeprefix("with ") if shared else words)
    return " and ".join(said)


def _run_time(change: RequestChange, request: JobRequest) -> str:
    longest = f"with a run time limit of at most {_span(Seconds(change.value * MINUTE))}"
    return longest if request.run_time == FOREVER else f"{longest} instead of {_span(request.run_time)}"


def _span(limit: Seconds) -> str:
    """Return a limit as it is typed."""
    return format_time_limit(limit)


def _size(change: RequestChange, request: JobRequest) -> str:
    size = size_to_start(request)
    least = "" if request.minimum == request.maximum else "at least "
    return f"with {least}{counted(change.value, request.unit)} instead of {size}"


def _size_again(change: RequestChange, request: JobRequest) -> str:
    return f"{_size(change, request)}, submitted again"


def _licences(change: RequestChange, request: JobRequest) -> str:
    licence = next(each for each in request.licences if each.feature == change.about)
    if not change.value:
        return f"without licence {change.about!r}"
    return f"with {change.value} of licence {change.about!r} instead of {licence.amount}"


def _requested(_: RequestChange, request: JobRequest) -> str:
    left = _other_demands(request)
    return f"on any node{left} instead of {_listed(request.requested_nodes)}"


def _other_demands(request: JobRequest) -> str:
    """Return what the nodes must be when it is not asked for any by name."""
    return "".join(_demands(request))


def _demands(request: JobRequest) -> Iterator[str]:
    if request.node_groups:
        word = " and " if request.node_group_op is NodeGroupOp.INTERSECT else " or "
        yield f" of node group {word.join(map(repr, request.node_groups))}"
    if request.minimum_memory is not None:
        yield f" with at least {request.minimum_memory} MB of memory"
    if request.minimum_processors_per_node is not None:
        yield f" with at least {counted(request.minimum_processors_per_node, 'processor')}"


def _node_need(change: RequestChange, request: JobRequest) -> str:
    dropped = NodeNeeds(**{change.about: getattr(request.needs, change.about)})
    return f"on any nodes instead of nodes {needs_in_words(dropped)}"


def _task_nodes(change: RequestChange, request: JobRequest) -> str:
    part = request.parts[int(change.about.partition(",")[0]) - 1]
    group = [f"in node group {part.node_group!r}"] if part.node_group else []
    words = ", ".join([*group, *filter(None, [needs_in_words(part.needs)])])
    who = f"task{'s' if ',' in change.about else ''} {change.about.replace(',', ', ')}"
    return f"with {who if request.together else 'its tasks'} on any nodes instead of nodes {words}"


def _listed(names: tuple[str, ...], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _group(change: RequestChange, request: JobRequest) -> str:
    groups = [change.about] if change.about else list(request.node_groups)
    return f"on nodes outside node group {' or '.join(map(repr, groups))} too"


def _minimum(noun: str, field: str) -> Callable[[RequestChange, JobRequest], str]:
    def words(change: RequestChange, request: JobRequest) -> str:
        bound: int = getattr(request, field)
        if not change.value:
            return f"on nodes with less than {bound} {noun} too"
        return f"on nodes with at least {change.value} {noun} instead of {bound}"

    return words


def _maximum(noun: str, field: str) -> Callable[[RequestChange, JobRequest], str]:
    def words(change: RequestChange, request: JobRequest) -> str:
        bound: int = getattr(request, field)
        if not change.value:
            return f"on nodes with more than {bound} {noun} too"
        return f"on nodes with at most {change.value} {noun} instead of {bound}"

    return words


def _memory(change: RequestChange, request: JobRequest) -> str:
    return f"with {change.value} MB of memory for each processor instead of {request.memory}"


def _processors_per_gpu(change: RequestChange, request: JobRequest) -> str:
    return f"with {counted(change.value, 'processor')} for each GPU instead of {request.processors_per_gpu}"


def _priority(change: RequestChange, _: JobRequest) -> str:
    or_higher = "" if change.value == HIGHEST else " or higher"
    return f"with priority {format_priority(Priority(change.value))}{or_higher}"


def _plain(words: str) -> Callable[[RequestChange, JobRequest], str]:
    return lambda _change, _asked: words


_WORDS: Mapping[ChangeKind, Callable[[RequestChange, JobRequest], str]] = MappingProxyType(
    {
        ChangeKind.RUN_TIME: _run_time,
        ChangeKind.SIZE: _size,
        ChangeKind.SIZE_AGAIN: _size_again,
        ChangeKind.RESERVATION: _plain("outside of its reservation"),
        ChangeKind.EXCLUSIVE: _plain("sharing its nodes with other jobs"),
        ChangeKind.SINGLE_NODE: _plain("on several nodes instead of one"),
        ChangeKind.CONTIGUOUS: _plain("on nodes that are not contiguous"),
        ChangeKind.REQUESTED_NODES: _requested,
        ChangeKind.EXCLUDED_NODES: lambda _, asked: (
            f"on the nodes it excludes too: {_listed(asked.excluded_nodes)}"
        ),
        ChangeKind.REQUIRED_NODES: lambda _, asked: (
            f"without the nodes its tasks require: {_listed(asked.required_nodes)}"
        ),
        ChangeKind.NODE_GROUP: _group,
        ChangeKind.NODE_NEED: _node_need,
        ChangeKind.TASK_NODES: _task_nodes,
        ChangeKind.UNIFORM: _plain("on nodes of several of its node groups at once"),
        ChangeKind.MINIMUM_MEMORY: _minimum("MB of memory", "minimum_memory"),
        ChangeKind.MAXIMUM_MEMORY: _maximum("MB of memory", "maximum_memory"),
        ChangeKind.MINIMUM_PROCESSORS: _minimum("processors", "minimum_processors_per_node"),
        ChangeKind.MAXIMUM_PROCESSORS: _maximum("processors", "maximum_processors_per_node"),
        ChangeKind.MEMORY: _memory,
        ChangeKind.PROCESSORS_PER_GPU: _processors_per_gpu,
        ChangeKind.LICENCES: _licences,
        ChangeKind.PRIORITY: _priority,
    }
)
