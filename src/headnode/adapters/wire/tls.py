"""The cluster's own certificate authority, and TLS 1.3 by its certificates."""

import asyncio.sslproto
import datetime
import hashlib
import hmac
import os
import socket
import ssl
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headnode.adapters.wire.frames import keep_alive
from headnode.adapters.wire.peers import CLIENT, HEAD_NAME, STANDBY, TASKS
from headnode.core.model.errors import BadRequest, Unavailable

_YEARS = datetime.timedelta(days=3652)  # certificates end by removing the node, not by their date
_AHEAD = datetime.timedelta(days=1)  # clocks of nodes may be slow
_PRIVATE = 0o600


AUTHORITY_FILES: Final = ("authority.key", "authority.pem", "head.key", "head.pem")


class KeyPair(NamedTuple):
    """The files of a certificate (with its authorities) and of its private key."""

    certificate: Path
    key: Path


class Authority:
    """The certificate authority for the head and the nodes."""

    def __init__(self, directory: Path) -> None:
        """Read the authority that lives in `directory`, or make it there.

        Raises:  Unavailable ``authority`` when the files cannot be read or written.
        """
        self.head = KeyPair(directory / "head.pem", directory / "head.key")
        self.file = directory / "authority.pem"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.head.certificate.exists():
                _make(directory / "authority.key", self.file, self.head)
            self._key = _read_key(directory / "authority.key")
            self.certificate = self.file.read_bytes()
            self._own = x509.load_pem_x509_certificate(self.certificate)
        except (OSError, ValueError) as error:
            raise Unavailable(
                code="authority",
                what=f"the cluster's certificates in {str(directory)!r} cannot be used: {error}",
                fix="restore the directory from a backup, or remove it: then every node must join again",
            ) from None

    def files(self) -> dict[str, bytes]:
        """Return all files of the authority by their names, with its private keys: for a standby head.

        Raises:  Unavailable ``authority``.
        """
        try:
            return {name: (self.file.parent / name).read_bytes() for name in AUTHORITY_FILES}
        except OSError as error:
            raise Unavailable(
                code="authority",
                what=f"the cluster's certificates in {str(self.file.parent)!r} cannot be read: {error}",
                fix="restore the directory from a backup",
            ) from None

    @property
    def fingerprint(self) -> str:
        """The word that an invitation carries, so that a new node knows the right head."""
        return fingerprint_of(self.certificate)

    def derived_secret(self, purpose: str) -> str:
        """Return a secret that only this authority can know, always the same for the same purpose."""
        key = hashlib.sha256(_pem(self._key)).digest()
        return hmac.digest(key, f"headnode {purpose}".encode(), "sha256").hex()

    def vouch_for(self, request: bytes, node: str) -> tuple[bytes, str]:
        """Return a certificate (PEM) that whoever made the request is `node`, and the digest of its key.

        Raises:  BadRequest ``certificate-request``.
        """
        try:
            certificate_request = x509.load_pem_x509_csr(request)
            signed = certificate_request.is_signature_valid
        except (ValueError, InvalidSignature):
            signed = False
        if not signed:
            raise BadRequest(
                code="certificate-request",
                what=f"what node {node!r} sent is not a certificate request signed by its own key",
                fix="start its agent again with a new invitation",
            )
        use = ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = _certified(node, certificate_request.public_key(), use, self._own.subject, self._key)
        return certificate.public_bytes(serialization.Encoding.PEM), key_digest(
            certificate_request.public_key()
        )


