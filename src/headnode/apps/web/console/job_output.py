"""The output of tasks: its end or any other part in the page, what has come since, lines with a text.

Colours of ANSI sequences are pieces of text with style sheet classes.  Nothing of the output reaches the page
but as text: other sequences are left out, and control and direction characters are spelt out.
"""

import base64
import codecs
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from headnode.apps.cli.table import printable
from headnode.apps.readable_values import size_of_bytes
from headnode.apps.web.console.visit import HeadAnswer, Model, Visit
from headnode.core.model.errors import HeadnodeError
from headnode.protocol.rest_routes import PREFIX
from headnode.protocol.state_names import ENDED_STATES


class StyledText(NamedTuple):
    """A piece of output; `classes` are names such as ``a1 a32``, one for each attribute that is on."""

    classes: str
    text: str


_SEQUENCE: Final = re.compile(
    r"\x1b\[([0-9;:]{0,64})m"  # a colour or another attribute
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # another control sequence
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # a command for the terminal, such as its title
    r"|\x1b[@-Z\\-_]?"
)
_ATTRIBUTES: Final = frozenset((1, 2, 3, 4, 7, 9))
_ENDS: Final = {22: (1, 2), 23: (3,), 24: (4,), 27: (7,), 29: (9,)}


Attributes = dict[str, int]
"""The attributes that are on: ``attribute 1`` and the like, and ``colour``, each with its number."""


def attributes(words: str) -> Attributes:
    """Return the attributes of numbers with points between, such as ``1.32``; others are left out."""
    on: Attributes = {}
    for number in (int(each) for each in words[:64].split(".") if each.isascii() and each.isdigit()):
        _apply(on, str(number))
    return on


def styled(output: str, on: Attributes | None = None) -> list[StyledText]:
    """Return the pieces of an output, in order; those without an attribute have no class.

    `on` has the attributes at its beginning, and afterwards those at its end.
    """
    pieces: list[StyledText] = []
    on = {} if on is None else on
    at = 0
    for sequence in _SEQUENCE.finditer(output):
        _add(pieces, on, output[at : sequence.start()])
        if sequence[1] is not None:
            _apply(on, sequence[1])
        at = sequence.end()
    _add(pieces, on, output[at:])
    return pieces


def _add(pieces: list[StyledText], on: Attributes, text: str) -> None:
    if not text:
        return
    classes = " ".join(f"a{number}" for number in sorted(on.values()))
    clean = "\n".join(_line(line) for line in text.split("\n"))
    if pieces and pieces[-1].classes == classes:
        pieces[-1] = StyledText(classes, pieces[-1].text + clean)
    else:
        pieces.append(StyledText(classes, clean))


def _line(line: str) -> str:
    """Return a line as a terminal leaves it: what follows a carriage return replaces what was before it."""
    kept = line.removesuffix("\r").rpartition("\r")[2]
    return "\t".join(printable(part) for part in kept.split("\t"))


def _apply(on: Attributes, parameters: str) -> None:
    """Change the attributes that are on; those that the console has no style for are left out."""
    numbers = [int(part) if part else 0 for part in re.split("[;:]", parameters)]
    while numbers:
        number = numbers.pop(0)
        if number in (38, 48):  # a colour of 256, or of three parts
            del numbers[: 4 if numbers[:1] == [2] else 2]
        elif number == 0:
            on.clear()
        elif number in _ATTRIBUTES:
            on[f"attribute {number}"] = number
        elif number in _ENDS:
            for ended in _ENDS[number]:
                on.pop(f"attribute {ended}", None)
        elif 30 <= number <= 37 or 90 <= number <= 97:
            on["colour"] = number
        elif number == 39:
            on.pop("colour", None)


END_OF_OUTPUT: Final = 16 * 1024  # bytes on the first page of a job
MAX_IN_PAGE: Final = 256 * 1024  # bytes, at once
MAX_BEHIND: Final = 1024 * 1024  # bytes that a page catches up with; else it goes on near the end
PIECE: Final = 256 * 1024  # bytes that the head is asked for at once
MAX_SEARCHED: Final = 32 * 1024 * 1024  # bytes of one search; a link searches on
MAX_LINES: Final = 200  # that a search shows
MAX_LINE: Final = 400  # characters of a line that a search shows
STREAMS: Final = {
    "captured": "Output",
    "standard_output": "Standard output",
    "standard_error": "Standard error",
}
_BEGUN_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b]{0,4096})?\Z")


class OutputOf(NamedTuple):
    """The output that is meant: of a task or an instance of it, captured or in a file of its own."""

    job: int
    task: int
    instance: int | None = None
    stream: str = "captured"

    async def read(self, visit: Visit, offset: int, limit: int) -> tuple[bytes, int]:
        """Return up to `limit` bytes from `offset` on (negative: from the end), and the size of all.

        Raises:  HeadnodeError.
        """
        answer = await visit.ask("read_output", **self._asdict(), offset=offset, limit=limit)
        return base64.b64decode(answer["data"]), answer["size"]

    @property
    def query(self) -> str:
        """The parameters of its addresses."""
        instance = "" if self.instance is None else f"&instance={self.instance}"
        return f"stream={self.stream}{instance}"


