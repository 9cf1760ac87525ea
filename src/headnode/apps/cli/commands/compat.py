"""``hn compat``: links to `hn` with the names of the programs of HPC Pack and of other schedulers.

The name `qsub` serves two systems: the link leads to `hn` by a second one, ``qsub.pbs``, which says whose.
"""

import os
import sys
from pathlib import Path

from headnode.apps.cli.catalogue import BATCH_PROGRAMS, CONDOR, LSF, OF_ONE, PBS, SLURM, CliCommand
from headnode.apps.cli.hpc_pack_programs import PROGRAMS as HPC_PACK
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from headnode.core.model.errors import HeadnodeError


FAMILIES = {"hpcpack": (*HPC_PACK,), "slurm": SLURM, "lsf": LSF, "qsub": PBS, "condor": CONDOR}
QSUB = ("pbs", "gridengine")


def install(args: Arguments, _client: Client, out: Output) -> int:
    """Make the links; a file of the same name that is no such link is left alone and told."""
    folder, target, links = _folder(args), _program(), _wanted_links(args)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if taken := [name for name in links if not _may_stand(folder / name)]:
            raise _taken(folder / taken[0])
        for name, leads_to in links.items():
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(leads_to or str(target))
    except OSError as trouble:
        raise _trouble(folder, trouble) from trouble
    for name, leads_to in links.items():  # all are made, even if nobody reads this to its end
        link, end = folder / name, leads_to or str(target)
        out.outcome(f"{link} is a link to {end}.", {"link": str(link), "target": end}, link)
    _note_others(folder, links, out)
    return 0


def _wanted_links(args: Arguments) -> "dict[str, str]":
    """Return the names of the links, and to which other each leads; empty: to `hn`."""
    families = (args.text("only") or ",".join(FAMILIES)).split(",")
    for family in families:
        if family not in FAMILIES:
            raise usage(f"there are no programs {family!r}", f"choose from: {', '.join(FAMILIES)}")
    system = args.text("qsub") or QSUB[0]
    if system not in QSUB:
        raise usage(f"qsub is of pbs or gridengine, not of {system!r}", f"choose from: {', '.join(QSUB)}")
    names = [name for family in families if family != "qsub" for name in FAMILIES[family]]
    links = dict.fromkeys(names, "")
    for name in FAMILIES["qsub"] if "qsub" in families else ():
        links |= {f"{name}.{system}": "", name: f"{name}.{system}"}
    if "qsub" in families:
        links |= {name: "" for name, whose in OF_ONE.items() if whose == system}
    return links


def _note_others(folder: Path, links: "Mapping[str, str]", out: Output) -> None:
    """Note what keeps the links from being found, and which programs of others they hide."""
    paths = os.environ.get("PATH", "").split(os.pathsep)
    if str(folder) not in paths:
        out.note(f"{folder} is not in PATH: add it with: export PATH={folder}:$PATH")
    others = [Path(path, name) for path in paths if path for name in BATCH_PROGRAMS if name in links]
    hidden = [path for path in others if path.parent != folder and _is_there(path) and not _is_ours(path)]
    if hidden:
        out.note(f"{hidden[0]} is the program of another scheduler: which one starts is decided by PATH")


def _is_there(path: Path) -> bool:
    """Return whether a program is there; what is in a directory that the user may not enter is not."""
    return os.path.exists(path)  # noqa: PTH110 (Path.exists raises PermissionError)


_SECOND_LINKS = tuple(f"{name}.{system}" for name in PBS for system in QSUB)
EVERY_LINK = (*HPC_PACK, *BATCH_PROGRAMS, *_SECOND_LINKS)


def remove(args: Arguments, _client: Client, out: Output) -> int:
    """Remove the links of a directory."""
    folder = _folder(args)
    links = [folder / name for name in EVERY_LINK if _is_ours(folder / name)]
    try:
        for link in links:
            link.unlink()
            out.outcome(f"{link} has been removed.", {"link": str(link)}, link)
    except OSError as trouble:
        raise _trouble(folder, trouble) from trouble
    if not links:
        out.note(f"{folder} has no such links")
    return 0


