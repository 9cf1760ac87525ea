"""The resource requirement string of LSF: ``select[...] rusage[...] span[...]``.

Source:  IBM Spectrum LSF 10.1, bsub(1), "-R"; "Administering", "Resource requirement strings".
"""

import re
from typing import Final

from headnode.core.formats.batch.draft import BatchDraft, OptionPlace, add_feature
from headnode.core.formats.fidelity import Fidelity

_SECTION: Final = re.compile(r"\b(select|order|rusage|span|same|cu|affinity)\s*\[([^\[\]]*)\]")
_SITE: Final = "a number without a unit is MB"


def read_resources(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read all sections; unknown parts are refused, because they may decide where the job runs.

    Several -R are one string.
    """
    if "{" in text:
        place.refuse("several requirement strings in one cannot be said here", "write one of them")
    at = 0
    for found in _SECTION.finditer(text):
        _select_plainly(draft, place, text[at : found.start()], first=at == 0)
        _SECTIONS[found[1]](draft, place.named(f"-R {found[1]}"), found[2].strip())
        at = found.end()
    _select_plainly(draft, place, text[at:], first=at == 0)


def _select_plainly(draft: BatchDraft, place: OptionPlace, text: str, *, first: bool) -> None:
    """Read conditions without ``select[...]``, which stand before all sections."""
    if not text.strip():
        return
    if not first or "[" in text:
        place.refuse(f"{text.strip()[:60]!r} is not a section", "write select[...] rusage[...]")
    _select(draft, place.named("-R select"), text.strip())


_COMPARED: Final = re.compile(r"(\w+)\s*(==|!=|>=|<=|>|<)\s*'?([\w.-]+)'?")
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*")
_TOTALS: Final = {
    "maxmem": "minimum_memory",
    "mem": "minimum_memory",
    "maxswp": "minimum_swap",
    "swp": "minimum_swap",
    "maxtmp": "minimum_disk",
    "tmp": "minimum_disk",
    "ncpus": "minimum_processors",
}


def _select(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read conditions that must all hold; one may be a choice of features: ``(intel || amd)``."""
    kind, what = Fidelity.TRANSLATED, "the nodes of the job meet these conditions"
    for part in text.split("&&"):
        term = part.strip()
        while term.startswith("(") and term.endswith(")") and "(" not in term[1:]:
            term = term[1:-1].strip()
        names = [name.strip() for name in term.split("||")]
        found = _COMPARED.fullmatch(term)
        if all(_NAME.fullmatch(name) for name in names):
            add_feature(draft, *names)
        elif found is None or not _compared(draft, place, *found.groups()):
            place.refuse(
                f"{term[:60]!r} is not known here",
                f"write features, hname, or one of {', '.join(_TOTALS)} with >=, joined by &&",
                "resource",
            )
        elif found[1] in ("mem", "swp", "tmp"):
            kind = Fidelity.APPROXIMATED
            what = f"the nodes have so much in all, free or not; {_SITE}"
    place.tell(kind, what)


def _compared(draft: BatchDraft, place: OptionPlace, name: str, relation: str, value: str) -> bool:
    """Read one comparison; return False if it is not known."""
    if name == "type" and relation == "==" and value in ("any", "local"):
        return True
    if name == "hname" and relation == "!=":
        draft.job["excluded_nodes"] = (*draft.job.get("excluded_nodes", ()), value)
        return True
    if name == "hname" and relation == "==":
        draft.job["requested_nodes"] = (value,)
        return True
    if name not in _TOTALS or relation not in (">", ">="):
        return False
    field = _TOTALS[name]
    amount = place.number(value, 0) + (relation == ">") if name == "ncpus" else place.megabytes(value)
    draft.needs[field] = max(amount, draft.needs.get(field, 0))
    return True


def _usage(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read what the job holds: ``mem=4G:duration=1h``."""
    whole = True
    for part in re.split("[,:]", text):
        name, _, value = (each.strip() for each in part.partition("="))
        inner = place.named(f"-R rusage[{name}]")
        amount, _, method = value.partition("/")
        if name in ("duration", "decay"):
            whole = False
        elif name == "mem" and method in ("", "host", "task"):
            _hold(draft, inner, amount, each_task=method == "task")
        elif name in ("tmp", "swp") and method in ("", "host"):
            draft.needs[_TOTALS[name]] = inner.megabytes(amount)
            inner.tell(Fidelity.APPROXIMATED, f"nodes with so much in all; the job does not hold it; {_SITE}")
        elif name.startswith("ngpus"):
            add_feature(draft, "gpu")
            inner.tell(Fidelity.APPROXIMATED, "nodes with the feature 'gpu'; their number is not counted")
        else:
            inner.refuse(
                "this resource is not known here", "the known ones are mem, swp, tmp, ngpus", "resource"
            )
    if not whole:
        place.tell(Fidelity.APPROXIMATED, "the job holds the resources as long as it runs")


def _hold(draft: BatchDraft, place: OptionPlace, amount: str, *, each_task: bool) -> None:
    size = place.megabytes(amount)
    if each_task:
        draft.job["process_memory"] = size
        what = "the job holds so much memory with each of its processors"
    else:
        draft.memory = size
        what = "the job holds so much memory on each of its nodes"
    if amount.isdigit():
        place.tell(Fidelity.APPROXIMATED, f"{what}; {_SITE}")
    else:
        place.tell(Fidelity.TRANSLATED, what)


def _span(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    name, _, value = (each.strip() for each in text.partition("="))
    if name == "ptile" and value.isdigit():
        draft.tasks_per_node = place.number(value, 1)
        place.tell(Fidelity.TRANSLATED, "so many processors of the job are on each node")
    elif (name, value) == ("hosts", "1"):
        draft.packed = True
        place.tell(Fidelity.TRANSLATED, "all processors of the job are on one node")
    elif (name, value) == ("hosts", "-1"):
        place.tell(Fidelity.NOTE, "the processors are on any nodes")
    else:
        place.refuse(f"{text[:60]!r} is not known here", "write hosts=1 or ptile=N", "resource")


def _no_effect(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    place.tell(
        Fidelity.NOT_SUPPORTED, "the order of nodes, and of processors in a node, is that of the cluster"
    )


def _refused(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    place.refuse(
        "it cannot be said here", "leave it out, or name a feature that such nodes have", "not-supported"
    )


_SECTIONS: Final = {
    "select": _select,
    "order": _no_effect,
    "rusage": _usage,
    "span": _span,
    "same": _refused,
    "cu": _refused,
    "affinity": _no_effect,
}
