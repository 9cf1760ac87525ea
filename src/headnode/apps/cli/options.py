"""Options as data, and the parser of all spellings: ``/runtime:90``, ``--runtime 90``, ``-runtime:90``."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headnode.core.model.errors import BadRequest


class CliOption:
    """One option.  `value` says in a word what follows it; "" makes it a flag, which may have a value too.

    `short` is the letter of its short form, ``n`` for ``-n 4`` and ``-n4``; `group` the heading of its
    paragraph in help.
    """

    __slots__ = ("aliases", "group", "name", "repeats", "short", "summary", "value")

    def __init__(
        self,
        name: str,
        value: str,
        summary: str,
        aliases: "Sequence[str]" = (),
        *,
        repeats: bool = False,
        short: str = "",
    ) -> None:
        self.name = name
        self.value = value
        self.summary = summary
        self.aliases = tuple(aliases)
        self.repeats = repeats
        self.short = short
        self.group = ""

    @property
    def spellings(self) -> "tuple[str, ...]":
        """Every name it answers to, its own first."""
        return (self.name, *self.aliases)


def grouped(heading: str, *options: CliOption) -> "tuple[CliOption, ...]":
    """Put options into one paragraph of the help page."""
    for option in options:
        option.group = heading
    return options


class Arguments:
    """What was typed: the value of each option by its own name, and the words that are no options.

    `hpc_pack`: it was typed for a program of HPC Pack, such as ``job``; a value means what it means there.
    """

    __slots__ = ("hpc_pack", "options", "spelled", "words")

    def __init__(self) -> None:
        self.hpc_pack = False
        self.options: dict[str, list[str]] = {}
        self.spelled: dict[str, str] = {}  # {name of an option: as it was typed last}
        self.words: list[str] = []

    def text(self, name: str) -> str | None:
        """Return the value of an option, or None when it was not given."""
        values = self.options.get(name)
        return values[-1] if values else None

    def flag(self, name: str) -> bool:
        """Return whether a flag was given and is not false.

        Raises:  BadRequest ``usage`` when its value is no truth value.
        """
        value = (self.text(name) or "false").lower()
        if value not in ("true", "1", "false", "0"):
            raise usage(f"option {name!r} is true or false, not {value!r}", "leave the value out for true")
        return value in ("true", "1")

    def number(self, name: str) -> int | None:
        """Return the value of an option that counts something.

        Raises:  BadRequest ``usage`` when it is no whole number.
        """
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 18):
            raise usage(
                f"option {name!r} takes a whole number, not {value!r}", f"write --{name} 100, for example"
            )
        return int(value)

    def memory(self, name: str) -> int | None:
        """Return the MB of an option that is an amount of memory or disk; None when it was not given.

        It is typed with its unit, or in MB.

        Raises:  BadRequest ``usage``.
        """
        value = self.text(name)
        if value is None:
            return None
        from headnode.core.formats.slash_options import read_memory
        from headnode.core.model.errors import BadRequest

        try:
            return read_memory(value) or 0
        except BadRequest:
            raise usage(
                f"option {name!r} takes an amount of memory, not {value!r}",
                f"write --{name} 64G, for example",
            ) from None


class _ArgumentReader:
    """Reads one command's arguments.  `positionals` words come before the words that are left alone."""

    def __init__(
        self, options: "Iterable[CliOption]", positionals: int | None, *, hpc_pack: bool = False
    ) -> None:
        self._hpc_pack = hpc_pack
        self._known: dict[str, CliOption] = {}
        self._shorts: dict[str, CliOption] = {}
        for option in options:
            if option.short:
                self._shorts.setdefault(option.short, option)
            for spelling in option.spellings:  # where two options share a spelling, the first has it
                self._known.setdefault(_plain(spelling), option)
        self._positionals = positionals
        self._asked = Arguments()

    def read(self, arguments: "Sequence[str]") -> Arguments:
        rest = list(reversed(arguments))
        while rest:
            argument = rest.pop()
            if argument == "--":
                self._asked.words.extend(reversed(rest))
                break
            if argument.startswith("/") and self._slash(argument):
                continue
            if len(argument) > 1 and argument.startswith("-"):
                self._dash(argument, rest)
                continue
            self._asked.words.append(argument)
            if self._positionals is not None and len(self._asked.words) > self._positionals:
                self._asked.words.extend(reversed(rest))  # the command's own arguments
                break
        return self._asked

    def _slash(self, argument: str) -> bool:
        """Take `argument` if it is an option; False leaves it as a word, such as a path."""
        if argument == "/?":
            self._keep(self._known["help"], "true", argument)
            return True
        name, colon, value = argument[1:].partition(":")
        option = self._known.get(_plain(name))
        if option is not None:
            if not colon and option.value:
                raise _needs_value(f"/{name}", f"/{name}:{option.value}")
            self._keep(option, value if colon else "true", argument)
            return True
        if colon and name.isalnum():
            raise self._unknown(f"/{name}", "/")
        self._refuse_slip(name)
        return False

    def _refuse_slip(self, name: str) -> None:
        """Refuse a flag misspelt by a letter or two, such as /exclusve; everything else is a path."""
        if name.isalpha() and len(name) > 4 and (near := nearest(name.lower(), self._known, 0.8)):
            raise usage(f"option '/{name}' is unknown", f"did you mean /{near}? a program: write it after --")

    def _dash(self, argument: str, rest: "list[str]") -> None:
        name, equals, value = _split_word(argument.lstrip("-"))
        long = argument.startswith("--") or (self._hpc_pack and (len(name) > 1 or equals == ":"))
        option = self._known.get(_plain(name)) if long else None
        if option is None and not argument.startswith("--"):
            option, equals, value = self._short(argument)
        if option is None:
            raise self._unknown(argument.partition("=")[0], "--")
        if equals or not option.value:
            self._keep(option, value if equals else "true", argument)
        elif rest:
            self._keep(option, rest.pop(), argument)
        else:
            raise _needs_value(argument, f"{argument} {option.value}")

    def _short(self, argument: str) -> "tuple[CliOption | None, str, str]":
        """Return the option of ``-n``, ``-n4`` or ``-?``, with what is attached; only a number may be."""
        if argument == "-?":
            return self._known["help"], "", ""
        option, attached = self._shorts.get(argument[1]), argument[2:]
        if option is None or (attached and not (option.value and attached[0].isdigit())):
            return None, "", ""
        return option, attached[:1], attached

    def _keep(self, option: CliOption, value: str, argument: str) -> None:
        values = self._asked.options.setdefault(option.name, [])
        if values and not option.repeats and values[-1] != value:
            raise usage(f"{argument!r} was given before as {values[-1]!r}", "give it once")
        values.append(value)
        typed = argument.replace("=", ":").partition(":")[0]
        is_short = typed[1:2] in self._shorts and _plain(typed.lstrip("-/")) not in self._known
        self._asked.spelled[option.name] = typed[:2] if is_short else typed

    def _unknown(self, spelling: str, prefix: str) -> "BadRequest":
        from headnode.apps.cli.other_schedulers import advice_on

        what = f"option {spelling!r} is unknown"
        if advice := advice_on(spelling, self._known):
            return usage(what, advice)
        near = nearest(_plain(spelling.lstrip("/-")), self._known, 0.6)
        return usage(what, f"did you mean {prefix}{near}?" if near else "see the options with --help")


