"""The options of the head's own command."""

import argparse
import os
import socket
from pathlib import Path

import msgspec


class Options(msgspec.Struct, frozen=True):
    """How to start a head.  `nodes` 0: no nodes on this machine."""

    state: Path
    name: str
    nodes: int = 1
    processors: int | None = None
    listen: str = ""  # HOST or HOST:PORT for nodes of other machines; empty: there are none
    verbose: bool = False


def read_options(arguments: list[str]) -> Options:
    """Return the options of the command line; argparse ends the process with 2 when they are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m headnode.apps.server", description="Run a head in the foreground."
    )
    parser.add_argument("--state", type=Path, required=True, help="directory that keeps everything")
    parser.add_argument("--name", default="", help="name of the cluster (default: as before)")
    parser.add_argument("--nodes", type=int, default=1, help="nodes to run on this machine (default 1)")
    parser.add_argument("--processors", type=int, help="processors of each of them (default: what is there)")
    parser.add_argument("--listen", default="", metavar="HOST[:PORT]", help="let other machines join here")
    parser.add_argument("--verbose", action="store_true", help="log more")
    read = parser.parse_args(arguments)
    if read.nodes < 0 or (read.processors is not None and read.processors < 1):
        parser.error("--nodes must be 0 or more, --processors 1 or more")
    return Options(
        state=Path(os.path.abspath(read.state)),  # noqa: PTH100  (resolve() would follow a link that may move)
        name=read.name,
        nodes=read.nodes,
        processors=read.processors,
        listen=read.listen,
        verbose=read.verbose,
    )


def cluster_name(state: Path, wished: str) -> str:
    """Return the name of the cluster: as wished now, else as it was wished last, else that of the machine.

    Raises:  OSError when the wish cannot be remembered.
    """
    remembered = state / "name"
    if wished:
        remembered.write_text(wished + "\n", encoding="utf-8")
    said = remembered.read_text(encoding="utf-8").strip() if remembered.exists() else ""
    return said or socket.gethostname()


def node_names(options: Options) -> list[str]:
    """Return the names of this machine's nodes."""
    host = socket.gethostname().split(".")[0]
    if options.nodes == 1:
        return [host]
    return [f"{host}-{number}" for number in range(1, options.nodes + 1)]
