"""The options of the head's own command, and the nodes that they start."""

import argparse
import os
from pathlib import Path

import msgspec

from headnode.adapters.files.local_daemons import host_name


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


def node_names(options: HeadOptions) -> list[str]:
    """Return the names of this machine's nodes."""
    host = host_name()
    if options.nodes is None or options.nodes == 1:
        return [host]
    return [f"{host}-{number}" for number in range(1, options.nodes + 1)]