def show(_asked: Arguments, _client: Client, out: Output) -> int:
    """List the links that the directories of PATH have."""
    folders = dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep))
    links = [Path(folder, name) for folder in folders if folder for name in EVERY_LINK]
    own = [link for link in links if _is_ours(link)]
    for link in own:
        out.outcome(f"{link} -> {link.readlink()}", {"link": str(link), "target": str(link.readlink())}, link)
    if not own:
        from headnode.apps.cli.table import RecordTable

        out.show_table(RecordTable("Link", (), []))
        out.note("no directory of PATH has these programs: hn compat install DIRECTORY")
    return 0


def _folder(args: Arguments) -> Path:
    if len(args.words) != 1:
        what = f"{len(args.words)} directories were given" if args.words else "no directory was given"
        raise usage(what, "give one, such as ~/bin")
    return Path(args.words[0]).absolute()


def _program() -> Path:
    """Return the program `hn` itself."""
    program = Path(sys.argv[0]).absolute()
    beside = program if program.name == "hn" else Path(sys.executable).parent / "hn"
    if not beside.exists():
        raise usage("the program hn was not found", "start it by its path: /PATH/TO/hn compat install DIR")
    return beside


def _is_ours(path: Path) -> bool:
    """Return True for a link to a program called `hn`, whether that exists or not; also by a second link."""
    if not path.is_symlink():
        return False
    target = path.readlink()
    return target.name == "hn" or str(target) in _SECOND_LINKS


def run_program(args: Arguments, client: Client, _out: Output) -> int:
    """Run a program that needs no link."""
    if not args.words or args.words[0] not in BATCH_PROGRAMS:
        known = ", ".join(BATCH_PROGRAMS)
        raise usage(f"{' '.join(args.words[:1])!r} is not one of the programs", f"choose from: {known}")
    from headnode.apps.cli.batch_programs.programs import run_as

    return run_as(args.words[0], args.words[1:], client, system=args.text("qsub") or "")


def _may_stand(path: Path) -> bool:
    return _is_ours(path) or not (_is_there(path) or path.is_symlink())


def _taken(path: Path) -> "HeadnodeError":
    return usage(f"{path} exists and is not a link to hn", "choose another directory, or remove it")


def _trouble(folder: Path, trouble: OSError) -> "HeadnodeError":
    return usage(f"{folder} cannot be changed: {trouble.strerror}", "choose a directory that you may write")


COMMANDS = (
    CliCommand(
        "install",
        "DIRECTORY",
        "Create the programs of HPC Pack, Slurm, LSF, HTCondor and PBS or Grid Engine in a directory",
        install,
        options=(
            CliOption("only", "NAME,...", f"Only these: {', '.join(FAMILIES)} (default: all)"),
            CliOption(
                "qsub", "pbs|gridengine", "Scheduler whose qsub, qstat and qdel to make (default: pbs)"
            ),
        ),
        example="hn compat install ~/bin --only slurm",
        notes=(
            "They are links to hn. Those of HPC Pack and Compute Cluster Server are job, task, node, cluscfg "
            "and clusrun; those of Slurm sbatch, squeue, scancel, sinfo, sacct, srun, salloc and scontrol; "
            "those of LSF bsub, bjobs, bkill, bstop, bresume, bpeek, bhosts, bqueues and lsid; "
            "those of HTCondor condor_submit, condor_q, condor_rm and condor_wait, among others.",
            "The cluster parameter CommandSentences selects the wording that they print: HPCPack or CCS.",
            "job /? lists every option and its effect; so do the others.",
        ),
    ),
    CliCommand(
        "run",
        "[--qsub pbs|gridengine] PROGRAM [ARGUMENT...]",
        "Run one of the programs of Slurm, PBS, Grid Engine, LSF or HTCondor without a link",
        run_program,
        options=(CliOption("qsub", "pbs|gridengine", "Scheduler whose command line it is (default: pbs)"),),
        example="hn compat run squeue --me",
        positionals=0,
    ),
    CliCommand("list", "", "List these programs in the directories of PATH", show, example="hn compat list"),
    CliCommand(
        "remove",
        "DIRECTORY",
        "Remove these programs from a directory",
        remove,
        example="hn compat remove ~/bin",
    ),
)
