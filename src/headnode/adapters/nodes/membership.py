"""What a node of another machine keeps: the head it belongs to, its own key, the certificates of both."""

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from headnode.adapters.files.local_daemons import MEMBERSHIP
from headnode.adapters.wire.agent_messages import (
    MAX_GREETING,
    PROTOCOL,
    CertificateRejected,
    GetAuthority,
    Join,
    JoinStandby,
)
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import (
    AuthorityCertificate,
    FromStranger,
    Goodbye,
    Joined,
    StandbyJoined,
    ToStranger,
)
from headnode.adapters.wire.peers import Address, written_address
from headnode.adapters.wire.tls import KeyPair, dial, fingerprint_of, node_side, request_for, stranger_side
from headnode.core.model.errors import IS_STANDBY, BadRequest, HeadnodeError, NotAllowed, Unavailable
from headnode.core.model.node import NodeFacts

DEFAULT_PORT = 5817
_BETWEEN_COMPLAINTS = 300.0  # seconds
_MAX_REASON = 200  # characters
_TIMEOUT = 30.0  # seconds that the head has for each answer

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[ToStranger] = msgspec.msgpack.Decoder(ToStranger)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Invitation(NamedTuple):
    """An invitation: the data with which a new node joins the cluster."""

    host: str
    port: int
    secret: str
    fingerprint: str  # of the certificate of the cluster's authority

    def __str__(self) -> str:
        return f"{written_address((self.host, self.port))}/{self.secret}.{self.fingerprint}"


def read_invitation(text: str, printed_by: str = "hn node invite") -> Invitation:
    """Read what the command `printed_by` printed.

    Raises:  BadRequest ``invitation``.
    """
    where, _, proof = text.strip().partition("/")
    secret, _, fingerprint = proof.partition(".")
    host, port = read_address(where, "invitation")
    if not secret or len(fingerprint) != 64 or not all(sign in "0123456789abcdef" for sign in fingerprint):
        raise BadRequest(
            code="invitation",
            what=f"{text.strip()[:40]!r} is not an invitation, or only a part of one",
            fix=f"paste the whole line that `{printed_by}` printed",
        )
    return Invitation(host, port, secret, fingerprint)


def read_address(text: str, code: str) -> tuple[str, int]:
    """Read HOST, HOST:PORT or [HOST]:PORT.

    Raises:  BadRequest with `code`.
    """
    named, colon, port = text.rpartition(":") if ":" in text and not text.endswith("]") else (text, "", "")
    host = named.removeprefix("[").removesuffix("]")
    signs = _OF_HOSTS if named == host else _OF_HOSTS + ":"  # an IPv6 address without brackets may be cut
    is_host = 0 < len(host) <= MAX_ADDRESS and all(sign.isalnum() or sign in signs for sign in host)
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536
    if not is_host or host.startswith("-") or (colon and not is_port):
        raise BadRequest(
            code=code,
            what=f"{text[:80]!r} is not an address",
            fix=f"write HOST or HOST:PORT, such as head:{DEFAULT_PORT}, or [::1]:{DEFAULT_PORT} for IPv6",
        )
    return host, int(port) if colon else DEFAULT_PORT


_OF_HOSTS = "-._%"  # beside letters and digits
MAX_ADDRESS = 300  # characters
MAX_HEADS = 8  # addresses that a head may name for others that may become the head


def usable_addresses(texts: Sequence[str]) -> list[Address]:
    """Return those of the addresses that are some, each once, at most `MAX_HEADS`.

    What is wrong in a message or a file must not keep a node from the heads that it can reach.
    """
    addresses: dict[Address, None] = {}
    for text in texts[:MAX_HEADS]:
        if len(text) <= MAX_ADDRESS:
            with contextlib.suppress(BadRequest):
                addresses[read_address(text, "heads")] = None
    return list(addresses)