def fingerprint_of(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate (PEM), in hexadecimal digits.

    Raises:  BadRequest ``certificate``.
    """
    return _loaded(certificate).fingerprint(hashes.SHA256()).hex()


def named_in(certificate: bytes) -> tuple[str, str]:
    """Return the node that a certificate (DER) is about, and the digest of its key.

    Raises:  BadRequest ``certificate``.
    """
    try:
        read = x509.load_der_x509_certificate(certificate)
        (name,) = read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        raise BadRequest(code="certificate", what="a node presented a certificate without a name") from None
    return str(name.value), key_digest(read.public_key())


def key_digest(key: object) -> str:
    """Return the SHA-256 of a public key, in hexadecimal digits: what the head remembers of a node.

    Raises:  BadRequest ``certificate`` for a key that is not on the curve P-256.
    """
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise BadRequest(code="certificate", what="a node presented a key that is not ECDSA P-256")
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(encoding, form)).hexdigest()


def request_for(node: str, key_file: Path) -> bytes:
    """Return a certificate request (PEM) for a node; its private key is made at `key_file` if it is missing.

    Raises:  OSError; ValueError when the file holds no key.
    """
    if not key_file.exists():
        _write_private(key_file, _pem(ec.generate_private_key(ec.SECP256R1())))
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(node))
    request = builder.sign(_read_key(key_file), hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def _loaded(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise BadRequest(code="certificate", what="the head presented no readable certificate") from None


def _make(key_file: Path, certificate_file: Path, head: KeyPair) -> None:
    """Make the authority and the head's own certificate; the last file written says that all are there."""
    key, head_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    own = _name("authority of a Headnode cluster")
    authority = (
        _builder(own, own, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    use = ExtendedKeyUsageOID.SERVER_AUTH
    certificate = _certified(HEAD_NAME, head_key.public_key(), use, own, key)
    _write_private(key_file, _pem(key))
    certificate_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    _write_private(head.key, _pem(head_key))
    scratch = head.certificate.with_suffix(".new")
    scratch.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    scratch.replace(head.certificate)


def _certified(
    name: str,
    key: object,
    use: x509.ObjectIdentifier,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise BadRequest(
            code="certificate-request",
            what=f"{name!r} sent a key that is not ECDSA P-256",
            fix="start its agent again with a new invitation",
        )
    builder = _builder(_name(name), issuer, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=True)
    if use == ExtendedKeyUsageOID.SERVER_AUTH:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _AHEAD)
        .not_valid_after(now + _YEARS)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form, nothing = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, nothing)


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{file.name} contains a key that is not ECDSA P-256")
    return key


def _write_private(file: Path, content: bytes) -> None:
    """Write a file that nobody else may ever have read."""
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
    with os.fdopen(number, "wb") as stream:
        os.fchmod(stream.fileno(), _PRIVATE)
        stream.write(content)


CONNECT = 3.0  # seconds that a machine has to accept a connection; one without power answers nothing
_MAX_ADDRESSES = 4  # of a host that are tried
HANDSHAKE = 10.0  # seconds that a peer has to show who it is
_READ_BUFFER = 16 * 1024  # bytes of each connection; asyncio's own 256 KiB are too much for thousands


def head_side(authority: Authority) -> ssl.SSLContext:
    """Return the TLS context of the head: nodes show a certificate; others may only ask to join."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(authority.head.certificate, authority.head.key)
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols([CLIENT, TASKS, STANDBY])
    return context


def node_side(authority: Path, own: KeyPair | None = None, protocol: str = "") -> ssl.SSLContext:
    """Return the TLS context of a node: `authority` must have certified the head; `own` is its certificate.

    `protocol` as in `head_name`; empty: that of nodes.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


def stranger_side() -> ssl.SSLContext:
    """Return the TLS context of a node that knows no authority yet: it only fetches its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def peer_of(writer: asyncio.StreamWriter) -> tuple[str, str] | None:
    """Return the node that is on the other end and the digest of its key; None: it showed nothing.

    Raises:  BadRequest ``certificate``.
    """
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return named_in(certificate) if certificate else None


def protocol_of(writer: asyncio.StreamWriter) -> str:
    """Return the protocol that the other end asked for, as in `head_name`; empty: that of nodes."""
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return (tls.selected_alpn_protocol() or "") if tls is not None else ""


def keep_buffers_small() -> None:
    """Let each connection of this process take little memory: a head has thousands."""
    asyncio.sslproto.SSLProtocol.max_size = _READ_BUFFER


async def dial(
    host: str, port: int, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the head.

    Raises:  OSError (also ssl.SSLError) when it is away, or is not the head that is meant;
             ConnectionRefusedError only if every address of the host refuses.
    """
    plain = await _connected(host, port)
    reader, writer = await asyncio.open_connection(
        sock=plain, ssl=context, server_hostname=HEAD_NAME, ssl_handshake_timeout=HANDSHAKE
    )
    keep_alive(writer)
    return reader, writer


async def _connected(host: str, port: int) -> socket.socket:
    """Return a plain connection.  Each address has a bounded time; a resolver has its own.

    Raises:  OSError.
    """
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except ValueError as error:  # a label that is too long, or a sign that no name has
        raise OSError(f"{host!r} is not the name of a host: {error}") from None
    failure: OSError | None = None
    for family, kind, protocol, _, address in addresses[:_MAX_ADDRESSES]:
        try:
            return await _connected_to(socket.socket(family, kind, protocol), address)
        except OSError as error:  # also when it takes too long
            if failure is None or isinstance(failure, ConnectionRefusedError):
                failure = error
    raise failure or OSError(f"the host {host!r} has no address")


async def _connected_to(plain: socket.socket, address: Any) -> socket.socket:
    try:
        plain.setblocking(False)
        async with asyncio.timeout(CONNECT):
            await asyncio.get_running_loop().sock_connect(plain, address)
    except BaseException:
        plain.close()
        raise
    return plain
