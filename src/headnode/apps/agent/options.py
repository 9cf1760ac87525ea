"""What the agent is told on its command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, read.  What is None or empty is found on the machine.

    Memory, disk and swap in MB, speed in MHz.

    `head` None: the head is on another machine, and the state directory knows which once it has joined.
    """

    head: Path | None
    join: str  # an invitation; empty: none
    only_join: bool
    state: Path
    name: str
    processors: int | None
    sockets: int | None
    memory: int | None
    speed: int | None
    disk: int | None
    swap: int | None
    groups: tuple[str, ...]
    features: tuple[str, ...]


def read_options(argv: Sequence[str]) -> Options:
    """Read the command line.

    Raises:  SystemExit 2 with a sentence when it is wrong, 0 after help.
    """
    parser = argparse.ArgumentParser(prog="headnode agent", description=__doc__, allow_abbrev=False)
    parser.add_argument("--head", type=Path, metavar="SOCKET", help="the socket of a head on this machine")
    parser.add_argument("--join", default="", metavar="INVITATION", help="as hn node invite printed it")
    parser.add_argument("--only-join", action="store_true", help="join and end")
    parser.add_argument("--state", type=Path, required=True, metavar="DIRECTORY", help="state directory")
    parser.add_argument("--name", default="", help="name of this node (default: that of the machine)")
    for name in ("processors", "sockets", "memory", "speed", "disk", "swap"):
        parser.add_argument(
            f"--{name}",
            type=_positive,
            metavar="N",
            help="use this number instead of the one found on the machine",
        )
    parser.add_argument("--groups", default="", metavar="A,B", help="node groups this node is in")
    parser.add_argument("--features", default="", metavar="A,B", help="features this node has")
    found = parser.parse_args(argv)
    return Options(
        head=None if found.head is None else found.head.absolute(),
        join=found.join,
        only_join=found.only_join,
        state=found.state.absolute(),
        name=found.name,
        processors=found.processors,
        sockets=found.sockets,
        memory=found.memory,
        speed=found.speed,
        disk=found.disk,
        swap=found.swap,
        groups=_words(found.groups),
        features=_words(found.features),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
