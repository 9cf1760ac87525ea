"""The messages between a head and a standby head: msgpack, each behind its length.

The head dials the standby, which listens where it will be reached as the head.  The head sends one message at
a time, and the standby answers each.  Source: docs/contracts/08-standby.md.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headnode.adapters.wire.agent_messages import Message
from headnode.core.model import bounds

STANDBY_PROTOCOL = 1
STANDBY_PURPOSE = "standby"  # of the secret that a head shows, derived from the key of the authority
PIECE = 1024 * 1024  # bytes of a file in one message
MAX_EVENTS = 1000  # in one message
MAX_OF_HEAD = bounds.STANDBY_MESSAGE.most  # bytes
MAX_OF_STANDBY = bounds.STANDBY_ANSWER.most  # bytes

Problem = Annotated[str, Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Address = Annotated[str, Meta(max_length=300)]
AccountName = Annotated[str, Meta(max_length=256)]
Row = tuple[Any, ...]  # of SQLite: numbers, text, bytes and nothing; msgspec has no type for them together


class HeadHello(Message, frozen=True, tag="HeadHello"):
    """Head: the cluster, and the secret that only holders of its authority can know.

    `name` is that of the standby; `address` that of the head (HOST:PORT), for people; `gateway_user` the
    account whose gateway may speak for other users.
    """

    protocol: int
    version: str
    cluster: str
    cluster_id: str
    name: str
    address: Address
    secret: str
    term: Count
    gateway_user: AccountName = ""


class JournalPiece(Message, frozen=True, tag="JournalPiece"):
    """Head: a piece of a copy of the whole journal; `digest` is the SHA-256 of all, with the last piece."""

    data: bytes
    first: bool = False
    digest: str = ""


class JournalEvents(Message, frozen=True, tag="JournalEvents"):
    """Head: the events that follow number `after`, encoded as the journal has them.

    `ends` are the numbers of those that end a batch of the head.  If the last one is not among them, nothing
    is stored until more events have come.
    """

    after: int
    events: tuple[bytes, ...]
    ends: tuple[int, ...]
    in_step: bool = False  # nothing is acknowledged that the standby does not have


class StateDigest(Message, frozen=True, tag="StateDigest"):
    """Head: the SHA-256 of its state after event `number`, when it has stored a snapshot of it."""

    number: int
    digest: str


class AuditPiece(Message, frozen=True, tag="AuditPiece"):
    """Head: what its audit log has from byte `offset` on; 0: it is another log than what is there."""

    offset: Count
    data: bytes


class RowsBetween(Message, frozen=True, tag="RowsBetween"):
    """Head: the table beside the journal has exactly these rows with keys after `after`, up to `until`.

    Empty: from the first row on, up to the last.
    """

    table: str
    after: Row
    until: Row
    rows: tuple[Row, ...]


class RowChange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The row with a key in a table beside the journal; None: it is gone."""

    table: str
    key: Row
    row: Row | None


class RowsChanged(Message, frozen=True, tag="RowsChanged"):
    """Head: what has changed in the tables beside the journal, in this order."""

    changes: tuple[RowChange, ...]


class Ping(Message, frozen=True, tag="Ping"):
    """Head: it is there, and nothing is new.  `in_step`: the standby has all that was acknowledged."""

    in_step: bool = False


class HandOver(Message, frozen=True, tag="HandOver"):
    """Head: event `number` was its last; the standby is the head from now on."""

    number: int


class StandbyHello(Message, frozen=True, tag="StandbyHello"):
    """Standby: what it has: the last event of its journal, with its checksum; 0: none that can be used.

    `audit` is the size of its audit log in bytes, `ending` the CRC-32 of the last 4096 of them.
    """

    version: str
    cluster_id: str
    number: Count
    checksum: Count
    audit: Count
    ending: Count = 0


class StandbyAnswer(Message, frozen=True, tag="StandbyAnswer"):
    """Standby: events up to `number` are on its disk, and so many bytes of the audit log.

    wants_copy:  its state differs from that of the head; it asks for the whole journal
    hand_over:   an administrator asks for a takeover there
    leaves:      it is being stopped: it takes nothing over by itself
    problem:     why it cannot go on: its disk is full, or it does not know an event
    row_problem: why it cannot store rows beside the journal; events go on
    missing:     what this head names and the machine of the standby does not have, for people
    """

    number: Count
    audit: Count = 0
    wants_copy: bool = False
    hand_over: bool = False
    leaves: bool = False
    problem: Problem = ""
    row_problem: Problem = ""
    missing: Problem = ""


class IsHead(Message, frozen=True, tag="IsHead"):
    """The machine that was dialed is a head itself, since the takeover with this term."""

    term: Count
    address: Address


class HeadRefused(Message, frozen=True, tag="HeadRefused"):
    """What was dialed refuses the head that dials it."""

    reason: Problem


FromLeader = (
    HeadHello
    | JournalPiece
    | JournalEvents
    | StateDigest
    | AuditPiece
    | RowsBetween
    | RowsChanged
    | Ping
    | HandOver
)
FromStandby = StandbyHello | StandbyAnswer | IsHead | HeadRefused

encode_message = msgspec.msgpack.Encoder().encode
decode_from_head: msgspec.msgpack.Decoder[FromLeader] = msgspec.msgpack.Decoder(FromLeader)
decode_from_standby: msgspec.msgpack.Decoder[FromStandby] = msgspec.msgpack.Decoder(FromStandby)
