"""The options of bsub that may stand in a script, and the resources of ``-R``.

Source:  IBM Spectrum LSF 10.1, bsub(1), "Options"; "Administering", "Resource requirement strings".
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

import headnode.core.formats.batch.lsf as r
from headnode.core.formats.batch.dependencies import read_lsf
from headnode.core.formats.batch.draft import (
    BatchDraft,
    Reader,
    ScriptOption,
    add_feature,
    ignored,
    job_field,
    read_hold,
    refused,
)
from headnode.core.formats.batch.gpus import GpuScope
from headnode.core.formats.batch.lines import Word
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.fidelity import Fidelity

_SECTION: Final = re.compile(r"\b(select|order|rusage|span|same|cu|affinity)\s*\[([^\[\]]*)\]")
_UNIT: Final = "a number without a unit is MB"


def read_resources(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read all sections; unknown parts are refused, because they may decide where the job runs.

    Several -R are one string.
    """
    if "{" in text:
        place.refuse("several requirement strings are not supported", "write one of them")
    at = 0
    for match in _SECTION.finditer(text):
        _select_plainly(draft, place, text[at : match.start()], first=at == 0)
        _SECTIONS[match[1]](draft, place.named(f"-R {match[1]}"), match[2].strip())
        at = match.end()
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
_COUNTS: Final = {
    "ncpus": "minimum_processors",
    "nprocs": "minimum_sockets",
    "ncores": "minimum_cores_per_socket",
    "nthreads": "minimum_threads_per_core",
}
_TOTALS: Final = {
    "maxmem": "minimum_memory",
    "mem": "minimum_memory",
    "maxswp": "minimum_swap",
    "swp": "minimum_swap",
    "maxtmp": "minimum_disk",
    "tmp": "minimum_disk",
    **_COUNTS,
}


