"""What the catalogue of options says of each option of a job or a task.

Cost:    imports nothing: the command line reads the catalogue at every start.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    Form = Literal[
        "text", "flag", "whole", "names", "nodes", "patterns", "pairs", "jobs", "named_jobs",
        "dependencies", "edges", "span", "moment", "memory", "speed", "priority", "bounds", "at_least",
        "memory_bounds", "codes", "licences", "order", "group_op", "type", "sweep", "held", "features",
        "limits", "distribution", "hold", "staged_in", "staged_out", "own",
    ]  # fmt: skip

QUEUED, RUNNING, OPERATORS, TEMPLATES = "queued", "running", "operators", "templates"
"""When and by whom an option may be changed: in a queued job, in a running one, by operators in the jobs of
others.  Templates have rules for those that they are allowed.
"""


class SlashName:
    """The name of a command-line option, and its line of help.

    `value` is a word for what follows the name; "" for a flag, which may have a value too.  `summary` is the
    line of help; without one, it is the help of the option.  A name without a `heading` is no option of `hn`:
    `hn` sends it for what was typed otherwise.
    """

    __slots__ = ("aliases", "heading", "name", "repeats", "short", "summary", "value")

    def __init__(
        self,
        name: str,
        heading: str,
        value: str = "",
        summary: str = "",
        *,
        aliases: "tuple[str, ...]" = (),
        short: str = "",
        repeats: bool = False,
    ) -> None:
        self.name = name
        self.heading = heading
        self.value = value
        self.summary = summary
        self.aliases = aliases
        self.short = short
        self.repeats = repeats

    @property
    def spellings(self) -> "tuple[str, ...]":
        """Every name it answers to, its own first."""
        return (self.name, *self.aliases)


class JobOption:
    """An option of jobs or tasks: its name in each interface, and by whom and when it may be changed.

    `key` is its name in the native form; an option that is not `in_files` has none there.  `form` is the kind
    of its values: each language has for each kind how it is read and written.  `fields` are the fields of
    `JobSpec` or `TaskSpec` that it fills, ``needs.x`` for one of `NodeNeeds`; by default the one of its name.
    `allow` says when and by whom it may change.  `limits` are the least and the most of a whole number.
    """

    __slots__ = ("allow", "example", "fields", "form", "help", "in_files", "key", "limits", "slash")

    def __init__(
        self,
        key: str,
        form: "Form",
        text: str,
        *,
        fields: "tuple[str, ...]" = (),
        example: "Any" = None,
        slash: SlashName | None = None,
        allow: "tuple[str, ...]" = (),
        in_files: bool = True,
        limits: "tuple[int, int] | None" = None,
    ) -> None:
        self.key = key
        self.form = form
        self.help = text
        self.fields = fields or (key,)
        self.example = example
        self.slash = slash
        self.allow = allow
        self.in_files = in_files
        self.limits = limits


def option_names(fields: "Iterable[str]", options: "Iterable[JobOption]") -> "list[str]":
    """Return the command-line options that set fields, sorted; a field that none sets is named itself.

    A field such as ``needs`` stands for all options of its parts, ``needs.features`` for that of one part.
    """
    names: dict[str, set[str]] = {}
    for option in options:
        if option.slash is not None:
            for field in option.fields:
                names.setdefault(field, set()).add(option.slash.name)
                names.setdefault(field.partition(".")[0], set()).add(option.slash.name)
    return sorted({name for field in fields for name in names.get(field, (field,))})


def fields_that(allowed: str, options: "Iterable[JobOption]") -> "frozenset[str]":
    """Return the fields that `options` allow to change: `QUEUED`, `RUNNING` or `OPERATORS`."""
    return frozenset(
        field.partition(".")[0] for option in options if allowed in option.allow for field in option.fields
    )
