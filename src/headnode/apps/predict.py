"""Predict starts for a head: gets situations on its channel, and answers with predictions.

Each message is MessagePack behind its length.  It ends when the head has hung up, or is gone.
"""

import os
import signal
import sys
import time

import msgspec

from headnode.adapters.wire.child_end import messages, parent_channel
from headnode.adapters.wire.frame_codec import frame
from headnode.core.scheduling.policies import POLICIES
from headnode.engine.prediction import PredictionRequest, PredictionResult, look_ahead

NICE = 10  # the head, its agents and their jobs go first


def main() -> int:
    """Answer questions until there are no more; return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the head, which will hang up
    os.nice(NICE)
    head = os.getppid()
    questions = msgspec.msgpack.Decoder(PredictionRequest)
    channel = parent_channel()
    for message in messages(channel):
        answer = msgspec.msgpack.encode(_answer(questions.decode(message), head))
        try:
            channel.sendall(frame(answer))
        except OSError:  # the head is gone
            break
    return 0


def _answer(question: PredictionRequest, head: int) -> PredictionResult:
    """Look ahead until the time is over, or the head is gone."""
    until = time.monotonic() + question.seconds

    def stop() -> bool:
        return time.monotonic() > until or os.getppid() != head

    return look_ahead(question.situation, POLICIES[question.situation.policy], stop)


if __name__ == "__main__":
    sys.exit(main())
