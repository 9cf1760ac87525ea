"""The process that looks ahead ends in silence when nobody listens to it any more."""

import socket
import subprocess
import sys

import msgspec

from headnode.adapters.wire.frame_codec import frame
from headnode.engine.prediction import PredictionInput, PredictionRequest
from headnode.testing.scenes import node, scene


def test_it_says_nothing_when_the_head_was_killed_before_the_answer() -> None:
    situation = PredictionInput(scene([node("n1", 1)], [], []), "easy", {}, {}, {})
    question = msgspec.msgpack.encode(PredictionRequest(situation, 1.0))
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-m", "headnode.apps.predict", str(theirs.fileno())]
    with subprocess.Popen(words, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as process:
        theirs.close()
        ours.sendall(frame(question))
        ours.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 0
