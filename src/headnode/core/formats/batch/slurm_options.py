"""The options of sbatch that may stand in a script, and how they are written there.

Source:  Slurm, sbatch(1), "OPTIONS" and "filename pattern"; the long names are those of version 22.05.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import headnode.core.formats.batch.slurm as r
import headnode.core.formats.batch.slurm_nodes as nodes
from headnode.core.formats.batch.dependencies import read_slurm
from headnode.core.formats.batch.draft import BatchDraft, Reader, ignored, read_hold, refused
from headnode.core.formats.batch.gpus import GpuScope
from headnode.core.formats.batch.lines import Word
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.option_words import SBATCH

_NOTE = Fidelity.NOTE
Refuse = Callable[[Word, str, str], None]


class SlurmOption(NamedTuple):
    """An option: how it is read, its letter, and whether it takes an argument: always, never or by `=`."""

    read: Reader
    letter: str
    argument: str


_HINT = "it is a hint for the hardware of nodes, and is ignored"
_OURS = "it is for the sbatch command, not for the job"
_READERS: Final[Mapping[str, Reader]] = {
    "account": r.read_project,
    "array": r.read_array,
    "begin": r.read_begin,
    "chdir": r.read_directory,
    "clusters": refused("a job goes to this cluster", "leave it out"),
    "comment": r.read_comment,
    "constraint": r.read_features,
    "contiguous": nodes.read_contiguous,
    "cores-per-socket": nodes.read_cores,
    "cpu-freq": ignored("the speed of processors is not set"),
    "cpus-per-gpu": r.read_processors_per_gpu,
    "cpus-per-task": r.read_per_task,
    "deadline": r.read_deadline,
    "dependency": read_slurm,
    "distribution": r.read_distribution,
    "error": r.read_error,
    "exclude": r.read_excluded,
    "exclusive": r.read_exclusive,
    "export": r.read_export,
    "get-user-env": ignored("a login shell gives the environment", _NOTE),
    "gpus": r.gpus_of("gpus", GpuScope.JOB),
    "gpus-per-node": r.gpus_of("gpus-per-node", GpuScope.NODE),
    "gpus-per-socket": refused("the sockets of a GPU are not known", "write --gpus-per-node"),
    "gpus-per-task": r.gpus_of("gpus-per-task", GpuScope.PROCESS),
    "gpu-bind": ignored(_HINT),
    "gres": r.read_gres,
    "extra-node-info": nodes.read_all,
    "hint": nodes.read_hint,
    "hold": read_hold,
    "input": r.read_input,
    "job-name": r.read_name,
    "licenses": r.read_licences,
    "mail-type": r.read_mail,
    "mail-user": r.read_address,
    "mem": r.read_memory,
    "mem-bind": ignored(_HINT),
    "mem-per-cpu": r.read_memory_per_processor,
    "mem-per-gpu": r.read_memory_per_gpu,
    "mincpus": nodes.read_least_processors,
    "nice": r.read_nice,
    "no-requeue": r.read_requeue,
    "nodelist": r.read_only,
    "nodes": r.read_nodes,
    "ntasks": r.read_processes,
    "ntasks-per-core": nodes.read_tasks_of_core,
    "ntasks-per-gpu": r.read_processes_per_gpu,
    "ntasks-per-node": r.read_per_node,
    "ntasks-per-socket": nodes.read_tasks_of_socket,
    "open-mode": r.read_open_mode,
    "output": r.read_output,
    "oversubscribe": r.read_shared,
    "parsable": ignored(_OURS, _NOTE),
    "partition": r.read_groups,
    "priority": ignored("only Slurm's administrators set it; use nice"),
    "propagate": ignored("limits of the submitting shell are not passed"),
    "qos": r.read_template,
    "quiet": ignored(_OURS, _NOTE),
    "requeue": r.read_requeue,
    "reservation": r.read_reservation,
    "signal": r.read_signal,
    "sockets-per-node": nodes.read_sockets,
    "switches": nodes.read_switches,
    "tasks-per-node": r.read_per_node,
    "test-only": refused("the script only tests", "use: hn job submit --dry-run"),
    "threads-per-core": nodes.read_threads,
    "time": r.read_time,
    "time-min": r.read_least_time,
    "tmp": nodes.read_disk,
    "verbose": ignored(_OURS, _NOTE),
    "wait": ignored("use: hn job submit --wait", _NOTE),
    "wait-all-nodes": ignored("the program starts when all nodes are ready", _NOTE),
    "wckey": ignored("usage is not accounted by this key"),
    **dict.fromkeys(
        """batch bb bbf cluster-constraint container core-spec gid no-kill
        overcommit reboot spread-job thread-spec uid use-min-nodes x11""".split(),  # noqa: SIM905
        refused("it has no equivalent in Headnode", "leave it out"),
    ),
    **dict.fromkeys(
        """acctg-freq delay-boot gpu-freq gres-flags kill-on-invalid-dep mcs-label network
        power profile""".split(),  # noqa: SIM905
        ignored("it is not supported"),
    ),
}
OPTIONS: Final = {name: SlurmOption(read, *SBATCH[name]) for name, read in _READERS.items()}


VARIABLES: Final = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
    "SBATCH_ERROR": "error",
    "SBATCH_EXPORT": "export",
    "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres",
    "SBATCH_HINT": "hint",
    "SBATCH_INPUT": "input",
    "SBATCH_JOB_NAME": "job-name",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_OPEN_MODE": "open-mode",
    "SBATCH_OUTPUT": "output",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_REQ_SWITCH": "switches",
    "SBATCH_THREADS_PER_CORE": "threads-per-core",
    "SBATCH_TIMELIMIT": "time",
}
"""Variables of the shell that count more than the script, and the options that they are."""

_LETTERS: Final = {option.letter: name for name, option in OPTIONS.items() if option.letter}


def options_in(words: Sequence[Word], refuse: Refuse) -> Iterator[tuple[str, str, int]]:
    """Yield each option of a line: its long name, its argument, where it stands.

    Long names may be cut where they stay clear, as getopt_long does.
    """
    left = list(words)
    while left:
        word = left.pop(0)
        if word.text.startswith("--") and len(word.text) > 2:
            name, equals, value = word.text[2:].partition("=")
            name = _whole_name(name, word, refuse)
            if not equals and OPTIONS[name].argument == "always":
                value = _argument(word, left, refuse)
            yield name, value, word.start
        elif word.text.startswith("-") and len(word.text) > 1:
            yield from _letters(word, left, refuse)
        elif word.text in ("hetjob", "packjob"):
            refuse(word, "a job has one request for all its nodes", "submit the components as separate jobs")
        else:
            refuse(word, f"{word.text[:60]!r} is not an option", "write --NAME=VALUE, or -X VALUE")


def _letters(word: Word, left: list[Word], refuse: Refuse) -> Iterator[tuple[str, str, int]]:
    """Yield the options of a word of letters: ``-n2``, ``-Hn 2``."""
    text = word.text[1:]
    while text:
        letter, text = text[0], text[1:]
        if letter not in _LETTERS:
            refuse(word, f"-{letter} is not an option of sbatch", "see: sbatch --help")
        name = _LETTERS[letter]
        if OPTIONS[name].argument != "always":
            yield name, "", word.start
            continue
        yield name, text.removeprefix("=") or _argument(word, left, refuse), word.start
        return


def _argument(word: Word, left: list[Word], refuse: Refuse) -> str:
    if not left:
        refuse(word, f"{word.text[:60]} has no value", f"write {word.text[:60]} VALUE")
    return left.pop(0).text


def _whole_name(name: str, word: Word, refuse: Refuse) -> str:
    if name in OPTIONS:
        return name
    meant = [each for each in OPTIONS if each.startswith(name)]
    if not name or not meant:
        before_slurm_18 = name == "workdir"
        fix = "write --chdir=DIRECTORY" if before_slurm_18 else "see: sbatch --help"
        refuse(word, f"--{name[:60]} is not an option of sbatch", fix)
    if len(meant) > 1:
        refuse(word, f"--{name[:60]} is ambiguous", f"write one of --{', --'.join(meant)}")
    return meant[0]


_PATTERN = re.compile(r"%(\d*)([%AajJNnstux])|\\(.)")


def file_name(draft: BatchDraft, text: str) -> str:
    """Return the name of a file as ours: with variables in place of patterns.

    A backslash takes the meaning of all patterns away.
    """
    if text in ("", "/dev/null") or "\\" in text:
        return text.replace("\\", "")
    swept = bool(draft.array)
    stars = "^*" if swept else "*"

    def value_of(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        values = {
            "%": "%",
            "A": "%CCP_JOBID%",
            "a": "*" * max(1, int(width or "1")) if swept else "4294967294",
            "j": "%CCP_JOBID%",
            "J": "%CCP_JOBID%",
            "N": "%HEADNODE_NODE%",
            "n": "0",
            "s": "batch",
            "t": "0",
            "u": "%USER%",
            "x": str(draft.job.get("name", "")),
        }
        return values[letter]

    return _PATTERN.sub(value_of, text.replace("*", stars))
