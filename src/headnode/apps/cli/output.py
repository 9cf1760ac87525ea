"""Where a command's results go: a table, a list of keys, one JSON document, or only ids.

Source:  HPC Pack commands, ``/format``; scripts read the list as ``Key   : Value`` lines."""

# ruff: noqa: ARG002 (each output uses the part of what is said that its readers want)

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from headnode.apps.cli.table import RecordTable
    from headnode.core.model.errors import HeadnodeError

    Write = Callable[[str], object]
    WriteBytes = Callable[[bytes], object]

    T = TypeVar("T")


class Output:
    """The output of commands.  The implementations differ in form, not in content.

    `width` is that of the terminal in columns; None means there is none, so nothing is cut.
    """

    for_people = True

    def __init__(
        self, write: "Write", complain: "Write", write_bytes: "WriteBytes", width: int | None = None
    ) -> None:
        self._write = write
        self._complain = complain
        self.raw = write_bytes  # what a program printed, as it is
        self.width = width
        self.coloured = False  # whether states are in colours: on terminals that want it

    def outcome(self, sentence: str, data: "dict[str, Any]", name: object = None) -> None:
        """Tell the outcome of a deed; `name` is what it was done to, such as a job's id."""
        if self.width is not None and len(sentence) > self.width:
            from headnode.apps.cli.table import folded

            sentence = folded(sentence, self.width)
        self._write(f"{sentence}\n")

    def show_table(self, sheet: "RecordTable") -> None:
        """Show records."""
        raise NotImplementedError

    def text(self, text: str, data: "Any") -> None:
        """Show text that is laid out already."""
        self._write(text if text.endswith("\n") else f"{text}\n")

    def note(self, text: str) -> None:
        """Tell something beside the result; it never mixes with it."""
        self._complain(f"hn: {text}\n")

    def problem(self, error: "HeadnodeError") -> None:
        """Tell what went wrong and the way out."""
        from headnode.apps.readable_values import local_times

        self._complain(f"hn: {local_times(error.what)}" + (f"; {error.fix}\n" if error.fix else "\n"))

    def close(self) -> None:
        """Everything has been said."""


class TableOutput(Output):
    """Records as a table with two header lines; a single record as keys and values."""

    def show_table(self, sheet: "RecordTable") -> None:
        """Show records."""
        from headnode.apps.cli.table import as_list, as_table

        if not sheet.columns:
            self._write(as_list(sheet, self.width))
        else:
            self._write(as_table(sheet, self.width, coloured=self.coloured))


class KeyValueOutput(Output):
    """Records as keys and values, divided by one empty line."""

    def show_table(self, sheet: "RecordTable") -> None:
        """Show records."""
        from headnode.apps.cli.table import as_list

        self._write(as_list(sheet, self.width))


class JsonOutput(Output):
    """One JSON document at the end: the answer, or a list of the answers when there were several."""

    for_people = False

    def __init__(
        self, write: "Write", complain: "Write", write_bytes: "WriteBytes", width: int | None = None
    ) -> None:
        super().__init__(write, complain, write_bytes, width)
        self._documents: list[Any] = []

    def outcome(self, sentence: str, data: "dict[str, Any]", name: object = None) -> None:
        """Keep the data for the document."""
        self._documents.append(data)

    def show_table(self, sheet: "RecordTable") -> None:
        """Keep the data for the document."""
        self._documents.append(sheet.data)

    def text(self, text: str, data: "Any") -> None:
        """Keep the data for the document."""
        self._documents.append(data)

    def close(self) -> None:
        """Print the document, if there is one."""
        if not self._documents:
            return
        import json

        document = self._documents[0] if len(self._documents) == 1 else self._documents
        self._write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


class QuietOutput(Output):
    """Only names and ids, for scripts; problems are still told."""

    for_people = False

    def outcome(self, sentence: str, data: "dict[str, Any]", name: object = None) -> None:
        """Print the id, if the deed has one."""
        if name is not None:
            self._write(f"{name}\n")

    def show_table(self, sheet: "RecordTable") -> None:
        """Print the id of each record."""
        for row in sheet.rows:
            self._write(f"{row[sheet.name]}\n")

    def note(self, text: str) -> None:
        """Say nothing."""


KINDS: "dict[str, type[Output]]" = {
    "table": TableOutput,
    "list": KeyValueOutput,
    "json": JsonOutput,
    "quiet": QuietOutput,
}


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


LOSSES = ("approximated", "not-supported")
WORTH_TELLING = (*LOSSES, "note")


def note_losses(report: "Iterable[dict[str, Any]]", source: str, out: "Output") -> None:
    """Note every finding that changes what was asked for.  Harmless ones are left to ``hn check``."""
    for finding in report:
        if finding.get("kind") in LOSSES:
            out.note(finding_line(finding, source))


def finding_line(finding: "dict[str, Any]", source: str) -> str:
    """Return a finding as ``file:line:column: kind: what``."""
    place = [source, *([str(finding["line"]), str(finding["column"])] if finding.get("line") else [])]
    where = f" ({finding['where']})" if finding.get("where") else ""
    return f"{':'.join(place)}: {finding.get('kind', 'note')}: {finding.get('what', '')}{where}"


LINE_INTERVAL = 5.0  # seconds before a file or pipe is told anything, and between two lines there
TERMINAL_INTERVAL = 0.1  # seconds between two changes of a line on a terminal


class ProgressLine:
    """Tells on standard error; `with` it, the line of a terminal is gone at the end."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + (0.0 if self._terminal else LINE_INTERVAL)

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def report(self, text: str) -> None:
        """Tell it, unless the last time was just now."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (TERMINAL_INTERVAL if self._terminal else LINE_INTERVAL)
        sys.stderr.write(f"\r\033[K{text}" if self._terminal else f"hn: {text}\n")
        sys.stderr.flush()


def history_progress() -> "Callable[[int, int], None]":
    """Return a counter of the jobs of the history that were read; a terminal shows it up to the end."""

    telling = ProgressLine()

    def told(come: int, ended: int) -> None:
        if come < ended:
            telling.report(f"asking the head: {come} of {ended} jobs")
        else:
            telling.__exit__()

    return told
