"""Read an input file of DAGMan: each node is a job, or several, which wait for those of its parents.

Source:  HTCondor 24, "DAGMan Workflows": "The DAG Input File".
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from headnode.core.formats.condor.macros import ReadingBudget
from headnode.core.formats.condor.reading import items_named, read_node
from headnode.core.formats.condor.statements import PATTERNS, SubmitLine, SubmitLines
from headnode.core.formats.fidelity import (
    MAX_REPORT_ITEMS,
    Awareness,
    Fidelity,
    FidelityReport,
    ReportItem,
    apply_awareness,
    unlisted,
)
from headnode.core.formats.text.source_text import SourceText, decode, nearest_name
from headnode.core.model.bounds import JOBS
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Priority
from headnode.core.model.task import ScriptOrigin

_MAX_LINKS: Final = 100_000
_VARIABLE = re.compile(r'\s*+([+A-Za-z_][\w.]*+)\s*+=\s*+"((?:[^"\\]|\\.)*+)"\s*+')
_REFUSED: Final = {
    **dict.fromkeys(("SCRIPT", "PRE_SKIP"), "programs beside the scheduler are not run; make them nodes"),
    **dict.fromkeys(("SUBDAG", "SPLICE", "INCLUDE", "CONNECT", "PIN_IN", "PIN_OUT"), "put the nodes here"),
    **dict.fromkeys(("FINAL", "PROVISIONER", "SERVICE", "DATA"), "there are no such nodes; use a JOB"),
    **dict.fromkeys(("ABORT-DAG-ON", "SET_JOB_ATTR", "ENV", "REJECT"), "it has no equivalent; leave it out"),
}
_IGNORED: Final = frozenset(
    {"CATEGORY", "MAXJOBS", "CONFIG", "DOT", "NODE_STATUS_FILE", "JOBSTATE_LOG", "SAVE_POINT_FILE"}
)


class FlowNode(msgspec.Struct):
    """A node: its submit file, or the text of it, and what the flow says of it."""

    name: str
    start: int
    file: str = ""
    text: str = ""
    directory: str = ""
    is_done: bool = False
    retries: int = 0
    priority: int | None = None
    variables: dict[str, str] = {}


def files_of_flow(data: bytes | str, files: Mapping[str, bytes], origin: ScriptOrigin) -> tuple[str, ...]:
    """Return the submit files of a flow, and the items of queue commands of those that are in `files`.

    Of a flow that cannot be read there are none.
    """
    found: dict[str, None] = {}
    budget = ReadingBudget()
    try:
        for node in _Flow(SourceText(decode(data))).read():
            path = posixpath.join(node.directory, node.file)
            if node.file:
                found[path] = None
            text = node.text or files.get(path, b"")
            found |= {_key(node, key): None for key in items_named(text, origin, budget)}
    except BadRequest:
        pass
    return tuple(found)


def read_flow(
    data: bytes | str, origin: ScriptOrigin, files: Mapping[str, bytes], *, awareness: Awareness
) -> tuple[tuple[JobSpec, ...], tuple[DependencyLink, ...], FidelityReport]:
    """Return the jobs of a flow, which of them wait for which, and what became of its words.

    Raises:  BadRequest ``flow``, ``queue-file``, ``not-supported``, and what refuses one of its submit files,
             each with the place of its node.
    """
    flow = _Flow(SourceText(decode(data)))
    nodes = {node.name: node for node in flow.read()}
    group = posixpath.basename(origin.words[0]).partition(".")[0] if origin.words else ""
    jobs: list[JobSpec] = []
    numbers: dict[str, range] = {}
    for name, node in nodes.items():
        made = [] if node.is_done else flow.jobs_of(node, origin, files)
        numbers[name] = range(len(jobs), len(jobs) + len(made))
        jobs += (replace(spec, name=name, job_group=group) for spec in made)
        if len(jobs) > JOBS.most:
            flow.refuse(
                node.start, f"the flow has more than {JOBS}", "divide it into several flows", "too-many-jobs"
            )
    links = tuple(flow.links_of(numbers))
    return tuple(jobs), links, apply_awareness(awareness, _listed(flow.items))


def _listed(items: list[ReportItem]) -> Iterator[ReportItem]:
    """Yield each finding once, and at most as many as a report has."""
    found = list(dict.fromkeys(items))
    yield from found[:MAX_REPORT_ITEMS]
    if len(found) > MAX_REPORT_ITEMS:
        yield unlisted(Fidelity.NOTE, len(found) - MAX_REPORT_ITEMS)


def _key(node: FlowNode, key: str) -> str:
    return key if key.startswith(PATTERNS) else posixpath.join(node.directory, key)


class _Flow:
    """The statements of a flow."""

    def __init__(self, source: SourceText) -> None:
        self._source, self._lines = source, SubmitLines(source)
        self._nodes: dict[str, FlowNode] = {}
        self._edges: list[tuple[list[str], list[str], int]] = []
        self._texts: dict[str, str] = {}  # submit descriptions by name
        self._budget = ReadingBudget()
        self.items: list[ReportItem] = []

    def refuse(self, start: int, what: str, fix: str, code: str = "flow") -> NoReturn:
        self._source.refuse(start, code, what, fix)

    def read(self) -> list[FlowNode]:
        """Return the nodes, in the order of the file.

        Raises:  BadRequest.
        """
        readers: dict[str, Callable[[list[str], SubmitLine], None]] = {
            "JOB": self._job,
            "PARENT": self._parent,
            "VARS": self._vars,
            "RETRY": self._retry,
            "PRIORITY": self._priority,
            "SUBMIT-DESCRIPTION": self._description,
        }
        for line in self._lines:
            words = line.text.split()
            keyword = words[0].upper()
            if keyword in _REFUSED:
                self.refuse(line.start, f"{keyword}: {_REFUSED[keyword]}", _REFUSED[keyword], "not-supported")
            if keyword in _IGNORED:
                what = "it is about the machinery of DAGMan, and has no effect"
                self.items.append(ReportItem(Fidelity.NOT_SUPPORTED, keyword, what, *self._place(line)))
            elif keyword in readers:
                readers[keyword](words[1:], line)
            else:
                meant = nearest_name(keyword, readers)
                hint = f"did you mean {meant}? " if meant else ""
                self.refuse(line.start, f"{words[0][:40]!r} is no statement of a flow", f"{hint}see docs")
        return list(self._nodes.values())

    def _place(self, line: SubmitLine) -> tuple[int, int]:
        return self._source.place(line.start)

    def _job(self, words: list[str], line: SubmitLine) -> None:
        if len(words) < 2:
            self.refuse(line.start, "the node has no submit file", "write JOB NAME FILE")
        name, file, *rest = words
        if name in self._nodes:
            self.refuse(line.start, f"there are two nodes {name[:60]!r}", "give each a name of its own")
        node = self._nodes[name] = FlowNode(name, line.start)
        if file == "{":
            node.text = self._block(line)
        else:
            node.file, node.text = file, self._texts.get(file, "")
            node.file = "" if node.text else file
        while rest:
            word = rest.pop(0).upper()
            if word == "DIR" and rest:
                node.directory = rest.pop(0)
            elif word == "DONE":
                node.is_done = True
            else:
                self.refuse(
                    line.start, f"{word[:40]} of a node is not supported", "leave it out", "not-supported"
                )

    def _description(self, words: list[str], line: SubmitLine) -> None:
        if len(words) != 2 or words[1] != "{":
            self.refuse(line.start, "a submit description has no text", "write SUBMIT-DESCRIPTION NAME {")
        self._texts[words[0]] = self._block(line)

    def _block(self, line: SubmitLine) -> str:
        found: list[str] = []
        for each in self._lines:
            if each.text == "}":
                return "".join(f"{text}\n" for text in found) + "queue\n"
            found.append(each.text)
        return self.refuse(line.start, "the submit description has no end", "close it with a line: }")

    def _named(self, word: str, line: SubmitLine) -> list[FlowNode]:
        if word.upper() == "ALL_NODES":
            return list(self._nodes.values())
        if word not in self._nodes:
            meant = nearest_name(word, self._nodes)
            hint = f"did you mean {meant!r}? " if meant else ""
            self.refuse(line.start, f"there is no node {word[:60]!r}", f"{hint}write its JOB before")
        return [self._nodes[word]]

    def _parent(self, words: list[str], line: SubmitLine) -> None:
        at = next((number for number, word in enumerate(words) if word.upper() == "CHILD"), 0)
        if not 0 < at < len(words) - 1:
            self.refuse(line.start, "parents and children are missing", "write PARENT A B CHILD C D")
        for word in (*words[:at], *words[at + 1 :]):
            self._named(word, line)
        self._edges.append((words[:at], words[at + 1 :], line.start))

    def _vars(self, words: list[str], line: SubmitLine) -> None:
        text = line.text.split(None, 2)[2] if len(words) > 1 else ""
        if words and text.upper().startswith("PREPEND "):
            text = text[len("PREPEND ") :].lstrip()
        found, end = dict[str, str](), 0
        while match := _VARIABLE.match(text, end):  # not by a search: what is no variable would be searched
            found[match[1]], end = match[2], match.end()
        if not found or end < len(text):
            self.refuse(line.start, f"{text[:60]!r} is not understood", 'write VARS NAME one="1" two="2"')
        for node in self._named(words[0], line):
            plain = {name: re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}
            node.variables = {**node.variables, **plain}

    def _number(self, words: list[str], line: SubmitLine) -> int:
        if len(words) != 2 or not re.fullmatch(r"-?\d{1,9}", words[1]):
            self.refuse(
                line.start, f"{line.text[:60]!r} is not understood", "write the name of a node and a number"
            )
        return int(words[1])

    def _retry(self, words: list[str], line: SubmitLine) -> None:
        for node in self._named(words[0] if words else "", line):
            node.retries = max(self._number(words, line), 0)

    def _priority(self, words: list[str], line: SubmitLine) -> None:
        for node in self._named(words[0] if words else "", line):
            node.priority = self._number(words, line)

    def jobs_of(self, node: FlowNode, origin: ScriptOrigin, files: Mapping[str, bytes]) -> list[JobSpec]:
        """Return the jobs of a node.

        Raises:  BadRequest with the place of the node.
        """
        path = posixpath.join(node.directory, node.file)
        text = node.text or files.get(path)
        if text is None:
            what = f"the submit file {path[:80]!r} of node {node.name[:60]!r} was not sent"
            fix = "submit the flow with hn, in the directory where the file is, or below which it is"
            self.refuse(node.start, what, fix, "queue-file")
        where = posixpath.join(origin.directory, node.directory) if origin.directory else ""
        mine = replace(origin, directory=where, words=(path,))
        keys = items_named(text, mine, self._budget)
        own = {key: files[_key(node, key)] for key in keys if _key(node, key) in files}
        try:
            jobs, report = read_node(text, mine, own, {**node.variables, "JOB": node.name}, self._budget)
        except BadRequest as no:
            what = f"node {node.name[:60]!r}: {path}: {no.what}"
            self.refuse(node.start, what, no.fix, no.code)
        self.items += (ReportItem(each.kind, f"{path}: {each.where}", each.what) for each in report)
        return [self._with_retries(spec, node) for spec in jobs]

    def _with_retries(self, spec: JobSpec, node: FlowNode) -> JobSpec:
        if node.retries:
            if sum(task.instances for task in spec.tasks) > 1:
                what = f"of the processes of node {node.name[:60]!r} only those that fail are tried again"
                self.items.append(ReportItem(Fidelity.APPROXIMATED, "RETRY", what))
            spec = replace(spec, task_retry_limit=max(spec.task_retry_limit, node.retries))
        if node.priority is not None:
            spec = replace(spec, priority=Priority(max(0, min(4000, 2000 + node.priority))))
        return spec

    def links_of(self, numbers: Mapping[str, range]) -> Iterator[DependencyLink]:
        """Yield which jobs wait for which.

        Raises:  BadRequest ``flow`` for too many, and for nodes that wait for each other.
        """
        parents: dict[str, set[str]] = {}
        count = 0
        for above, below, start in self._edges:
            count += len(above) * len(below)
            if count > _MAX_LINKS:
                self.refuse(start, f"the flow has more than {_MAX_LINKS:,} dependencies", "divide the flow")
            for child in below:
                parents.setdefault(child, set()).update(above)
        self._refuse_circle(parents)
        for child, waited in parents.items():
            for parent in sorted(waited):
                for one in numbers[child]:
                    yield from (DependencyLink(one, other) for other in numbers[parent])

    def _refuse_circle(self, parents: Mapping[str, set[str]]) -> None:
        left = {child: set(above) for child, above in parents.items()}
        ready = [name for name in self._nodes if not left.get(name)]
        children: dict[str, list[str]] = {}
        for child, above in parents.items():
            for parent in above:
                children.setdefault(parent, []).append(child)
        while ready:
            done = ready.pop()
            left.pop(done, None)
            for child in children.get(done, ()):
                left[child].discard(done)
                if not left[child]:
                    ready.append(child)
        if left:
            name = min(left)
            what = f"nodes wait for each other in a circle: {name[:60]!r} is among them"
            self.refuse(self._nodes[name].start, what, "take one of the dependencies out")
