"""The names of the programs, and how one is started and ends."""

import os
import sys

from headnode.apps.cli.batch_programs.words import NOT_REACHED, ProgramRefusal, errors_of_ours
from headnode.apps.cli.catalogue import CONDOR, LSF, OF_ONE, SLURM
from headnode.apps.client.client import Client
from headnode.apps.client.head_location import head_to_ask
from headnode.core.batch import HAND_OFF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from headnode.apps.cli.batch_programs.words import OptionTable
    from headnode.core.model.errors import HeadnodeError


def run_as(program: str, argv: "Sequence[str]", client: Client | None = None, *, system: str = "") -> int:
    """Run a program of another scheduler; return its exit status.

    `system` is that of `qsub` and its like; empty: as the link says by which it was started.
    """
    if HAND_OFF in os.environ:
        fix = "name the directory of the real one: hn resource add NAME --programs DIR"
        return _print_refusal(program, ProgramRefusal(f"this is Headnode's own program; {fix}"))
    own = client or Client(lambda: head_to_ask(os.environ, os.geteuid()))
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_at_terminal, streams)
    try:
        return _start(program, argv, own, system)
    except ProgramRefusal as refusal:
        return _print_refusal(program, refusal)
    except errors_of_ours() as error:
        return _print_refusal(program, _in_words_of(program, error))
    finally:
        sys.stdout, sys.stderr = streams
        own.close()


def _at_terminal(stream: "Any") -> "Any":
    """Return a stream whose text cannot steer the terminal that it goes to; other readers get it as it is."""
    asks = getattr(stream, "isatty", None)  # there may be no stream
    return SpelledOut(stream) if asks is not None and asks() else stream


