"""``hn compat``: links to `hn` with the names of the programs of HPC Pack and CCS."""

import os
import sys
from pathlib import Path

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.hpc_pack_programs import PROGRAMS
from headnode.apps.cli.options import Arguments, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.core.model.errors import HeadnodeError


def install(asked: Arguments, _client: Client, out: Output) -> int:
    """Make the links; a file of the same name that is no such link is left alone and told."""
    folder, target = _folder(asked), _program()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if taken := [name for name in PROGRAMS if not _may_stand(folder / name)]:
            raise _taken(folder / taken[0])
        for name in PROGRAMS:
            link = folder / name
            link.unlink(missing_ok=True)
            link.symlink_to(target)
            out.said(f"{link} is a link to {target}.", {"link": str(link), "target": str(target)}, link)
    except OSError as trouble:
        raise _trouble(folder, trouble) from trouble
    if str(folder) not in os.environ.get("PATH", "").split(os.pathsep):
        out.note(f"{folder} is not in PATH: add it with: export PATH={folder}:$PATH")
    return 0


def remove(asked: Arguments, _client: Client, out: Output) -> int:
    """Remove the links of a directory."""
    folder = _folder(asked)
    links = [folder / name for name in PROGRAMS if _is_ours(folder / name)]
    try:
        for link in links:
            link.unlink()
            out.said(f"{link} has been removed.", {"link": str(link)}, link)
    except OSError as trouble:
        raise _trouble(folder, trouble) from trouble
    if not links:
        out.note(f"{folder} has no such links")
    return 0


def show(_asked: Arguments, _client: Client, out: Output) -> int:
    """List the links that the directories of PATH have."""
    folders = dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep))
    links = [Path(folder, name) for folder in folders if folder for name in PROGRAMS]
    found = [link for link in links if _is_ours(link)]
    for link in found:
        out.said(f"{link} -> {link.readlink()}", {"link": str(link), "target": str(link.readlink())}, link)
    if not found:
        out.note("no directory of PATH has these programs: hn compat install DIRECTORY")
    return 0


def _folder(asked: Arguments) -> Path:
    if len(asked.words) != 1:
        raise usage(f"{len(asked.words)} directories were given", "give one, such as ~/bin")
    return Path(asked.words[0]).absolute()


def _program() -> Path:
    """Return the program `hn` itself."""
    program = Path(sys.argv[0]).absolute()
    beside = program if program.name == "hn" else Path(sys.executable).parent / "hn"
    if not beside.exists():
        raise usage("the program hn was not found", "start it by its path: /PATH/TO/hn compat install DIR")
    return beside


def _is_ours(path: Path) -> bool:
    """Return True for a link to a program called `hn`, whether that exists or not."""
    return path.is_symlink() and path.readlink().name == "hn"


def _may_stand(path: Path) -> bool:
    return _is_ours(path) or not (path.exists() or path.is_symlink())


def _taken(path: Path) -> "HeadnodeError":
    return usage(f"{path} exists, and is no link to hn", "choose another directory, or remove it")


def _trouble(folder: Path, trouble: OSError) -> "HeadnodeError":
    return usage(f"{folder} cannot be changed: {trouble.strerror}", "choose a directory that you may write")


COMMANDS = (
    CliCommand(
        "install",
        "DIRECTORY",
        "Make the programs job, task, node, cluscfg and clusrun in a directory",
        install,
        example="hn compat install ~/bin",
        notes=(
            "They are links to hn that take the command lines of HPC Pack and Compute Cluster Server.",
            "The cluster parameter CommandSentences chooses whose sentences they print: HPCPack or CCS.",
            "job /? lists every option and what becomes of it; so do the others.",
        ),
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
