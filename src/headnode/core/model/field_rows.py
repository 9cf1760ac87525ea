"""What the catalogue of options says of each option, and the options that jobs and tasks share.

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


NEEDS = (
    JobOption("features", "features",
        "features that every node of {whose} must have; a list inside the list: one of them",
        fields=("needs.features",), allow=(QUEUED,), example=["gpu", ["big", "huge"]],
        slash=SlashName("feature", "nodes", "FEATURE,...",
                        "Features a node must have; big|huge: either of them", aliases=("features",))),
    JobOption("lacking", "names", "features that the nodes must not have",
        fields=("needs.lacking",), allow=(QUEUED,),
        slash=SlashName("lacking", "nodes", "FEATURE,...", "Features a node must not have")),
    JobOption("feature_patterns", "patterns",
        "regular expressions: for each, the node has a feature that matches it",
        fields=("needs.feature_patterns",), allow=(QUEUED,),
        slash=SlashName("featurepattern", "nodes", "REGEX",
                        "Regular expression that a feature of the node must match")),
    JobOption("architecture", "names", "architecture of the nodes, or several alternatives",
        fields=("needs.architectures",), allow=(QUEUED,), example="x86_64",
        slash=SlashName("architecture", "nodes", "NAME,...",
                        "Architecture of the node; several: one of them", aliases=("arch",))),
    JobOption("system", "names", "operating system of the nodes, or several alternatives",
        fields=("needs.systems",), allow=(QUEUED,), example="Linux",
        slash=SlashName("system", "nodes", "NAME,...", "Operating system of the node; several: one of them",
                        aliases=("os",))),
    JobOption("only_nodes", "nodes", "use only these nodes",
        fields=("needs.names",), allow=(QUEUED,), example="node[1-5]",
        slash=SlashName("onlynodes", "nodes", "NODE,...", "Run on these nodes only")),
    JobOption("avoid_nodes", "nodes", "do not use these nodes", fields=("needs.excluded",), allow=(QUEUED,),
        slash=SlashName("avoidnodes", "nodes", "NODE,...", "Run on none of these nodes")),
    JobOption("node_patterns", "patterns",
        "regular expressions: the whole name of a node matches one of them",
        fields=("needs.patterns",), allow=(QUEUED,), example="fast[0-9]+",
        slash=SlashName("nodepattern", "nodes", "REGEX",
                        "Regular expression that the node's name must match")),
    JobOption("avoid_patterns", "patterns", "regular expressions: the name of a node matches none of them",
        fields=("needs.excluded_patterns",), allow=(QUEUED,),
        slash=SlashName("avoidpattern", "nodes", "REGEX",
                        "Regular expression that the node's name must not match")),
    JobOption("node_disk", "memory", "disk where tasks write that every node of {whose} must have",
        fields=("needs.minimum_disk",), allow=(QUEUED,), example="1 TB",
        slash=SlashName("diskpernode", "nodes", "MB", "Disk a node must have")),
    JobOption("node_swap", "memory", "swap that every node of {whose} must have",
        fields=("needs.minimum_swap",), allow=(QUEUED,),
        slash=SlashName("swappernode", "nodes", "MB", "Swap a node must have")),
    JobOption("node_virtual", "memory", "memory and swap together that every node of {whose} must have",
        fields=("needs.minimum_virtual",), allow=(QUEUED,),
        slash=SlashName("virtualpernode", "nodes", "MB", "Memory and swap together a node must have")),
    JobOption("node_speed", "speed", "speed that every node of {whose} must have",
        fields=("needs.minimum_speed",), allow=(QUEUED,), example="2.4 GHz",
        slash=SlashName("speedpernode", "nodes", "MHZ", "Speed a node must have")),
    JobOption("sockets_per_node", "whole", "sockets that every node of {whose} must have",
        fields=("needs.minimum_sockets",), allow=(QUEUED,), example=2,
        slash=SlashName("socketspernode", "nodes", "N", "Sockets a node must have")),
    JobOption("cores_per_socket", "whole", "cores that each socket of every node of {whose} must have",
        fields=("needs.minimum_cores_per_socket",), allow=(QUEUED,), example=16,
        slash=SlashName("corespersocket", "nodes", "N", "Cores each socket of a node must have")),
    JobOption("threads_per_core", "whole", "threads that each core of every node of {whose} must have",
        fields=("needs.minimum_threads_per_core",), allow=(QUEUED,), example=2,
        slash=SlashName("threadspercore", "nodes", "N", "Threads each core of a node must have")),
)  # fmt: skip
"""What is demanded of every node of a job or of a task; ``{whose}`` in a help is one of the two."""
