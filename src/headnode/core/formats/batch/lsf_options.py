"""The options of bsub that may stand in a script.

Source:  IBM Spectrum LSF 10.1, bsub(1), "Options".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

import headnode.core.formats.batch.lsf as r
from headnode.core.formats.batch.draft import Reader, ignored, job_field, read_hold, refused
from headnode.core.formats.batch.lines import Word
from headnode.core.formats.batch.lsf_resources import read_resources
from headnode.core.formats.fidelity import Fidelity


class BsubOption(NamedTuple):
    """An option: how it is read, and whether it takes an argument."""

    read: Reader
    argument: bool = True


_NOTE = Fidelity.NOTE
_SITE = ignored("it is of the site: nothing here has such a name")
_NO_TERMINAL = BsubOption(refused("an interactive job has no script", "use: hn job shell"), argument=False)
_STEPS = refused("commands around the program cannot be said here", "write them into the script")
BSUB_OPTIONS: Final[Mapping[str, BsubOption]] = {
    "B": BsubOption(r.read_notice, argument=False),
    "C": BsubOption(r.read_limit),
    "D": BsubOption(r.read_limit),
    "E": BsubOption(_STEPS),
    "Ep": BsubOption(_STEPS),
    "F": BsubOption(r.read_limit),
    "G": BsubOption(ignored("usage is not accounted by user groups")),
    "H": BsubOption(read_hold, argument=False),
    "I": _NO_TERMINAL,
    "Ip": _NO_TERMINAL,
    "Is": _NO_TERMINAL,
    "J": BsubOption(r.read_name),
    "Jd": BsubOption(job_field("description", "it is the description of the job")),
    "K": BsubOption(ignored("use: hn job submit --wait", _NOTE), argument=False),
    "L": BsubOption(ignored("the program starts without a login shell")),
    "M": BsubOption(ignored("a process may use more memory; what the job holds is -R rusage[mem=...]")),
    "N": BsubOption(r.read_notice, argument=False),
    "P": BsubOption(job_field("project", "it is the project of the job")),
    "Q": BsubOption(ignored("the job is not requeued for an exit code")),
    "R": BsubOption(read_resources),
    "S": BsubOption(r.read_limit),
    "T": BsubOption(ignored("the number of threads is not limited")),
    "U": BsubOption(job_field("reservation", "the job runs in this reservation")),
    "W": BsubOption(r.read_run_time),
    "We": BsubOption(ignored("run times are predicted by those of earlier jobs")),
    "XF": BsubOption(ignored("windows are not forwarded"), argument=False),
    "Zs": BsubOption(ignored("the script is always stored", _NOTE), argument=False),
    "a": BsubOption(_SITE),
    "app": BsubOption(_SITE),
    "ar": BsubOption(ignored("the job keeps its size"), argument=False),
    "b": BsubOption(r.read_begin),
    "c": BsubOption(ignored("processor time has no limit of its own: the run time limit is -W")),
    "clusters": BsubOption(refused("the job runs in this cluster", "leave it out")),
    "cwd": BsubOption(r.read_directory),
    "data": BsubOption(refused("files are not fetched by name", "copy them in the script")),
    "e": BsubOption(r.error_file(append=True)),
    "env": BsubOption(r.read_variables),
    "eo": BsubOption(r.error_file(append=False)),
    "f": BsubOption(refused("files are not copied between hosts", "copy them in the script")),
    "freq": BsubOption(ignored("the speed of processors is not set")),
    "g": BsubOption(job_field("job_group", "it is the group of the job")),
    "gpu": BsubOption(r.read_gpus),
    "i": BsubOption(r.read_input),
    "is": BsubOption(r.read_input),
    "k": BsubOption(ignored("jobs have no checkpoints")),
    "m": BsubOption(r.read_hosts),
    "mig": BsubOption(ignored("a job stays on its nodes")),
    "n": BsubOption(r.read_processors),
    "network": BsubOption(ignored("the network is not known here")),
    "o": BsubOption(r.output_file(append=True)),
    "oo": BsubOption(r.output_file(append=False)),
    "outdir": BsubOption(refused("the directory of output is that of its file", "write it into -o and -e")),
    "p": BsubOption(ignored("the number of processes is not limited")),
    "ptl": BsubOption(ignored("a job waits as long as it has to")),
    "q": BsubOption(r.read_queue),
    "r": BsubOption(r.read_rerunnable, argument=False),
    "rn": BsubOption(r.read_rerunnable, argument=False),
    "s": BsubOption(ignored("the program gets SIGTERM when it is stopped")),
    "sla": BsubOption(_SITE),
    "sp": BsubOption(
        ignored("the numbers of priorities are those of the site; use: hn job submit --priority")
    ),
    "t": BsubOption(r.read_end),
    "ti": BsubOption(ignored("jobs whose dependencies cannot be met are all treated alike"), argument=False),
    "u": BsubOption(job_field("email", "it is the address for messages")),
    "ul": BsubOption(ignored("limits of the shell are not sent"), argument=False),
    "v": BsubOption(ignored("memory with swap is not limited")),
    "w": BsubOption(r.read_dependency),
    "wa": BsubOption(ignored("the program gets SIGTERM when its time is over, and no signal before")),
    "wt": BsubOption(ignored("the program gets SIGTERM when its time is over, and no signal before")),
    "x": BsubOption(r.read_exclusive, argument=False),
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
            refuse(word, f"{word.text[:60]!r} is not an option of bsub", "see bsub(1)")
        option, value = BSUB_OPTIONS[name], ""
        if option.argument:
            if not left:
                refuse(word, f"{word.text[:60]} has no value", f"write {word.text[:60]} VALUE")
            value = left.pop(0).text
        yield option.read, f"-{name}", value, word.start
