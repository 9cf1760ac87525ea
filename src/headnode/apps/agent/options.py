"""What the agent is told on its command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, read.  What is None or empty is found on the machine.  Memory in MB, speed in MHz."""

    head: Path
    state: Path
    name: str
    processors: int | None
    sockets: int | None
    memory: int | None
    speed: int | None
    groups: tuple[str, ...]


def read_options(argv: Sequence[str]) -> Options:
    """Read the command line.

    Raises:  SystemExit 2 with a sentence when it is wrong, 0 after help.
    """
    parser = argparse.ArgumentParser(prog="headnode agent", description=__doc__, allow_abbrev=False)
    parser.add_argument("--head", type=Path, required=True, metavar="SOCKET", help="the head's socket")
    parser.add_argument("--state", type=Path, required=True, metavar="DIRECTORY", help="where to keep things")
    parser.add_argument("--name", required=True, help="name of this node")
    for name in ("processors", "sockets", "memory", "speed"):
        parser.add_argument(f"--{name}", type=_positive, metavar="N", help="instead of what the machine has")
    parser.add_argument("--groups", default="", metavar="A,B", help="node groups this node is in")
    found = parser.parse_args(argv)
    return Options(
        head=found.head.absolute(),
        state=found.state.absolute(),
        name=found.name,
        processors=found.processors,
        sockets=found.sockets,
        memory=found.memory,
        speed=found.speed,
        groups=tuple(name.strip() for name in found.groups.split(",") if name.strip()),
    )


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
