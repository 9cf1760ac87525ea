"""One deed for each of many: every refusal is told, none stops the rest."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from headnode.apps.cli.output import Output

    T = TypeVar("T")


def for_each(things: "Iterable[T]", deed: "Callable[[T], None]", out: "Output") -> int:
    """Do the deed for each thing; tell each refusal; return the worst exit status.

    Raises:  Unavailable, at once: what is away for one is away for all.
    """
    from headnode.core.model.errors import Refused

    worst = 0
    for thing in things:
        try:
            deed(thing)
        except Refused as no:
            out.problem(no)
            worst = max(worst, no.exit_status)
    return worst
