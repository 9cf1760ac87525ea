"""Read the command line of a program of another scheduler by a table of its options; and the times on it.

Source:  Slurm 22.05, sacct(1), "--starttime"; sbatch(1), "--begin".
"""

import time

from headnode.core.formats.option_words import option_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from headnode.core.formats.batch.draft import ScriptOption
    from headnode.core.model.errors import HeadnodeError

    OptionTable: TypeAlias = "Mapping[str, ProgramOption]"
    Refuse: TypeAlias = "Callable[[str], ProgramRefusal]"


def errors_of_ours() -> "type[HeadnodeError]":
    """Import the errors of the head when there is one: their module costs as much as a short command."""
    from headnode.core.model.errors import HeadnodeError

    return HeadnodeError


class ProgramRefusal(Exception):
    """Ends a program: what it prints on standard error, each line behind its name, and its exit status."""

    def __init__(self, *lines: str, status: int = 1, prefix: str = "error: ") -> None:
        super().__init__(*lines)
        self.lines, self.status, self.prefix = lines, status, prefix


class ProgramOption:
    """An option: its letter, what it takes, as `option_words` names it; what becomes of it.

    `refused` says why it is refused, `ignored` why it has no effect; both empty: it is acted on.
    """

    __slots__ = ("ignored", "letter", "refused", "takes")

    def __init__(
        self, letter: str = "", takes: str = "always", *, refused: str = "", ignored: str = ""
    ) -> None:
        self.letter, self.takes, self.refused, self.ignored = letter, takes, refused, ignored


def acted_on(names: str) -> "dict[str, ProgramOption]":
    """Return options that are written as for `option_words`: ``long-name/l!``.

    >>> sorted(acted_on("all/a! name/n"))
    ['all', 'name']
    """
    return {name: ProgramOption(*how) for name, how in option_words(names).items()}


def ignored(names: str, why: str) -> "dict[str, ProgramOption]":
    """Return options without effect, written as for `acted_on`."""
    return {name: ProgramOption(one.letter, one.takes, ignored=why) for name, one in acted_on(names).items()}


def refused(names: str, why: str) -> "dict[str, ProgramOption]":
    """Return options that are refused, written as for `acted_on`."""
    return {name: ProgramOption(one.letter, one.takes, refused=why) for name, one in acted_on(names).items()}


def of_scripts(table: "Mapping[str, ScriptOption]", own: "Iterable[str]" = ()) -> "dict[str, ProgramOption]":
    """Return the options of batch scripts as those of the program that submits them.

    `own`: those that the program itself acts on, though in a script they are refused or have no effect.
    """
    options: dict[str, ProgramOption] = {}
    for name in sorted(table, key=lambda name: (name.lower(), name)):
        one = table[name]
        reasons = ("", "") if name in own else (one.refused, one.ignored)
        takes = "always" if one.argument else "never"
        options[name] = ProgramOption("", takes, refused=reasons[0], ignored=reasons[1])
    return options


def names_here(program: str, table: "OptionTable") -> str:
    """Return the sentence that lists what a program acts on, behind the refusal of another option."""
    known = [f"-{name}" for name, one in table.items() if not one.refused and not one.ignored]
    return f"here {program} has {' '.join(known) or 'no options'}"


class ProgramWords:
    """What was typed: the values of each option, and the words that are no options."""

    __slots__ = ("in_order", "options", "words")

    def __init__(self) -> None:
        self.options: dict[str, list[str]] = {}
        self.words: list[str] = []
        self.in_order: list[tuple[str, str]] = []  # every option in its order, with its value

    def text(self, name: str) -> "str | None":
        """Return the last value of an option; None if it was not given."""
        found = self.options.get(name)
        return found[-1] if found else None

    def value(self, name: str) -> str:
        """Return the last value of an option; empty if it was not given."""
        return self.text(name) or ""

    def merge(self, other: str, name: str) -> None:
        """Let `other` be another spelling of an option that takes several values."""
        if values := self.options.pop(other, None):
            self.options.setdefault(name, []).extend(values)

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return name in self.options

    def has_any(self, names: "Iterable[str]") -> bool:
        """Return whether one of several options was given."""
        return any(map(self.has, names))

    def parts(self, name: str) -> "list[str]":
        """Return the values of an option that takes several with commas between them, of all its uses."""
        return [part for value in self.options.get(name, ()) for part in value.split(",") if part]

    def jobs(self) -> "list[str]":
        """Return the words that name jobs, with commas or blanks between them."""
        return [part for word in self.words for part in word.split(",") if part]


