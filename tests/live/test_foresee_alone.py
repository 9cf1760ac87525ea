"""The process that looks ahead ends in silence when nobody listens to it any more."""

import subprocess
import sys

import msgspec

from headnode.adapters.wire.frame_codec import HEADER
from headnode.engine.prediction import PredictionInput, PredictionRequest
from headnode.testing.scenes import node, scene


def test_it_says_nothing_when_the_head_was_killed_before_the_answer() -> None:
    situation = PredictionInput(scene([node("n1", 1)], [], []), "easy", {}, {}, {})
    question = msgspec.msgpack.encode(PredictionRequest(situation, 1.0))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", "headnode.apps.predict"], **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        process.stdin.write(len(question).to_bytes(HEADER, "big") + question)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