class SpelledOut:
    """A terminal to which control characters in names of others are written as codes.

    Output of tasks is bytes, and goes to `buffer` as it is.
    """

    def __init__(self, stream: "Any") -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write; lines and tabs stay."""
        if any(not part.isprintable() for line in text.split("\n") for part in line.split("\t")):
            from headnode.apps.cli.table import printable

            lines = (line.split("\t") for line in text.split("\n"))
            text = "\n".join("\t".join(map(printable, parts)) for parts in lines)
        written: int = self._stream.write(text)
        return written

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._stream, name)


_OF_SEVERAL = {
    "qsub": "qsub", "qdel": "qsub", "qhold": "qhold", "qrls": "qhold", "qalter": "qalter",
    "qsig": "qsig", "qrerun": "qsig",
    "bkill": "bkill", "bstop": "bkill", "bresume": "bkill", "bpeek": "bkill",
    "brequeue": "bkill", "bmod": "bmod", "bswitch": "bmod",
    "bhosts": "bhosts", "bqueues": "bhosts", "lsid": "bhosts", "lshosts": "bhosts", "lsload": "bhosts",
    "busers": "bhosts", "bparams": "bhosts", "lsclusters": "bhosts",
    "condor_submit": "submission", "condor_submit_dag": "submission",
    "condor_rm": "job_actions", "condor_hold": "job_actions", "condor_release": "job_actions",
    "condor_prio": "job_actions",
}  # fmt: skip
"""Modules that are several programs, or one of several systems: `run` gets its name and its system."""
_OF_ONE_PROGRAM = {"qhost": "grid_hosts", "qstat": "qstat_{system}"}
"""Modules of one program that have another name."""


def _start(program: str, argv: "Sequence[str]", client: Client, system: str) -> int:
    if program in CONDOR:
        from headnode.apps.cli.condor_programs.options import refuse_program

        refuse_program(program)
    in_family = program in SLURM or program in LSF or program in CONDOR
    system = "" if in_family else OF_ONE.get(program) or system or system_of_link(sys.argv[0])
    if wants_help(program, argv):
        from headnode.apps.cli.batch_programs.program_help import help_of

        sys.stdout.write(help_of(program, options_of(program, system)))
        return 0
    if text := _version(program, argv, system):
        print(text)
        return 0
    if program in LSF and list(argv) == ["-V"]:
        program, argv = "lsid", []
    carry_out = _module(program, system).run
    if program in _OF_SEVERAL:
        return int(carry_out(program, argv, client, system))
    return int(carry_out(argv, client))


def options_of(program: str, system: str) -> "OptionTable":
    """Return the table of the options of a program; `system` is that of `qsub` or `qstat`."""
    found: Any = _module(program, system).OPTIONS
    for key in (program, system):  # of modules of several
        found = found.get(key, found)
    table: OptionTable = found
    return table


def _module(program: str, system: str) -> "Any":
    folder = "condor_programs" if program in CONDOR else "batch_programs"
    name = _OF_SEVERAL.get(program) or _OF_ONE_PROGRAM.get(program, program).format(system=system)
    module = f"headnode.apps.cli.{folder}.{name}"
    __import__(module)
    return sys.modules[module]


def _version(program: str, argv: "Sequence[str]", system: str) -> str:
    """Return the version that a command line asks for; empty if it asks for none."""
    first = argv[0] if argv else ""
    if program in SLURM and first in ("--version", "-V"):
        from headnode.apps.cli.batch_programs.scontrol import version

        return version()
    if system == "pbs" and list(argv) == ["--version"]:
        from headnode.apps.cli.batch_programs.pbs_rows import VERSION

        return f"pbs_version = {VERSION}"
    if program in CONDOR and first.startswith("-") and first.lstrip("-") == "version":
        return f"$CondorVersion: {_CONDOR} Headnode $\n$CondorPlatform: X86_64-Linux $"
    return ""


_CONDOR = "24.0.0"
_WHOLE_LINE = (
    "squeue",
    "scancel",
    "sinfo",
    "sacct",
    "sprio",
    "seff",
    "sshare",
    "sstat",
    "sreport",
    "scrontab",
)  # every word is an option or a name


def wants_help(program: str, argv: "Sequence[str]") -> bool:
    """Return whether a command line asks for help; words behind a script or program are not the program's.

    >>> wants_help("sbatch", ["-h"]), wants_help("squeue", ["-h"]), wants_help("sbatch", ["x.sh", "--help"])
    (True, False, False)
    """
    if program in ("sbatch", "srun", "salloc", "sacct", "scontrol", "sstat") and list(argv[:1]) == ["-h"]:
        return True
    if program not in SLURM:
        short = ("-h", "--h") if program in LSF or program in CONDOR else ()
        return bool(argv) and argv[0] in ("-help", "--help", "--usage", *short)
    for word in argv:
        if word in ("--help", "--usage"):
            return True
        if not word.startswith("-") and program not in _WHOLE_LINE:
            return False
    return False


_MAX_LINKS = 8


def system_of_link(path: str) -> str:
    """Return whose ``qsub`` a link is: it leads to `hn` by one named ``qsub.pbs`` or ``qsub.gridengine``."""
    for _ in range(_MAX_LINKS):
        for system in ("pbs", "gridengine"):
            if path.endswith(f".{system}"):
                return system
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))  # noqa: PTH115, PTH118, PTH120
        except OSError:
            break
    return "pbs"


def _print_refusal(program: str, refusal: ProgramRefusal) -> int:
    sys.stdout.flush()
    for line in refusal.lines:
        sys.stderr.write(f"{line}\n" if refusal.prefix == "bare" else f"{program}: {refusal.prefix}{line}\n")
    if not refusal.prefix:
        sys.stderr.write(f'Try "{program} --help" for more information\n')
    return refusal.status


def _in_words_of(program: str, error: "HeadnodeError") -> ProgramRefusal:
    """Return a refusal of the head as the program would write it."""
    from headnode.apps.client.failures import is_away

    away = is_away(error) and program in SLURM
    known = (NOT_REACHED,) if away else ()
    return ProgramRefusal(*known, error.what, error.fix)
