"""What the head asks the process that looks ahead for it."""

import msgspec

from headnode.engine.foreseeing import Situation


class Question(msgspec.Struct, frozen=True):
    """Look ahead, for so many seconds at most."""

    situation: Situation
    seconds: float
