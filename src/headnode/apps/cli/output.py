"""Where a command's results go: a table, a list of keys, one JSON document, or only ids.

Source:  HPC Pack commands, ``/format``; scripts read the list as ``Key   : Value`` lines.
"""
# ruff: noqa: ARG002 (each output uses the part of what is said that its readers want)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headnode.apps.cli.sheet import Sheet
    from headnode.core.model.errors import HeadnodeError

    Write = Callable[[str], object]
    WriteBytes = Callable[[bytes], object]


class Output:
    """What commands may say.  The implementations differ in how results look, not in what is told.

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

    def said(self, sentence: str, data: "dict[str, Any]", name: object = None) -> None:
        """Tell the outcome of a deed; `name` is what it was done to, such as a job's id."""
        if self.width is not None and len(sentence) > self.width:
            from headnode.apps.cli.sheet import folded

            sentence = folded(sentence, self.width)
        self._write(f"{sentence}\n")

    def sheet(self, sheet: "Sheet") -> None:
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
        self._complain(f"hn: {error.what}" + (f"; {error.fix}\n" if error.fix else "\n"))

    def close(self) -> None:
        """Everything has been said."""


class TableOutput(Output):
    """Records as a table with two header lines; a single record as keys and values."""

    def sheet(self, sheet: "Sheet") -> None:
        """Show records."""
        from headnode.apps.cli.sheet import as_list, as_table

        if not sheet.columns:
            self._write(as_list(sheet, self.width))
        else:
            self._write(as_table(sheet, self.width, coloured=self.coloured))


class ListOutput(Output):
    """Records as keys and values, divided by one empty line."""

    def sheet(self, sheet: "Sheet") -> None:
        """Show records."""
        from headnode.apps.cli.sheet import as_list

        self._write(as_list(sheet, self.width))


class JsonOutput(Output):
    """One JSON document at the end: the answer, or a list of the answers when there were several."""

    for_people = False

    def __init__(
        self, write: "Write", complain: "Write", write_bytes: "WriteBytes", width: int | None = None
    ) -> None:
        super().__init__(write, complain, write_bytes, width)
        self._documents: list[Any] = []

    def said(self, sentence: str, data: "dict[str, Any]", name: object = None) -> None:
        """Keep the data for the document."""
        self._documents.append(data)

    def sheet(self, sheet: "Sheet") -> None:
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

    def said(self, sentence: str, data: "dict[str, Any]", name: object = None) -> None:
        """Print the id, if the deed has one."""
        if name is not None:
            self._write(f"{name}\n")

    def sheet(self, sheet: "Sheet") -> None:
        """Print the id of each record."""
        for row in sheet.rows:
            self._write(f"{row[sheet.name]}\n")

    def note(self, text: str) -> None:
        """Say nothing."""


KINDS: "dict[str, type[Output]]" = {
    "table": TableOutput,
    "list": ListOutput,
    "json": JsonOutput,
    "quiet": QuietOutput,
}
