"""Predicts starts for the head: a process of its own, so that the head goes on meanwhile."""

import msgspec

from headnode.engine.prediction import PredictionInput


class PredictionRequest(msgspec.Struct, frozen=True):
    """Look ahead, for so many seconds at most."""

    situation: PredictionInput
    seconds: float
