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

    from headnode.core.model.errors import HeadnodeError


def run_as(program: str, words: "Sequence[str]", client: Client | None = None, *, system: str = "") -> int:
    """Run a program of another scheduler; return its exit status.

    `system` is that of `qsub` and its like; empty: as the link says by which it was started.
    """
    if HAND_OFF in os.environ:
        fix = "name the directory of the real one: hn resource add NAME --programs DIR"
        return _tell(program, ProgramRefusal(f"this is Headnode's own program; {fix}"))
    own = client or Client(lambda: head_to_ask(os.environ, os.geteuid()))
    try:
        return _start(program, words, own, system)
    except ProgramRefusal as refusal:
        return _tell(program, refusal)
    except errors_of_ours() as error:
        return _tell(program, _in_words_of(program, error))
    finally:
        own.close()


def _start(program: str, words: "Sequence[str]", client: Client, system: str) -> int:
    if program in CONDOR:
        from headnode.apps.cli.condor_programs.programs import run

        return run(program, words, client)
    if program in SLURM and list(words[:1]) in (["--version"], ["-V"]):
        from headnode.apps.cli.batch_programs.scontrol import version

        print(version())
        return 0
    if program in LSF:
        return _start_of_lsf(program, words, client)
    system = "" if program in SLURM else OF_ONE.get(program) or system or system_of_link(sys.argv[0])
    if wants_help(program, words):
        from headnode.apps.cli.batch_programs.program_help import print_help

        return print_help(program, None if system else _module(program).OPTIONS, system)
    if program in SLURM:
        return int(_module(program).run(words, client))
    if system == "pbs" and list(words) == ["--version"]:
        from headnode.apps.cli.batch_programs.pbs_rows import VERSION

        print(f"pbs_version = {VERSION}")
        return 0
    if program in OF_ONE:
        return int(_module("grid_hosts" if program == "qhost" else program).run(words, client))
    if program == "qstat":
        return int(_module(f"qstat_{system}").run(words, client))
    if program == "qalter":
        return int(_module("qalter").run(words, client, system))
    if program in ("qhold", "qrls"):
        return int(_module("qhold").run(program, words, client, system))
    qsub = _module("qsub")
    return int((qsub.delete if program == "qdel" else qsub.submit)(words, client, system))


def _start_of_lsf(program: str, words: "Sequence[str]", client: Client) -> int:
    if list(words[:1]) in (["-h"], ["--help"], ["-help"]):
        from headnode.apps.cli.batch_programs.program_help import print_help

        return print_help(program, None, "lsf")
    if list(words) == ["-V"]:
        program, words = "lsid", []
    module = _module(LSF[program])
    carry_out = module.peek if program == "bpeek" else module.run
    return int(carry_out(program, words, client))


_WHOLE_LINE = (
    "squeue",
    "scancel",
    "sinfo",
    "sacct",
    "sprio",
    "seff",
    "sshare",
)  # every word is an option or a name


def wants_help(program: str, words: "Sequence[str]") -> bool:
    """Return whether a command line asks for help; words behind a script or program are not the program's.

    >>> wants_help("sbatch", ["-h"]), wants_help("squeue", ["-h"]), wants_help("sbatch", ["x.sh", "--help"])
    (True, False, False)
    """
    if program in ("sbatch", "srun", "salloc", "sacct", "scontrol") and list(words[:1]) == ["-h"]:
        return True
    if program.startswith("q"):
        return list(words[:1]) in (["--help"], ["-help"])
    for word in words:
        if word in ("--help", "--usage"):
            return True
        if not word.startswith("-") and program not in _WHOLE_LINE:
            return False
    return False


def _module(name: str) -> "Any":
    __import__(f"headnode.apps.cli.batch_programs.{name}")
    return sys.modules[f"headnode.apps.cli.batch_programs.{name}"]


_MOST_LINKS = 8


def system_of_link(path: str) -> str:
    """Return whose ``qsub`` a link is: it leads to `hn` by one named ``qsub.pbs`` or ``qsub.gridengine``."""
    for _ in range(_MOST_LINKS):
        for system in ("pbs", "gridengine"):
            if path.endswith(f".{system}"):
                return system
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))  # noqa: PTH115, PTH118, PTH120
        except OSError:
            break
    return "pbs"


def _tell(program: str, refusal: ProgramRefusal) -> int:
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
