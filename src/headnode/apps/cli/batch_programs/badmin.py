"""``badmin`` of LSF: close and open hosts, and show the configuration that workflow tools read.

Source:  IBM Spectrum LSF 10.1, badmin(8).
"""

import os
import sys
import time
from pathlib import Path

from headnode.apps.cli.batch_programs.lsf_rows import NOT_DONE, USUAL_QUEUE
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, read_dashed
from headnode.apps.client.client import Client
from headnode.apps.client.local_addresses import home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OPTIONS = acted_on("C")
_QUEUES = "a queue is a job template, which is always open: see hn template list"
_RELOAD = "there are no configuration files to read again: see hn cluster params"
_REFUSED = {
    **dict.fromkeys(("qopen", "qclose", "qact", "qinact"), _QUEUES),
    **dict.fromkeys(("reconfig", "mbdrestart", "hrestart", "ckconfig"), _RELOAD),
    **dict.fromkeys(("hshut", "hstartup"), "agents are started by their machines: see hn agent"),
    **dict.fromkeys(("hist", "mbdhist", "qhist"), "use: hn cluster history"),
    "hhist": "use: hn node view NODE",
}
"""Commands of badmin that are refused, and what to use instead."""


def run(argv: "Sequence[str]", client: Client) -> int:
    """Carry out a command of badmin."""
    command, rest = (argv[0] if argv else ""), list(argv[1:])
    if why := _REFUSED.get(command):
        raise ProgramRefusal(f"{command} is not supported here: {why}", status=NOT_DONE, prefix="")
    if command not in _COMMANDS:
        known = " ".join(_COMMANDS)
        raise ProgramRefusal(
            f"{command[:60]!r} is no command here", f"here are: {known}", status=NOT_DONE, prefix=""
        )
    return _COMMANDS[command](rest, client)


def _close(arguments: "Sequence[str]", client: Client) -> int:
    """Start no new jobs on hosts; what runs there goes on."""

    def close(host: str, comment: str) -> None:
        client.ask("drain_node", node=host, reason=comment or "badmin hclose")

    return _each_host("Close", arguments, client, close)


def _open(arguments: "Sequence[str]", client: Client) -> int:
    def reopen(host: str, _comment: str) -> None:
        client.ask("resume_node", node=host)

    return _each_host("Open", arguments, client, reopen)


def _each_host(
    deed: str, arguments: "Sequence[str]", client: Client, act: "Callable[[str, str], None]"
) -> int:
    """Do it to each host that was named, or without a name to that of the command; `all` is every host."""
    from headnode.core.model.errors import HeadnodeError, NotFound

    def refuse(word: str) -> ProgramRefusal:
        return ProgramRefusal(f"{word[:60]}: illegal option", status=NOT_DONE, prefix="")

    line = read_dashed(arguments, OPTIONS, refuse)
    hosts = line.words or [os.uname().nodename.partition(".")[0]]
    if hosts == ["all"]:
        hosts = [node["name"] for node in client.ask("nodes")["nodes"]]
    status = 0
    for host in hosts:
        sys.stdout.write(f"{deed} <{host}> ...... ")
        sys.stdout.flush()
        try:
            act(host, line.value("C"))
        except NotFound:
            problem = f"{host[:60]}: Bad host name, host group name or cluster name"
        except HeadnodeError as refused:
            problem = f"{refused.what}; {refused.fix}".rstrip("; ")
        else:
            sys.stdout.write("done\n")
            continue
        sys.stdout.write("failed\n")
        sys.stdout.flush()
        sys.stderr.write(f"{problem}\n")
        status = NOT_DONE
    return status


def _show_configuration(arguments: "Sequence[str]", client: Client) -> int:
    """Print where the configuration is, after writing the one file of it that tools open: lsb.params."""
    if list(arguments[:1]) != ["mbd"] or len(arguments) > 1:
        raise ProgramRefusal("write: badmin showconf mbd", status=NOT_DONE, prefix="")
    cluster = client.ask("cluster")["cluster"]["name"]
    folder = _configuration_folder(os.environ)
    _write_parameters(folder, cluster)
    values = {
        "LSB_CONFDIR": f"{folder}/lsbatch",
        "LSB_SHAREDIR": f"{folder}/work",
        "LSF_CONFDIR": str(folder),
        "LSF_ENVDIR": str(folder),
        "LSF_UNIT_FOR_LIMITS": "MB",
    }
    print(f"MBD configuration at {time.strftime('%a %b %e %H:%M:%S %Y')}")
    for name, value in values.items():
        print(f"        {name} = {value}")
    return 0


def _configuration_folder(environ: "Mapping[str, str]") -> Path:
    """Return the directory of the user for files that tools for LSF read."""
    caches = environ.get("XDG_CACHE_HOME", "")
    folder = Path(caches) if caches.startswith("/") else Path(home_directory(environ)) / ".cache"
    return folder / "headnode" / "lsf"


def _write_parameters(folder: Path, cluster: str) -> None:
    """Write lsb.params, unless it is there as it should be.

    Raises:  ProgramRefusal if it cannot be written.
    """
    text = f"Begin Parameters\nDEFAULT_QUEUE = {USUAL_QUEUE}\nEnd Parameters\n"
    file = folder / "lsbatch" / cluster / "configdir" / "lsb.params"
    fresh = file.with_name(f".lsb.params.{os.getpid()}")
    try:
        if file.is_file() and file.read_text() == text:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text)
        fresh.replace(file)  # whole, for a tool that reads it now
    except OSError as trouble:
        what = f"{file} cannot be written: {trouble.strerror}"
        raise ProgramRefusal(what, "set XDG_CACHE_HOME", status=NOT_DONE, prefix="") from None


_COMMANDS: "Mapping[str, Callable[[Sequence[str], Client], int]]" = {
    "hclose": _close,
    "hopen": _open,
    "showconf": _show_configuration,
}
