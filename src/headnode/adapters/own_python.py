"""Commands that run Headnode's own modules in new processes of the Python that runs this one.

No module of the working directory is imported, and no variable of Python (`PYTHONPATH`, `PYTHONINSPECT`, ...)
counts: `hn up` may be called by root in a directory, and with an environment, that a user has filled.

Source: docs.python.org, "Command line and environment", -E, -I, -P, -S and -s.
"""

import os
import site
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

SOURCE_ROOT = Path(__file__).parents[2]  # the directory that holds the package `headnode`
_FIND_HEADNODE = "import sys; sys.path.insert(0, sys.argv.pop()); "


def module_command(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the command that runs a module of Headnode with these arguments.

    `environment` is that of the new process; None: as that of this one.
    """
    return [
        sys.executable,
        *_options(os.environ if environment is None else environment),
        "-m",
        module,
        *arguments,
    ]


def function_command(module: str, function: str, *arguments: str) -> list[str]:
    """Return the command that calls a function of a module that needs Headnode and the standard library only.

    Without `site` this starts in half the time.  `function` takes no arguments; it reads `sys.argv`.
    """
    code = f"{_FIND_HEADNODE}from {module} import {function}; {function}()"
    return [*code_command(sys.executable, code), *arguments, str(SOURCE_ROOT)]


def code_command(python: str, code: str) -> list[str]:
    """Return the command that runs code of the standard library only, with a Python of this machine."""
    return [python, "-I", "-S", "-c", code]


def closed_to_others(paths: Iterable[Path] | None = None) -> Path | None:
    """Return the first directory or file on the way to these files that users but its owner cannot use.

    `paths` None means what tasks of other users start: this Python, its library, and Headnode.  Only the mode
    is looked at, and of links the place that they lead to.
    """
    if paths is None:
        paths = [Path(sys.executable), Path(os.__file__), SOURCE_ROOT / "headnode"]
    for path in paths:
        for written in {path.parent.resolve() / path.name, path.resolve()}:
            for part in (*reversed(written.parents), written):
                needed = stat.S_IXOTH if part.is_dir() else stat.S_IROTH
                if not part.stat().st_mode & needed:
                    return part
    return None


def _options(environment: Mapping[str, str]) -> list[str]:
    """Return the options that keep out what Headnode itself is not installed in.

    A Headnode that was found through PYTHONPATH, as from a source tree, needs it in its children too.  The
    directory of packages of one user is safe for that user; root enters none: `sudo` may have kept HOME.
    """
    options = ["-P"]
    if sys.flags.ignore_environment or not _is_in(environment.get("PYTHONPATH", "")):
        options.append("-E")
    if os.geteuid() == 0 and not (site.ENABLE_USER_SITE and _is_in(site.getusersitepackages())):
        options.append("-s")
    return options


def _is_in(path: str) -> bool:
    """Return whether Headnode was found in one of the directories of a path."""
    folders = path.split(os.pathsep)
    return any(folder and Path(folder).resolve() == SOURCE_ROOT.resolve() for folder in folders)
