"""The options of the head's own command, and those that it remembers."""

import argparse
import os
import socket
from pathlib import Path

import msgspec

from headnode.core.model.errors import BadRequest

_NODES_HERE = "nodes-here"


class HeadOptions(msgspec.Struct, frozen=True):
    """How to start a head.  `nodes` 0: no nodes on this machine; None: as before."""

    state: Path
    name: str
    nodes: int | None = None
    processors: int | None = None
    listen: str = ""  # HOST or HOST:PORT for nodes of other machines; empty: there are none
    verbose: bool = False


def read_options(arguments: list[str]) -> HeadOptions:
    """Return the options of the command line; argparse ends the process with 2 when they are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m headnode.apps.server", description="Run a head in the foreground."
    )
    parser.add_argument("--state", type=Path, required=True, help="state directory")
    parser.add_argument("--name", default="", help="name of the cluster (default: as before)")
    parser.add_argument("--nodes", type=int, help="nodes to run on this machine (default: as before, or 1)")
    parser.add_argument("--processors", type=int, help="processors of each (default: as before, or all)")
    parser.add_argument(
        "--listen", default="", metavar="HOST[:PORT]", help="address at which other machines can join"
    )
    parser.add_argument("--verbose", action="store_true", help="log more")
    read = parser.parse_args(arguments)
    if (read.nodes is not None and read.nodes < 0) or (read.processors is not None and read.processors < 1):
        parser.error("--nodes must be 0 or more, --processors 1 or more")
    return HeadOptions(
        state=Path(os.path.abspath(read.state)),  # noqa: PTH100  (resolve() would follow a link that may move)
        name=read.name,
        nodes=read.nodes,
        processors=read.processors,
        listen=read.listen,
        verbose=read.verbose,
    )


def cluster_name(state: Path, wished: str) -> str:
    """Return the name of the cluster: as wished now, else as it was wished last, else that of the machine.

    Raises:  OSError when the request cannot be remembered.
    """
    remembered = state / "name"
    if wished:
        remembered.write_text(wished + "\n", encoding="utf-8")
    said = remembered.read_text(encoding="utf-8").strip() if remembered.exists() else ""
    return said or socket.gethostname()


def nodes_here(state: Path, nodes: int | None, processors: int | None) -> tuple[int, int | None]:
    """Return how many nodes run on this machine, and the processors of each; None: all that it has.

    They are as wished now, else as they were wished last: a head that is started again without a word must
    find the nodes on which its tasks run.  Who wishes one of the two does not get the other of last time.
    Raises:  OSError when the request cannot be remembered; BadRequest ``nodes-here`` if it was changed.
    """
    if nodes is not None or processors is not None:
        words = [1 if nodes is None else nodes, *([] if processors is None else [processors])]
        (state / _NODES_HERE).write_text(" ".join(map(str, words)) + "\n", encoding="ascii")
    return nodes_as_before(state)


def nodes_as_before(state: Path) -> tuple[int, int | None]:
    """Return the number of nodes on this machine, and of processors on each, if no option gives them.

    Raises:  BadRequest ``nodes-here``; OSError.
    """
    remembered = state / _NODES_HERE
    if not remembered.exists():
        return _nodes_that_were_here(state), None
    said = remembered.read_text(encoding="ascii", errors="replace").split()
    if len(said) not in (1, 2) or not all(word.isascii() and word.isdigit() for word in said):
        raise BadRequest(
            code="nodes-here",
            what=f"the file {str(remembered)!r} does not have the number of nodes",
            fix="give it again: hn up --nodes N --processors N",
        )
    return int(said[0]), int(said[1]) if len(said) == 2 else None


def _nodes_that_were_here(state: Path) -> int:
    """Return how many nodes of this machine have a directory: their tasks must be found.

    They are numbered where there were several, as in `node_names`; 1 where there was one, or none yet.
    """
    host = _host()
    numbers = [
        int(number)
        for folder in (state / "nodes").glob(f"{host}-*")
        if folder.is_dir() and (number := folder.name.removeprefix(f"{host}-")).isdecimal()
    ]
    return max(numbers, default=1)


def _host() -> str:
    return socket.gethostname().split(".")[0]


def node_names(options: HeadOptions) -> list[str]:
    """Return the names of this machine's nodes."""
    host = _host()
    if options.nodes is None or options.nodes == 1:
        return [host]
    return [f"{host}-{number}" for number in range(1, options.nodes + 1)]
