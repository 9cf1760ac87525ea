"""The job element of Moab, a variant of the job object with names of its own, respelled before it is read."""

import re

from lxml import etree

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.sss.source_text import SssFindings, local

SCRIPT = "SubmitString"
"""The element with the script, and the id of the File that it becomes."""

_OWN = frozenset({"submitstring", "submitlanguage", "wallclockduration", "owner", "umask"})
_NAMES = {"wallclockduration": "Duration", "queuename": "Queue", "class": "Queue"}
_START = "\\START"
_OCTET = re.compile(rb"\\([0-9a-fA-F]{2})")
_CLOCK = re.compile(r"(?:(?:(\d{1,5}):)?(\d{1,5}):)?(\d{1,9})(?:\.\d+)?\Z", re.ASCII)
_NODES = re.compile(r"(?P<count>\d{1,9})(?::ppn=(?P<each>\d{1,9}))?\Z", re.ASCII)
_VARIABLES = re.compile(r"~rs;|;")
_DECIDE_WHEN = frozenset({"advres", "deadline", "depend", "minpreempttime", "reqrsv", "trigdepend", "trl"})
"""Extensions (x=NAME:VALUE) that decide when or where a job may run."""


def is_moab_job(root: etree._Element) -> bool:
    """Whether a job has names that only Moab has."""
    return local(root) == "job" and any(
        isinstance(each.tag, str) and local(each).lower() in _OWN for each in root.iter()
    )


def respell(root: etree._Element, findings: SssFindings) -> str | None:
    """Give the elements of Moab's job the names of the job object; return its script if it has one.

    Raises:  BadRequest ``number``, ``nodes``, ``octets`` and ``extension`` with the place of the element.
    """
    script = None
    for element in [each for each in root.iter() if isinstance(each.tag, str) and each is not root]:
        name = local(element).lower()
        if name == SCRIPT.lower():
            script = _script(element, findings)
        elif name == "owner":
            _owner(root, element, findings)
        elif name == "nodes":
            _nodes(element, findings)
        elif name == "environment" and not len(element):
            _environment(element)
        elif name == "extension":
            _refuse_decisions(element, findings)
        elif name in _NAMES:
            _rename(element, _NAMES[name], findings)
        if name == "wallclockduration":
            element.text = _seconds(element, findings)
    if script is not None:
        for element in [each for each in root if local(each).lower() == "executable"]:
            root.remove(element)  # the file that the script was read from
        _added(root, "Executable").text = f"#{SCRIPT}"
    if not any(local(each).lower() in ("id", "jobid") for each in root):
        _added(root, "Id").text = "new"
    return script


def _rename(element: etree._Element, name: str, findings: SssFindings) -> None:
    what = f"element {local(element)!r} of Moab is read as {name!r}"
    findings.add(Fidelity.TRANSLATED, element, what)
    element.tag = name


def _added(parent: etree._Element, name: str) -> etree._Element:
    made = etree.SubElement(parent, name)
    made.sourceline = parent.sourceline
    return made


def _script(element: etree._Element, findings: SssFindings) -> str:
    """Return the script: Moab writes octets that are no letters as a backslash and two hexadecimal digits."""
    text = (element.text or "").strip()
    data = text.removeprefix(_START).encode()
    if text.startswith(_START):
        data = _OCTET.sub(lambda match: bytes([int(match[1], 16)]), data)
    parent = element.getparent()
    if parent is not None:
        findings.add(
            Fidelity.TRANSLATED, element, f"element {SCRIPT!r} of Moab is read as the script of the job"
        )
        parent.remove(element)
    try:
        return data.decode()
    except UnicodeDecodeError:
        findings.refuse("octets", element, "the script is not UTF-8", "write it as UTF-8")


def _owner(root: etree._Element, element: etree._Element, findings: SssFindings) -> None:
    users = [each for each in root if local(each).lower() in ("userid", "user")]
    if not users:
        _rename(element, "User", findings)
    elif (users[0].text or "").strip() == (element.text or "").strip():
        root.remove(element)


def _nodes(element: etree._Element, findings: SssFindings) -> None:
    """Let the nodes stand beside their list: names, or how many with how many processors each."""
    parent = element.getparent()
    if parent is None:
        return
    for node in list(element):
        counted = _NODES.match((node.text or "").strip())
        if counted:
            node.tag, node.text = "NodeCount", counted["count"]
            if counted["each"]:
                _added(parent, "Processors").text = str(int(counted["count"]) * int(counted["each"]))
        elif ":" in (node.text or ""):
            fix = "write the name of a node, or a number of nodes such as 2:ppn=4"
            findings.refuse("nodes", node, f"{node.text!r} is not understood", fix)
        parent.insert(parent.index(element), node)
    parent.remove(element)


def _environment(element: etree._Element) -> None:
    """Write variables, between which Moab writes ~rs;, as elements."""
    text, element.text = (element.text or ""), None
    for one in filter(str.strip, _VARIABLES.split(text)):
        name, _, value = one.partition("=")
        variable = _added(element, "Variable")
        variable.set("name", name.strip())
        variable.text = value


def _seconds(element: etree._Element, findings: SssFindings) -> str:
    """Return seconds; Moab writes [[hours:]minutes:]seconds, too."""
    match = _CLOCK.match((element.text or "").strip())
    if match is None:
        fix = "write seconds, or hours:minutes:seconds"
        findings.refuse("number", element, f"{element.text!r} is not a time", fix)
    hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return str(hours * 3600 + minutes * 60 + seconds)


def _refuse_decisions(element: etree._Element, findings: SssFindings) -> None:
    """Refuse extensions that decide when the job may run: all others are kept."""
    text = (element.text or "").strip()
    if not text.lower().startswith("x="):
        return
    names = [one.partition(":")[0].strip().lower() for one in re.split(r"[;?&]", text[2:])]
    strange = next((name for name in names if name in _DECIDE_WHEN), None)
    if strange is not None:
        what = f"the extension {strange!r} decides when the job may run, and is not understood"
        findings.refuse("extension", element, what, "write a Dependency, Reservation or DeadlineTime")
    findings.add(
        Fidelity.NOT_SUPPORTED, element, f"{text[:80]!r}: resource manager extensions have no effect"
    )