def read_words(
    argv: "Sequence[str]", table: "OptionTable", *, stops: bool = False, status: int = 1
) -> ProgramWords:
    """Return what was typed, as getopt_long reads it; with `stops` the first word that is none ends it.

    Raises:  ProgramRefusal with `status` for an unknown option, with 1 for a refused one.
    """
    found, left = ProgramWords(), list(argv)
    letters = {option.letter: name for name, option in table.items() if option.letter}

    def refuse(what: str) -> ProgramRefusal:
        return ProgramRefusal(what, status=status, prefix="")

    while left:
        word = left.pop(0)
        if word == "--":
            found.words += left
            break
        if word.startswith("--"):
            spelling, equals, value = word[2:].partition("=")
            name = _whole_name(spelling, word, table, refuse)
            if not equals and table[name].takes == "always":
                value = _value(word, left, refuse)
            _keep(found, name, value, table)
        elif word.startswith("-") and len(word) > 1:
            _read_letters(word, left, table, letters, found, refuse)
        else:
            found.words.append(word)
            if stops:
                found.words += left
                break
    return found


def _read_letters(
    word: str,
    left: "list[str]",
    table: "OptionTable",
    letters: "Mapping[str, str]",
    args: ProgramWords,
    refuse: "Refuse",
) -> None:
    text = word[1:]
    while text:
        letter, text = text[0], text[1:]
        if letter not in letters:
            raise refuse(f"invalid option -- '{letter}'")
        name = letters[letter]
        if table[name].takes == "always":
            _keep(args, name, text or _value(f"-{letter}", left, refuse), table)
            return
        if table[name].takes == "by =":  # a value that may be left out is written behind the letter
            _keep(args, name, text, table)
            return
        _keep(args, name, "", table)


def read_pbs_words(
    program: str, argv: "Sequence[str]", table: "OptionTable", *, status: int = 2
) -> ProgramWords:
    """Return what was typed, as programs of PBS read options of one letter.

    Raises:  ProgramRefusal with `status` for an unknown option, with 1 for a refused one.
    """
    found, left, letters = ProgramWords(), list(argv), {name: name for name in table}

    def refuse(what: str) -> ProgramRefusal:
        return ProgramRefusal(what, names_here(program, table), status=status, prefix="")

    while left:
        word = left.pop(0)
        if word.startswith("-") and word != "-":
            _read_letters(word, left, table, letters, found, refuse)
        else:
            found.words.append(word)
    return found


def read_dashed(
    argv: "Sequence[str]", table: "OptionTable", refuse: "Refuse", *, together: bool = False
) -> ProgramWords:
    """Return what was typed with one dash before each option; `together`: ``-aJ NAME`` is ``-a -J NAME``.

    Raises:  what `refuse` makes of an option that is unknown or lacks its value.
    """
    found, left = ProgramWords(), list(argv)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            found.words.append(word)
            continue
        for name in _names_in(word[1:], table, together=together):
            if name not in table or (table[name].takes == "always" and not left):
                raise refuse(word)
            takes = table[name].takes == "always" or (table[name].takes == "if any" and _is_value(left))
            _keep(found, name, left.pop(0) if takes else "", table, dash="-")
    return found


def _names_in(text: str, table: "OptionTable", *, together: bool) -> "Sequence[str]":
    is_one = text in table or not together or not all(letter in table for letter in text)
    return [text] if is_one or any(table[each].takes != "never" for each in text[:-1]) else text


def _is_value(left: "Sequence[str]") -> bool:
    return bool(left) and not left[0].startswith("-")


def _value(word: str, left: "list[str]", refuse: "Refuse") -> str:
    if not left:
        raise refuse(f"option requires an argument -- '{word.lstrip('-')}'")
    return left.pop(0)


def _whole_name(name: str, word: str, table: "OptionTable", refuse: "Refuse") -> str:
    if name in table:
        return name
    meant = [each for each in table if name and each.startswith(name)]
    if len(meant) == 1:
        return meant[0]
    raise refuse(f"{'option' if meant else 'unrecognized option'} '{word}'{_choice(meant)}")


