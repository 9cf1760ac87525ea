"""Signatures of SSSRMAP messages: an HMAC, by a key that both sides have, over the digest of the Body.

What is checked is what is read: the bytes between the tags of the Body, or, for peers that sign another
spelling of the same elements, the elements of the message written again.  Gold's client, in Perl, signs the
characters of a text, not its bytes in UTF-8: a text with accents as if it were written in Latin-1.
Source:  SSSRMAP Wire Protocol 3.0.3, "Signature"; RFC 2104.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

from headnode.core.formats.sss.sssrmap.messages import canonical, child_of, elements, parsed
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement, written_attributes

SHA1, SHA256 = "HMAC-SHA1", "HMAC-SHA256"
METHODS: Final[Mapping[str, str]] = {SHA1: "sha1", SHA256: "sha256"}
SYMMETRIC: Final = "Symmetric"
_BEGIN: Final = re.compile(rb"<(?:[A-Za-z_][\w.-]{0,60}:)?Body[\s>]")
_END: Final = re.compile(rb"</(?:[A-Za-z_][\w.-]{0,60}:)?Body\s*>")
_SMALL: Final = 64 * 1024  # bytes: a larger message is not written again to try another spelling
_SHORT: Final = 4096  # bytes of a message that are not its Body


def signature_of(body: str, key: bytes, method: str = SHA1) -> str:
    """Return the Signature element for the text of a Body."""
    digest, value = _values(body.encode(), key, method)
    attributes = {"method": method} if method != SHA1 else {}
    return (
        f"<Signature><DigestValue>{digest}</DigestValue>"
        f"<SignatureValue{written_attributes(attributes)}>{value}</SignatureValue>"
        f'<SecurityToken type="{SYMMETRIC}"></SecurityToken></Signature>'
    )


def _values(body: bytes, key: bytes, method: str) -> tuple[str, str]:
    name = METHODS[method]
    digest = hashlib.new(name, body, usedforsecurity=False).digest()
    value = hmac.digest(key, digest, name)
    return base64.b64encode(digest).decode(), base64.b64encode(value).decode()


def checked_body(message: bytes, key: bytes, methods: frozenset[str] = frozenset(METHODS)) -> XmlElement:
    """Return the Body of a signed message; what is not signed by `key` is not read further.

    Raises:  MessageFault 424 for a missing or wrong signature, 434 for an encrypted message, 243, 302, 308.
    """
    if not message.strip():
        raise MessageFault(StatusCode.NO_MESSAGE, "the message is empty")
    begin = _BEGIN.search(message)
    ends = list(_END.finditer(message, begin.end())) if begin else []
    if begin is None or not ends:
        if b"EncryptedData" in message[:_SHORT]:
            raise MessageFault(StatusCode.ENCRYPTION, "encrypted messages are not read", "send it signed")
        raise MessageFault(StatusCode.NOT_A_MESSAGE, "the message has no Body", "send Envelope/Body/Request")
    outside = message[: begin.start()] + message[ends[-1].end() :]
    body = message[begin.start() : ends[-1].end()]
    if len(outside) > _SHORT:
        raise MessageFault(StatusCode.TOO_LARGE, f"more than {_SHORT} bytes beside the Body")
    signature = _signature(outside, methods)
    if _is_signed(body, key, signature) or _is_signed(_in_latin_1(body), key, signature):
        return _alone(body)
    if len(message) <= _SMALL:
        found = child_of(parsed(message), "Body")
        if found is not None and _is_signed(canonical(found).encode(), key, signature):
            return found
    raise MessageFault(
        StatusCode.AUTHENTICATION,
        "the signature does not belong to this Body and key",
        "use the key of this server, and sign the text that is sent",
    )


def _alone(body: bytes) -> XmlElement:
    """Return the element of exactly the bytes that were checked."""
    try:
        return parsed(body)
    except MessageFault as wrong:
        if wrong.status is StatusCode.NOT_XML and "amespace prefix" in wrong.what:
            raise MessageFault(
                StatusCode.NAMESPACE,
                "a prefix that the Body does not declare",
                "declare namespaces in the Body, or leave them out",
            ) from None
        raise


def _signature(outside: bytes, methods: frozenset[str]) -> tuple[str, bytes, bytes]:
    """Return the method, the digest and the value of a signature.

    Raises:  MessageFault 424, 302.
    """
    signature = next((one for one in elements(parsed(outside)) if one.name == "Signature"), None)
    parts = {one.name: one for one in elements(signature)} if signature is not None else {}
    if "SignatureValue" not in parts or "DigestValue" not in parts:
        raise MessageFault(
            StatusCode.AUTHENTICATION, "the message is not signed", "sign it with the site key"
        )
    token = (
        parts["SecurityToken"].attributes.get("type", SYMMETRIC) if "SecurityToken" in parts else SYMMETRIC
    )
    if token != SYMMETRIC:
        raise MessageFault(
            StatusCode.AUTHENTICATION,
            f"security tokens of type {token[:40]!r} are not accepted",
            "use Symmetric",
        )
    method = parts["SignatureValue"].attributes.get("method", SHA1)
    if method not in methods:
        raise MessageFault(
            StatusCode.AUTHENTICATION,
            f"the signature method {method[:40]!r} is not accepted",
            f"use {' or '.join(sorted(methods))}",
        )
    digest, value = (_decoded(parts[name].text) for name in ("DigestValue", "SignatureValue"))
    return method, digest, value


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise MessageFault(StatusCode.AUTHENTICATION, "the signature is not Base64") from None


def _in_latin_1(body: bytes) -> bytes | None:
    """Return a text in Latin-1 if that cannot be another text in UTF-8: each signature is of one text."""
    try:
        encoded = body.decode().encode("latin-1")
    except UnicodeError:
        return None
    try:
        encoded.decode()
    except UnicodeDecodeError:
        return encoded
    return None


def _is_signed(body: bytes | None, key: bytes, signature: tuple[str, bytes, bytes]) -> bool:
    if body is None:
        return False
    method, digest, value = signature
    good_digest, good_value = (base64.b64decode(one) for one in _values(body, key, method))
    return hmac.compare_digest(value, good_value) and hmac.compare_digest(digest, good_digest)