def _select(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read conditions that must all hold; one may be a choice of features: ``(intel || amd)``."""
    kind, what = Fidelity.TRANSLATED, "the nodes of the job meet these conditions"
    for part in text.split("&&"):
        term = part.strip()
        while term.startswith("(") and term.endswith(")") and "(" not in term[1:]:
            term = term[1:-1].strip()
        names = [name.strip() for name in term.split("||")]
        match = _COMPARED.fullmatch(term)
        if all(_NAME.fullmatch(name) for name in names):
            add_feature(draft, *names)
        elif match is None or not _compared(draft, place, *match.groups()):
            place.refuse(
                f"{term[:60]!r} is not supported",
                f"write features, hname, or one of {', '.join(_TOTALS)} with >=, joined by &&",
                "resource",
            )
        elif match[1] in ("mem", "swp", "tmp"):
            kind = Fidelity.APPROXIMATED
            what = f"the nodes have this in total, free or used; {_UNIT}"
    place.report(kind, what)


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
    amount = place.number(value, 0) + (relation == ">") if name in _COUNTS else place.megabytes(value)
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
            inner.report(
                Fidelity.APPROXIMATED, f"nodes with this in total; the job does not reserve it; {_UNIT}"
            )
        elif name.startswith("ngpus"):
            scope = GpuScope.PROCESS if method == "task" else GpuScope.NODE
            draft.gpus.ask("rusage", scope, inner, str(inner.number(amount)))
        else:
            inner.refuse(
                "this resource is not supported", "the supported ones are mem, swp, tmp, ngpus", "resource"
            )
    if not whole:
        place.report(Fidelity.APPROXIMATED, "the job holds the resources as long as it runs")


def _hold(draft: BatchDraft, place: OptionPlace, amount: str, *, each_task: bool) -> None:
    size = place.megabytes(amount)
    if each_task:
        draft.job["process_memory"] = size
        what = "the job reserves this memory for each of its processors"
    else:
        draft.memory = size
        what = "the job reserves this memory on each of its nodes, an array for each element"
    if amount.isdigit():
        place.report(Fidelity.APPROXIMATED, f"{what}; {_UNIT}")
    else:
        place.report(Fidelity.TRANSLATED, what)


def _span(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    name, _, value = (each.strip() for each in text.partition("="))
    if name == "ptile" and value.isdigit():
        draft.tasks_per_node = place.number(value, 1)
        place.report(Fidelity.TRANSLATED, "this many processors of the job are on each node")
    elif (name, value) == ("hosts", "1"):
        draft.packed = True
        place.report(Fidelity.TRANSLATED, "all processors of the job are on one node")
    elif (name, value) == ("hosts", "-1"):
        place.report(Fidelity.NOTE, "the processors are on any nodes")
    else:
        place.refuse(f"{text[:60]!r} is not supported", "write hosts=1 or ptile=N", "resource")


def _no_effect(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    place.report(
        Fidelity.NOT_SUPPORTED, "the order of nodes, and of processors in a node, is that of the cluster"
    )


def _refused(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    place.refuse(
        "it has no equivalent in Headnode",
        "leave it out, or name a feature that such nodes have",
        "not-supported",
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


_NOTE = Fidelity.NOTE
_SITE = ignored("Headnode has no application profiles, service classes or esub programs")
_NO_TERMINAL = ScriptOption(refused("an interactive job has no script", "use: hn job shell"), argument=False)
_STEPS = refused("commands before or after the program are not supported", "write them into the script")
BSUB_OPTIONS: Final[Mapping[str, ScriptOption]] = {
    "B": ScriptOption(r.read_notice, argument=False),
    "C": ScriptOption(r.read_limit),
    "D": ScriptOption(r.read_limit),
    "E": ScriptOption(_STEPS),
    "Ep": ScriptOption(_STEPS),
    "F": ScriptOption(r.read_limit),
    "G": ScriptOption(ignored("usage is not accounted by user groups")),
    "H": ScriptOption(read_hold, argument=False),
    "I": _NO_TERMINAL,
    "Ip": _NO_TERMINAL,
    "Is": _NO_TERMINAL,
    "J": ScriptOption(r.read_name),
    "Jd": ScriptOption(job_field("description", "it is the description of the job")),
    "K": ScriptOption(ignored("use: hn job submit --wait", _NOTE), argument=False),
    "L": ScriptOption(ignored("the program starts without a login shell")),
    "M": ScriptOption(
        ignored("the memory of a process is not limited; to reserve memory, write -R rusage[mem=4G]")
    ),
    "N": ScriptOption(r.read_notice, argument=False),
    "P": ScriptOption(job_field("project", "it is the project of the job")),
    "Q": ScriptOption(ignored("the job is not requeued for an exit code")),
    "R": ScriptOption(read_resources),
    "S": ScriptOption(r.read_limit),
    "T": ScriptOption(ignored("the number of threads is not limited")),
    "U": ScriptOption(job_field("reservation", "the job runs in this reservation")),
    "W": ScriptOption(r.read_run_time),
    "We": ScriptOption(ignored("run times are predicted from earlier jobs")),
    "XF": ScriptOption(ignored("windows are not forwarded"), argument=False),
    "Zs": ScriptOption(ignored("the script is always stored", _NOTE), argument=False),
    "a": ScriptOption(_SITE),
    "alloc_flags": ScriptOption(ignored("threads of a core are not switched on or off for a job")),
    "app": ScriptOption(_SITE),
    "ar": ScriptOption(ignored("the job keeps its size"), argument=False),
    "b": ScriptOption(r.read_begin),
    "c": ScriptOption(ignored("processor time has no limit of its own: the run time limit is -W")),
    "clusters": ScriptOption(refused("the job runs in this cluster", "leave it out")),
    "cwd": ScriptOption(r.read_directory),
    "data": ScriptOption(refused("files are not fetched by name", "copy them in the script")),
    "e": ScriptOption(r.error_file(append=True)),
    "env": ScriptOption(r.read_variables),
    "eo": ScriptOption(r.error_file(append=False)),
    "f": ScriptOption(refused("files are not copied between hosts", "copy them in the script")),
    "freq": ScriptOption(ignored("the speed of processors is not set")),
    "g": ScriptOption(job_field("job_group", "it is the group of the job")),
    "gpu": ScriptOption(r.read_gpus),
    "i": ScriptOption(r.read_input),
    "is": ScriptOption(r.read_input),
    "k": ScriptOption(ignored("jobs have no checkpoints")),
    "m": ScriptOption(r.read_hosts),
    "mig": ScriptOption(ignored("a job stays on its nodes")),
    "n": ScriptOption(r.read_processors),
    "network": ScriptOption(ignored("networks are not selected")),
    "nnodes": ScriptOption(r.read_nodes),
    "o": ScriptOption(r.output_file(append=True)),
    "oo": ScriptOption(r.output_file(append=False)),
    "outdir": ScriptOption(refused("the directory of output is that of its file", "write it into -o and -e")),
    "p": ScriptOption(ignored("the number of processes is not limited")),
    "ptl": ScriptOption(ignored("a job waits as long as it has to")),
    "q": ScriptOption(r.read_queue),
    "r": ScriptOption(r.read_rerunnable, argument=False),
    "rn": ScriptOption(r.read_rerunnable, argument=False),
    "s": ScriptOption(ignored("the program gets SIGTERM when it is stopped")),
    "sla": ScriptOption(_SITE),
    "sp": ScriptOption(
        ignored("the numbers of priorities are those of the site; use: hn job submit --priority")
    ),
    "t": ScriptOption(r.read_end),
    "ti": ScriptOption(
        ignored("a job whose dependency cannot be satisfied is always canceled"), argument=False
    ),
    "u": ScriptOption(job_field("email", "it is the address for messages")),
    "ul": ScriptOption(ignored("limits of the submitting shell are not passed"), argument=False),
    "v": ScriptOption(ignored("memory with swap is not limited")),
    "w": ScriptOption(read_lsf),
    "wa": ScriptOption(r.read_warning),
    "wt": ScriptOption(r.read_warning_time),
    "x": ScriptOption(r.read_exclusive, argument=False),
}


def bsub_options(
    words: Sequence[Word], refuse: Callable[[Word, str, str], NoReturn]
) -> Iterator[tuple[Reader, str, str, int]]:
    """Yield each option of a line: its reader, its name, its argument, where it stands."""
    left = list(words)
    while left:
        word = left.pop(0)
        name = word.text.removeprefix("-")
        if not word.text.startswith("-") or name not in BSUB_OPTIONS:
            refuse(word, f"{word.text[:60]!r} is not an option of bsub", "see: bsub --help")
        option, value = BSUB_OPTIONS[name], ""
        if option.argument:
            if not left:
                refuse(word, f"{word.text[:60]} has no value", f"write {word.text[:60]} VALUE")
            value = left.pop(0).text
        yield option.read, f"-{name}", value, word.start
