"""Questions to a bank, by SSSRMAP: signed, sent, answered or not.  They may take many seconds."""

import asyncio
from pathlib import Path

from headnode.adapters.notify.outbox import host_and_port
from headnode.adapters.wire.sssrmap import exchange, read_site_key
from headnode.core.formats.sss.sssrmap.bank import done_before, judged, needs_query, query_of, request_of
from headnode.core.formats.sss.sssrmap.messages import (
    RmapRequest,
    RmapResponse,
    canonical,
    envelope,
    parsed,
    read_response,
    write_request,
)
from headnode.core.formats.sss.sssrmap.signatures import signature_of
from headnode.core.model.bank import BankOrder, BankReply
from headnode.core.model.bounds import RMAP_MESSAGE
from headnode.core.model.errors import HeadnodeError

PORT = 7112  # of Gold


def ask_bank(order: BankOrder) -> BankReply:
    """Ask the bank for something, or whether it has done it already; say what became of it."""
    try:
        key = read_site_key(Path(order.key_file))
        if needs_query(order) and (known := done_before(order, _answer(order, query_of(order), key))):
            return known
        return judged(order, _answer(order, request_of(order), key))
    except HeadnodeError as error:
        return BankReply(order.number, "away", words=error.what)


def _answer(order: BankOrder, request: RmapRequest, key: bytes) -> RmapResponse:
    """Return the answer of the bank to one message.

    Raises:  Unavailable ``no-peer``; MessageFault; BadRequest ``mail-server``.
    """
    host, port = host_and_port(order.server)
    body = canonical(write_request(request))
    message = envelope(body, signature_of(body, key))
    chunks = asyncio.run(exchange(host, port or PORT, message, RMAP_MESSAGE))
    return read_response(parsed(chunks[0] if chunks else b""))
