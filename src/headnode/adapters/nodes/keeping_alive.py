"""A peer that has lost its power says nothing: the kernel is asked to look whether it is still there.

Source: tcp(7), TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT.
"""

import asyncio
import socket

IDLE = 20  # seconds without a word until the first look
BETWEEN = 10  # seconds between two looks
LOOKS = 4  # that may stay without an answer
UNANSWERED = 60_000  # milliseconds that what was sent may stay without an answer


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the kernel end a TCP connection whose peer is gone; other connections need no such look."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, IDLE),
        (socket.TCP_KEEPINTVL, BETWEEN),
        (socket.TCP_KEEPCNT, LOOKS),
        (socket.TCP_USER_TIMEOUT, UNANSWERED),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
