"""The options that were typed, in refusals: the head names fields of the request, or options by one name."""

from headnode.apps.cli.options import Arguments
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from headnode.core.model.field_rows import JobOption


def name_typed_options(error: HeadnodeError, args: Arguments) -> None:
    """Let an error name the option as it was typed: ``--deadline`` where the head has ``endby``."""
    named = {name: typed for name, typed in args.spelled.items() if repr(name) in error.what}
    if named:
        if any(_plain(typed) != name for name, typed in named.items()):
            for name, typed in named.items():
                error.what = error.what.replace(repr(name), repr(typed), 1)
        return
    typed = next((args.spelled[name] for name in _options_of(error.path) if name in args.spelled), "")
    if typed and typed not in error.what:
        error.what = f"option {typed!r}: {error.what}"


def _plain(typed: str) -> str:
    return typed.strip("-/").replace("-", "").casefold()


def _options_of(path: "tuple[str | int, ...]") -> "Iterable[str]":
    """Yield the options that set the field to which a path leads."""
    options: Iterable[JobOption] = OPTIONS_OF_JOBS
    if len(path) > 2 and path[0] == "tasks":
        path, options = path[2:], OPTIONS_OF_TASKS
    for option in options:
        if option.slash is not None and path and (path[0] in option.fields or _dotted(path) in option.fields):
            yield option.slash.name


def _dotted(path: "tuple[str | int, ...]") -> str:
    return ".".join(map(str, path[:2]))
