"""Send notices for a head, or ask its bank: gets orders on its channel, says what became of each.

Each message is MessagePack behind its length.  It ends when the head has hung up, or is gone; what was
not sent by then is sent again.
"""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec

from headnode.adapters.notify.delivery import deliver, send_events
from headnode.adapters.notify.outbox import Delivery, DeliveryResult, EventPost
from headnode.adapters.wire.child_end import end_on_fault, messages, parent_channel
from headnode.adapters.wire.frame_codec import frame
from headnode.core.model.bank import BankOrder, BankReply

AT_ONCE = 4  # deliveries


Order = Delivery | EventPost | BankOrder


def _carried_out(order: Order) -> DeliveryResult | BankReply:
    if isinstance(order, BankOrder):
        from headnode.adapters.notify.bank import ask_bank

        return ask_bank(order)
    return deliver(order) if isinstance(order, Delivery) else send_events(order)


def main() -> None:
    """Bring what the head gives, until it gives no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the head, which will hang up
    channel = parent_channel()
    orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
    speaking = threading.Lock()

    def bring_one(message: bytes) -> None:
        answer = frame(msgspec.msgpack.encode(_carried_out(orders.decode(message))))
        with speaking:
            channel.sendall(answer)

    pool = ThreadPoolExecutor(AT_ONCE)
    for message in messages(channel):
        pool.submit(bring_one, message).add_done_callback(end_on_fault)
    os._exit(0)  # without waiting for servers that do not answer


if __name__ == "__main__":
    main()