class Membership(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of which cluster a machine is which node, and where its head is or may be."""

    host: str  # where its head was last
    port: int
    node: str
    heads: tuple[str, ...] = ()  # HOST:PORT of the standby heads, as the head said last
    former: str = ""  # HOST:PORT of the head before the last one; empty: there was none
    term: int = 0  # the highest that a head has said


class NodeIdentity:
    """The files of one node, below the state directory of its agent."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "identity"
        self._authority = self._directory / "authority.pem"
        self._own = KeyPair(self._directory / "node.pem", self._directory / "node.key")
        self._membership = state / MEMBERSHIP
        self._quiet_until = 0.0  # the head is not told of mistrust again before, on the monotonic clock

    def membership(self) -> Membership | None:
        """Return where this node belongs; None: it has not joined.

        Raises:  Unavailable ``identity`` when the files are damaged.
        """
        try:
            return msgspec.json.decode(self._membership.read_bytes(), type=Membership)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise Unavailable(
                code="identity",
                what=f"{str(self._membership)!r} cannot be read: {error}",
                fix="take the directory away and join again with a new invitation",
            ) from None

    async def join(self, invitation: Invitation, facts: NodeFacts) -> bool:
        """Become a node of the cluster that invites; return whether it is ready at once.

        Nothing is said to a head that is not the one the invitation means.
        Raises:  NotAllowed ``not-joined`` when the head refuses; Unavailable ``head-away`` when it is not
                 reached, ``standby`` when it is none now; NotAllowed ``wrong-head`` when another answers.
        """
        address = f"{invitation.host}:{invitation.port}"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._learn_authority(invitation)
            request = request_for(facts.name, self._own.key)
            joined = await self._ask_to_join(invitation, facts, request)
        except TimeoutError:
            raise head_away(address, "it does not answer") from None
        except OSError as error:
            raise head_away(address, str(error)) from None
        self._own.certificate.write_bytes(joined.certificate)
        self.keep(Membership(invitation.host, invitation.port, facts.name))
        return joined.approved

    def keep(self, belongs: Membership) -> None:
        """Remember where this node belongs; it is on the disk afterwards.

        Raises:  OSError; what was there before is still there.
        """
        scratch = self._membership.with_suffix(".new")
        with scratch.open("wb") as file:
            file.write(msgspec.json.encode(belongs))
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self._membership)
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    async def _learn_authority(self, invitation: Invitation) -> None:
        """Store the certificate of the head's authority."""
        self._authority.write_bytes(await learn_authority(invitation))

    async def _ask_to_join(self, invitation: Invitation, facts: NodeFacts, request: bytes) -> Joined:
        context = node_side(self._authority)
        join = Join(protocol=PROTOCOL, secret=invitation.secret, facts=facts, certificate_request=request)
        async with _conversation(await dial(invitation.host, invitation.port, context)) as streams:
            answer = await _ask(streams, join)
        if isinstance(answer, Joined):
            return answer
        reason = answer.reason if isinstance(answer, Goodbye) else "its answer was not understood"
        raise NotAllowed(code="not-joined", what=f"the head refused this node: {reason}")

    async def dial(self, address: Address | None = None, protocol: str = "") -> Streams:
        """Return a new connection to a head, on which this node has shown its certificate.

        address:   where; None: where the head was last
        protocol:  as in `node_side`
        Raises:  OSError.
        """
        belongs = self.membership()
        if belongs is None:
            raise FileNotFoundError(f"this node has not joined: {self._membership} is missing")
        host, port = address or (belongs.host, belongs.port)
        try:
            return await dial(host, port, node_side(self._authority, self._own, protocol))
        except ssl.SSLCertVerificationError:
            await self._log_mistrust((host, port), belongs.node)
            raise

    async def _log_mistrust(self, address: Address, node: str) -> None:
        """Let the log of the head say why this node stays away, now and then."""
        now = time.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + _BETWEEN_COMPLAINTS
        with contextlib.suppress(OSError, msgspec.MsgspecError, HeadnodeError):
            async with _conversation(await dial(*address, stranger_side())) as streams:
                await _ask(streams, CertificateRejected(node=node))


async def learn_authority(invitation: Invitation) -> bytes:
    """Ask for the head's authority; return its certificate (PEM) if it is the one of the invitation.

    Raises:  NotAllowed ``wrong-head``; Unavailable ``standby``; OSError; TimeoutError.
    """
    async with _conversation(await dial(invitation.host, invitation.port, stranger_side())) as streams:
        answer = await _ask(streams, GetAuthority())
    if isinstance(answer, Goodbye) and answer.reason.startswith(IS_STANDBY):
        raise Unavailable(
            code=IS_STANDBY,
            what=f"{written_address((invitation.host, invitation.port))} is not the head now: "
            f"{answer.reason[:_MAX_REASON]}",
            fix="name the address of the head",
        )
    certificate = answer.certificate if isinstance(answer, AuthorityCertificate) else b""
    if not certificate or fingerprint_of(certificate) != invitation.fingerprint:
        raise NotAllowed(
            code="wrong-head",
            what=f"{invitation.host}:{invitation.port} is not the head that made this invitation",
            fix="check the address, and whether the head's state directory was created again since",
        )
    return certificate


async def ask_to_be_standby(invitation: Invitation, authority: Path, question: JoinStandby) -> StandbyJoined:
    """Show a head the invitation to be its standby; return what it answers.

    authority:  the file with the certificate of the head's authority
    Raises:  NotAllowed ``not-joined`` when the head refuses; OSError; TimeoutError.
    """
    dialed = await dial(invitation.host, invitation.port, node_side(authority))
    async with _conversation(dialed) as streams:
        answer = await _ask(streams, question)
    if isinstance(answer, StandbyJoined):
        return answer
    reason = answer.reason if isinstance(answer, Goodbye) else "its answer was not understood"
    raise NotAllowed(code="not-joined", what=f"the head refused this standby: {reason}")


@contextlib.asynccontextmanager
async def _conversation(streams: Streams) -> AsyncIterator[Streams]:
    try:
        async with asyncio.timeout(_TIMEOUT):
            yield streams
    finally:
        streams[1].close()
        with contextlib.suppress(OSError):
            await streams[1].wait_closed()


async def _ask(streams: Streams, question: FromStranger) -> ToStranger:
    reader, writer = streams
    writer.write(frame(_encode(question)))
    await writer.drain()
    answer = await read_frame(reader, MAX_GREETING)
    if answer is None:
        raise ConnectionResetError("it closed the connection")
    try:
        return _decoder.decode(answer)
    except msgspec.MsgspecError:
        raise ConnectionResetError("its answer was not understood") from None


def head_away(address: str, why: str) -> Unavailable:
    """Return the error for a head that is not reached."""
    return Unavailable(
        code="head-away",
        what=f"the head at {address} cannot be reached: {why}",
        fix="check the address and the firewall, and that the head was started with --listen",
    )