async def output_of(visit: Visit, output: OutputOf, most: int, at: int | None = None) -> Model:
    """Return the end of an output, or what is at an offset; or why there is none, in a sentence."""
    task = f"/jobs/{output.job}/tasks/{output.task}"
    which = "" if output.instance is None else f"?instance={output.instance}"
    model: Model = {
        **output._asdict(), "pieces": [], "size": 0, "begin": 0, "next": 0, "style": "", "problem": "",
        "fix": "", "follow": f"{task}/output.part?{output.query}", "ends": at is None,
        "whole": f"{PREFIX}{task}/output/{output.stream}{which}",
    }  # fmt: skip
    try:
        data, size = await output.read(visit, -most if at is None else at, most)
    except HeadnodeError as error:
        return model | {"problem": error.what, "fix": error.fix}
    begin = size - len(data) if at is None else min(at, size)
    if at is None and begin and (cut := data.find(b"\n")) >= 0:
        data, begin = data[cut + 1 :], begin + cut + 1  # from the beginning of a line
    on: Attributes = {}
    text, used = whole_text(data, over=False)
    return model | {
        "pieces": [piece._asdict() for piece in styled(text, on)],
        "size": size,
        "begin": begin,
        "next": begin + used,
        "style": style_words(on),
    }


def whole_text(data: bytes, *, over: bool) -> tuple[str, int]:
    """Return the text of bytes, and how many of them it is: an incomplete character or sequence is left.

    `over`: nothing follows that would complete it.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=over)
    left = len(decoder.getstate()[0])
    if not over and (begun := _BEGUN_SEQUENCE.search(text)):
        left += len(begun[0].encode())
        text = text[: begun.start()]
    return text, len(data) - left


def style_words(on: Attributes) -> str:
    """Return the attributes that are on as they are in an address: their numbers with points between."""
    return ".".join(str(number) for number in sorted(on.values()))


def markup(pieces: Iterable[StyledText]) -> Markup:
    """Return pieces of output as the inside of their box."""
    span = Markup('<span class="{}">{}</span>')
    return Markup("").join(span.format(*piece) if piece.classes else piece.text for piece in pieces)


async def follow_output(visit: Visit) -> Response:
    """Return what was written since an offset, for the page that shows what was before it."""
    path = visit.request.path_params
    stream = visit.query.get("stream", "captured")
    output = OutputOf(path["job"], path["task"], visit.number("instance"), stream)
    task = (await visit.ask("task", job=output.job, task=output.task, instance=output.instance))["task"]
    asked = visit.number("from") or 0
    data, size = await output.read(visit, asked, MAX_IN_PAGE)
    begin = asked
    if asked > size or size - asked > MAX_BEHIND:
        data, size = await output.read(visit, -MAX_IN_PAGE, MAX_IN_PAGE)
        begin = size - len(data)
    on = attributes(visit.query.get("style", "")) if begin == asked else {}
    ended = task["state"] in ENDED_STATES and begin + len(data) >= size
    text, used = whole_text(data, over=ended)
    answer = {
        "from": begin,
        "next": begin + used,
        "html": str(markup(styled(text, on))),
        "style": style_words(on),
        "over": ended,
    }
    return Response(msgspec.json.encode(answer), media_type="application/json")


# ---------------------------------------------------------------- search


async def search_output(visit: Visit, output: OutputOf, word: str, begin: int) -> Model:
    """Return the lines with a text from an offset on, and where a search goes on that is not at the end."""
    matches: list[Model] = []
    at, rest, size = begin, b"", begin + 1
    problem: HeadAnswer = {"what": "", "fix": ""}
    try:
        while at < size and at - begin < MAX_SEARCHED and len(matches) < MAX_LINES:
            data, size = await output.read(visit, at, PIECE)
            if not data:
                break
            lines = (rest + data).split(b"\n")
            line_at = at - len(rest)
            at += len(data)
            rest = b"" if at >= size or len(lines[-1]) > PIECE else lines.pop()
            for line in lines:
                if word.lower() in (text := line.decode(errors="replace")).lower():
                    matches.append(
                        {"at": line_at, "text": _around(text, word), "where": size_of_bytes(line_at)}
                    )
                line_at += len(line) + 1
    except HeadnodeError as error:
        problem = {"what": error.what, "fix": error.fix}
    return {
        "lines": matches[:MAX_LINES],
        "next": matches[MAX_LINES]["at"]
        if len(matches) > MAX_LINES
        else at - len(rest)
        if at < size
        else None,
        "searched": at - begin,
        "size": size,
        "problem": problem,
    }


def _around(text: str, word: str) -> str:
    """Return a line without its colours; of a long one the part around the word."""
    clean = "".join(piece.text for piece in styled(text))
    if len(clean) <= MAX_LINE:
        return clean
    first = max(0, clean.lower().find(word.lower()) - MAX_LINE // 2)
    return ("…" if first else "") + clean[first : first + MAX_LINE] + "…"