def _choice(meant: "Sequence[str]") -> str:
    listed = " ".join(f"'--{each}'" for each in meant)
    return f" is ambiguous; possibilities: {listed}" if meant else ""


def _keep(args: ProgramWords, name: str, value: str, table: "OptionTable", *, dash: str = "--") -> None:
    if table[name].refused:
        spelling = dash[: len(name)] + name  # one dash before a letter
        raise ProgramRefusal(f"{spelling} is not supported here: {table[name].refused}")
    args.options.setdefault(name, []).append(value)
    args.in_order.append((name, value))


def repeated(args: ProgramWords, show: "Callable[[], object]") -> int:
    """Show something, with ``--iterate`` again after each pause of so many seconds.

    Raises:  ProgramRefusal for a pause that is none.
    """
    value = args.text("iterate")
    if value is None:
        show()
        return 0
    pause = number_of(value, 6)
    if not pause:
        raise ProgramRefusal(f"Error: invalid entry for --iterate={value}")
    while True:
        show()
        print(flush=True)
        time.sleep(pause)


def number_of(text: str, digits: int = 18) -> int | None:
    """Return a number of at most so many digits; None for any other text.

    >>> number_of("12"), number_of("+1"), number_of("123", 2)
    (12, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


NOT_REACHED = "Unable to contact slurm controller (connect failure)"
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_CLOCKS = {"midnight": (0, 0), "noon": (12, 0), "elevenses": (11, 0), "fika": (15, 0), "teatime": (16, 0)}
_DATES = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H", "%Y-%m-%d", "%m/%d/%y", "%m/%d/%Y")


def moment(text: str, now: float, *, ahead: bool = False) -> float:
    """Return the time that is meant, in seconds since 1970; with `ahead` a time of day is that to come.

    Raises:  ProgramRefusal.
    """
    word = text.strip()
    lower = word.lower()
    if lower.startswith("now"):
        return now + _shift(lower[3:], text)
    if lower in ("today", "tomorrow"):
        return _of_day(now, 0, 0) + (86400 if lower == "tomorrow" else 0)
    if lower in _CLOCKS:
        return _next(now, *_CLOCKS[lower], ahead=ahead)
    if ":" in word and "-" not in word and "/" not in word:
        fields = word.split(":")
        if len(fields) in (2, 3) and all(
            each.isascii() and each.isdigit() and len(each) < 3 for each in fields
        ):
            hour, minute = int(fields[0]), int(fields[1])
            if hour < 24 and minute < 60:
                return _next(now, hour, minute, ahead=ahead)
    for form in _DATES if word[:1].isdigit() else ():
        try:
            return time.mktime(time.strptime(word.replace("-T", "T"), form))
        except (ValueError, OverflowError):
            continue
    if (seconds := number_of(word, 11)) is not None:
        return float(seconds)
    raise ProgramRefusal(f"Invalid time specification (pos=0): {text[:60]}")


def utc_time(at: float) -> str:
    """Return a time as the head is told it: with its time zone, for the head may be in another.

    >>> utc_time(0.0)
    '1970-01-01T00:00:00Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _shift(text: str, whole: str) -> float:
    """Return the seconds of ``+2days`` or ``-1hour``; a number alone is in seconds."""
    if not text:
        return 0.0
    sign, rest = text[0], text[1:].strip()
    digits = 0
    while rest[digits : digits + 1].isdigit():
        digits += 1
    unit = rest[digits:].strip().rstrip("s") or "second"
    meant = [size for name, size in _UNITS.items() if name.startswith(unit)]
    if sign not in "+-" or not 0 < digits < 10 or not meant:
        raise ProgramRefusal(f"Invalid time specification (pos=3): {whole[:60]}")
    return (1 if sign == "+" else -1) * int(rest[:digits]) * meant[0]


def _of_day(now: float, hour: int, minute: int) -> float:
    today = time.localtime(now)
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday, hour, minute, 0, 0, 0, -1))


def _next(now: float, hour: int, minute: int, *, ahead: bool) -> float:
    at = _of_day(now, hour, minute)
    return at + 86400 if ahead and at < now else at
