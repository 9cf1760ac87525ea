"""Send notices for a head: gets deliveries on its channel, says what became of each.

Each message is MessagePack behind its length.  It ends when the head has hung up, or is gone; what was
not sent by then is sent again.
"""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec

from headnode.adapters.notify.delivery import deliver, send_events
from headnode.adapters.notify.outbox import Delivery, EventPost
from headnode.adapters.wire.child_end import messages, parent_channel
from headnode.adapters.wire.frame_codec import frame

AT_ONCE = 4  # deliveries


def main() -> None:
    """Bring what the head gives, until it gives no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the head, which will hang up
    channel = parent_channel()
    orders: msgspec.msgpack.Decoder[Delivery | EventPost] = msgspec.msgpack.Decoder(Delivery | EventPost)
    speaking = threading.Lock()

    def bring_one(message: bytes) -> None:
        order = orders.decode(message)
        result = deliver(order) if isinstance(order, Delivery) else send_events(order)
        answer = frame(msgspec.msgpack.encode(result))
        with speaking:
            channel.sendall(answer)

    pool = ThreadPoolExecutor(AT_ONCE)
    for message in messages(channel):
        pool.submit(bring_one, message)
    os._exit(0)  # without waiting for servers that do not answer


if __name__ == "__main__":
    main()