def read_arguments(
    arguments: "Sequence[str]",
    options: "Iterable[CliOption]",
    positionals: int | None = None,
    *,
    hpc_pack: bool = False,
) -> Arguments:
    """Read the arguments of one command.

    `positionals` None takes options anywhere.  A number means that the word after so many words is a
    program: it and everything behind it is left alone.  A word that starts with a slash is an option only
    if the name before its colon is one, so ``/bin/true`` is a program.  With `hpc_pack` a single dash begins
    a long name too, and a short form is none.
    Raises:  BadRequest ``usage``, with the nearest right name for an unknown one.
    """
    asked = _ArgumentReader(options, positionals, hpc_pack=hpc_pack).read(arguments)
    asked.hpc_pack = hpc_pack
    return asked


def nearest(word: str, names: "Iterable[str]", likeness: float = 0.6) -> str:
    """Return the name most like `word`, or "" when none is.  1 is the highest `likeness`."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(names), n=1, cutoff=likeness)), "")


def usage(what: str, fix: str) -> "BadRequest":
    """Return the error for a command that was typed wrongly (exit status 2)."""
    from headnode.core.model.errors import BadRequest

    return BadRequest(code="usage", what=what, fix=fix)


def the_name(args: Arguments, thing: str, fix: str) -> str:
    """Return the one word of a command, the name of a thing.

    Raises:  BadRequest ``usage`` when there is none, or there are more.
    """
    if len(args.words) != 1:
        raise usage(f"this command needs the name of one {thing}", fix)
    return args.words[0]


def _needs_value(spelling: str, example: str) -> "BadRequest":
    return usage(f"option {spelling!r} needs a value", f"write {example}")


def _split_word(text: str) -> "tuple[str, str, str]":
    """Divide an option at its first = or colon, as in ``--runtime=90`` and ``--runtime:90``."""
    ends = [at for mark in "=:" if (at := text.find(mark)) >= 0]
    at = min(ends, default=len(text))
    return text[:at], text[at : at + 1], text[at + 1 :]


def _plain(name: str) -> str:
    """Return a name as options are looked up: ``--num-processors`` is ``/NumProcessors``."""
    return name.lower().replace("-", "")


_OTHER_JOB_STATES = {
    "notsubmitted": "Configuring",
    "cancelled": "Canceled",
    "completed": "Finished",
    "pending": "Queued",
    "pd": "Queued",  # these are the short forms of squeue
    "r": "Running",
    "s": "Suspended",
    "cd": "Finished",
    "f": "Failed",
    "ca": "Canceled",
}
NODE_STATES = ("Pending", "Ready", "Paused", "Draining", "Drained", "Unreachable")
_OTHER_NODE_STATES = {"online": "Ready", "offline": "Drained"}


def read_states(text: str | None, known: "tuple[str, ...]" = ()) -> "list[str] | None":
    """Read a list of states in the spelling of any supported system; None for no list, ``*`` or ``all``.

    `known`: those that there are; empty: those of jobs.
    Raises:  BadRequest ``usage`` for a word that is no state.
    """
    if text is None or text.strip().lower() in ("*", "all"):
        return None
    from headnode.protocol.state_names import JOB_STATES

    return [_read_state(word, known or JOB_STATES) for word in text.split(",")]


def _read_state(word: str, known: "tuple[str, ...]") -> str:
    plain = word.lower().replace("_", "").replace(" ", "")
    elsewhere = _OTHER_NODE_STATES if known is NODE_STATES else _OTHER_JOB_STATES
    for state in known:
        if plain == state.lower().replace(" ", "") or elsewhere.get(plain) == state:
            return state

    raise usage(f"state {word!r} is unknown", f"choose from: {', '.join(known)}")
