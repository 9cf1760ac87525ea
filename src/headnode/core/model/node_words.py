"""What is demanded of nodes, in words that go on after ``on nodes``."""

from collections.abc import Iterator, Sequence

from headnode.core.model.node_needs import NodeNeeds

_MOST_NAMED = 4


def in_words(needs: NodeNeeds) -> str:
    """Return the needs as the end of a sentence; nothing for any node.

    >>> in_words(NodeNeeds(features=(("gpu", "tpu"),), minimum_memory=64, lacking=("slow",)))
    "with feature 'gpu' or 'tpu', without feature 'slow', with at least 64 MB of memory"
    """
    return ", ".join((*_names(needs), *_features(needs), *_machines(needs)))


def _names(needs: NodeNeeds) -> Iterator[str]:
    if needs.names:
        yield f"named {_any_of(needs.names)}"
    if needs.excluded:
        yield f"not named {_any_of(needs.excluded)}"
    if needs.patterns:
        yield f"with a name that matches {_any_of(needs.patterns)}"
    if needs.excluded_patterns:
        yield f"with a name that does not match {_any_of(needs.excluded_patterns)}"


def _features(needs: NodeNeeds) -> Iterator[str]:
    for choice in needs.features:
        yield f"with feature {_any_of(choice)}"
    for pattern in needs.feature_patterns:
        yield f"with a feature that matches {pattern!r}"
    if needs.lacking:
        yield f"without feature {_any_of(needs.lacking)}"


def _machines(needs: NodeNeeds) -> Iterator[str]:
    if needs.architectures:
        yield f"of architecture {_any_of(needs.architectures)}"
    if needs.systems:
        yield f"with operating system {_any_of(needs.systems)}"
    for least, what in (
        (needs.minimum_memory, "MB of memory"),
        (needs.minimum_disk, "MB of disk"),
        (needs.minimum_swap, "MB of swap"),
        (needs.minimum_virtual, "MB of memory and swap together"),
        (needs.minimum_speed, "MHz"),
        (needs.minimum_processors, "processors"),
    ):
        if least:
            yield f"with at least {least} {what}"


def _any_of(names: Sequence[str]) -> str:
    shown = " or ".join(map(repr, names[:_MOST_NAMED]))
    return shown + (f" or {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
