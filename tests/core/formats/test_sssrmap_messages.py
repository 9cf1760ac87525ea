"""Messages as peers send them are read, signed and checked; what is not signed is not believed."""

import base64
import hashlib
import hmac
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.sss.sssrmap.messages import (
    RmapField,
    RmapRequest,
    RmapResponse,
    RmapStatus,
    canonical,
    chunks_of,
    element_of,
    envelope,
    leaf,
    parsed,
    read_request,
    read_response,
    write_request,
    write_response,
)
from headnode.core.formats.sss.sssrmap.signatures import SHA1, SHA256, checked_body, signature_of
from headnode.core.formats.sss.sssrmap.spellings import PeerNames, from_0_2, peer_names
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode, value_of_code
from headnode.core.formats.text.xml_text import XmlElement, parse_xml

from .shared import SHARED

KEY = b"sss"
BODY = (
    '<Body><Request action="Query" actor="ann"><Object>Job</Object><Get name="JobId"></Get></Request></Body>'
)
OTHER = BODY.replace("Query", "Delete")
WIRE = SHARED / "samples" / "sss" / "wire"
MANY = settings(max_examples=share_of(400), deadline=None)


def refusal(message: bytes, key: bytes = KEY) -> StatusCode:
    with pytest.raises(MessageFault) as refused:
        checked_body(message, key)
    return refused.value.status


# ---------------------------------------------------------------- signatures


def test_a_signature_is_an_hmac_of_the_digest_of_the_body() -> None:
    digest = hashlib.sha1(BODY.encode()).digest()
    mac = hmac.new(KEY, digest, "sha1").digest()
    assert signature_of(BODY, KEY) == (
        f"<Signature><DigestValue>{base64.b64encode(digest).decode()}</DigestValue>"
        f"<SignatureValue>{base64.b64encode(mac).decode()}</SignatureValue>"
        '<SecurityToken type="Symmetric"></SecurityToken></Signature>'
    )


@pytest.mark.skipif(not WIRE.exists(), reason="the vectors are not beside the repository")
def test_all_vectors_of_signatures_and_bodies() -> None:
    vectors = json.loads((WIRE / "signature_vectors.json").read_text())
    assert vectors
    for vector in vectors:
        key = vector["key"].encode()
        body = checked_body(vector["payload"].encode(), key)
        assert canonical(body) == vector["body"]
        signature = signature_of(vector["body"], key)
        assert f"<DigestValue>{vector['digest_b64']}<" in signature
        assert f"<SignatureValue>{vector['signature_b64']}<" in signature
        request = read_request(body)
        assert read_request(write_request(request)) == request
        assert len(vector["payload"].encode()) == int(vector["payload_len_hex"], 16)


@pytest.mark.parametrize("method", [SHA1, SHA256])
def test_a_signed_message_is_read_and_a_changed_one_is_not(method: str) -> None:
    message = envelope(BODY, signature_of(BODY, KEY, method))
    assert canonical(checked_body(message, KEY)) == BODY
    assert refusal(message.replace(b"Query", b"Delete")) is StatusCode.AUTHENTICATION
    assert refusal(message, b"other") is StatusCode.AUTHENTICATION


def test_the_signature_may_come_first_and_without_a_token_as_maui_sends_it() -> None:
    signature = signature_of(BODY, KEY).partition("<SecurityToken")[0] + "</Signature>"
    message = f'<Envelope count="1" name="x" component="ClusterScheduler">{signature}{BODY}</Envelope>'
    assert canonical(checked_body(message.encode(), KEY)) == BODY


def test_a_body_with_short_tags_is_checked_as_peers_write_it_again() -> None:
    """Perl's clients sign elements with closing tags, whatever is sent."""
    short = BODY.replace("></Get>", "/>")
    assert canonical(checked_body(envelope(short, signature_of(BODY, KEY)), KEY)) == BODY
    assert canonical(checked_body(envelope(short, signature_of(short, KEY)), KEY)) == BODY


def in_latin_1(text: str) -> bytes:
    """Return a message as Gold's client signs one: the digest of the characters, as if each were a byte."""
    body = f'<Body><Request action="Query" actor="ann"><Object>{text}</Object></Request></Body>'
    digest = hashlib.sha1(body.encode("latin-1")).digest()
    parts = (base64.b64encode(one).decode() for one in (digest, hmac.digest(KEY, digest, "sha1")))
    found = "<DigestValue>{}</DigestValue><SignatureValue>{}</SignatureValue>".format(*parts)
    return envelope(body, f"<Signature>{found}</Signature>")


def test_a_text_with_accents_is_checked_as_golds_client_signs_it() -> None:
    assert read_request(checked_body(in_latin_1("Müller"), KEY)).objects == ("Müller",)


def test_a_signed_text_is_not_taken_for_its_own_bytes_as_characters() -> None:
    body = '<Body><Request action="Query" actor="ann"><Object>Müller</Object></Request></Body>'
    other = body.encode().decode("latin-1")  # "MÃ¼ller", whose characters are the bytes that were signed
    with pytest.raises(MessageFault) as refused:
        checked_body(envelope(other, signature_of(body, KEY)), KEY)
    assert refused.value.status is StatusCode.AUTHENTICATION
    with pytest.raises(MessageFault) as refused:
        checked_body(in_latin_1("Müller").decode().encode("latin-1"), KEY)
    assert refused.value.status is StatusCode.NOT_XML


def test_a_signature_by_sha_1_can_be_refused() -> None:
    message = envelope(BODY, signature_of(BODY, KEY))
    with pytest.raises(MessageFault) as refused:
        checked_body(message, KEY, frozenset((SHA256,)))
    assert refused.value.status is StatusCode.AUTHENTICATION


@pytest.mark.parametrize(
    "message",
    [
        f"<Envelope><!-- {BODY} -->{OTHER}{{}}</Envelope>",
        f"<Envelope><![CDATA[{BODY}]]>{OTHER}{{}}</Envelope>",
        f"<Envelope>{OTHER}{BODY}{{}}</Envelope>",
        f"<Envelope>{BODY}{OTHER}{{}}</Envelope>",
        f"<Envelope><x>{BODY}</x>{OTHER}{{}}</Envelope>",
        f"<Envelope>{OTHER}{{}}<!-- {BODY} --></Envelope>",
        f"<Envelope a='{BODY.replace('<', '&lt;')}'>{OTHER}{{}}</Envelope>",
    ],
)
def test_what_is_read_is_what_was_signed(message: str) -> None:
    """A signed Body that is moved elsewhere in the message does not vouch for another."""
    for signature in (signature_of(BODY, KEY), f"{signature_of(BODY, KEY)}{signature_of('x', b'y')}"):
        with suppress(MessageFault):
            assert canonical(checked_body(message.format(signature).encode(), KEY)) == BODY


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (b"", StatusCode.NO_MESSAGE),
        (b"<Envelope/>", StatusCode.NOT_A_MESSAGE),
        (b"<Envelope><EncryptedData>x</EncryptedData></Envelope>", StatusCode.ENCRYPTION),
        (envelope(BODY), StatusCode.AUTHENTICATION),
        (envelope(BODY, "<Signature></Signature>"), StatusCode.AUTHENTICATION),
        (envelope(BODY, signature_of(BODY, KEY).replace("Symmetric", "Password")), StatusCode.AUTHENTICATION),
        (envelope(BODY, signature_of(BODY, KEY).replace("=</", "!</")), StatusCode.AUTHENTICATION),
        (envelope(BODY, "<Signature>"), StatusCode.NOT_XML),
        (envelope(BODY, signature_of(BODY, KEY) + "x" * 5000), StatusCode.TOO_LARGE),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + envelope(BODY, signature_of(BODY, KEY)), StatusCode.NOT_XML),
    ],
)
def test_what_is_no_signed_message_is_refused_with_its_code(message: bytes, status: StatusCode) -> None:
    assert refusal(message) is status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("<Body><Request></Body>", StatusCode.NOT_XML),
        ("<Body>&b;</Body>", StatusCode.NOT_XML),
        ("<s:Body></s:Body>", StatusCode.NAMESPACE),
        ("<Body>" + "<a></a>" * 50_001 + "</Body>", StatusCode.TOO_LARGE),
        ("<Body>" + "<a>" * 300 + "</a>" * 300 + "</Body>", StatusCode.NOT_XML),
    ],
)
def test_a_signed_body_that_is_none_is_refused_with_its_code(body: str, status: StatusCode) -> None:
    assert refusal(envelope(body, signature_of(body, KEY))) is status


# ---------------------------------------------------------------- requests


def test_old_spellings_of_actor_object_and_group_are_read() -> None:
    body = parsed(
        '<Body actor="ann"><Request action="Query" object="Job">'
        '<Where name="User" op="G" groups="+1">1</Where>'
        '<Where name="User" group="-1">2</Where></Request></Body>'
    )
    request = read_request(body)
    assert (request.actor, request.objects) == ("ann", ("Job",))
    assert [(one.op, one.group) for one in request.wheres] == [("G", 1), ("", -1)]


@pytest.mark.parametrize(
    ("inside", "status"),
    [
        ("<Response/>", StatusCode.NOT_A_MESSAGE),
        ('<Request action="Query"/>', StatusCode.NO_ACTION),
        ('<Request actor="ann"/>', StatusCode.NO_ACTION),
        ('<Request action="a b" actor="ann"/>', StatusCode.WRONG_ACTION),
        ('<Request action="Query" actor="a"><Get/></Request>', StatusCode.MISSING),
        ('<Request action="Query" actor="a"><Where name="x" group="?"/></Request>', StatusCode.WRONG_VALUE),
        ('<Request action="Query" actor="a"><Count>-1</Count></Request>', StatusCode.WRONG_VALUE),
        ('<Request action="Query" actor="a" chunking="True" chunkSize="x"/>', StatusCode.WRONG_VALUE),
    ],
)
def test_a_wrong_request_is_refused_with_its_code(inside: str, status: StatusCode) -> None:
    with pytest.raises(MessageFault) as refused:
        read_request(parsed(f"<Body>{inside}</Body>"))
    assert refused.value.status is status


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), max_size=20).map(
    str.strip
)
FIELDS = st.builds(
    RmapField,
    name=TEXTS.filter(bool),
    value=TEXTS,
    op=TEXTS,
    conj=TEXTS,
    group=st.integers(-9, 9),
    alias=TEXTS,
)
REQUESTS = st.builds(
    RmapRequest,
    action=st.sampled_from(["Query", "Submit"]),
    actor=TEXTS.filter(bool),
    objects=st.lists(TEXTS.filter(bool), max_size=2).map(tuple),
    gets=st.lists(FIELDS, max_size=3).map(tuple),
    wheres=st.lists(FIELDS, max_size=3).map(tuple),
    sets=st.lists(FIELDS, max_size=2).map(tuple),
    options=st.lists(FIELDS, max_size=2).map(tuple),
    count=st.one_of(st.none(), st.integers(0, 999)),
    id=TEXTS,
    chunk_size=st.one_of(st.none(), st.integers(1, 999)),
    data=st.just((XmlElement("Data", {}, [XmlElement("Job", {}, [leaf("JobId", 5)])]),)),
)


@MANY
@given(REQUESTS)
def test_a_request_that_is_written_and_signed_is_read_back(request: RmapRequest) -> None:
    body = canonical(write_request(request))
    assert read_request(checked_body(envelope(body, signature_of(body, KEY)), KEY)) == request


@MANY
@given(
    st.integers(0, len(envelope(BODY, signature_of(BODY, KEY))) - 1), st.binary(max_size=8), st.integers(0, 9)
)
def test_a_damaged_message_is_refused_or_is_the_one_that_was_signed(at: int, what: bytes, gone: int) -> None:
    message = envelope(BODY, signature_of(BODY, KEY))
    damaged = message[:at] + what + message[at + gone :]
    codes: set[str] = set()
    try:
        assert canonical(checked_body(damaged, KEY)) == BODY
    except MessageFault as refused:
        codes.add(refused.status)
    assert {value_of_code(code) for code in codes} <= {"Failure"}


@MANY
@given(st.binary(max_size=200))
def test_any_signed_bytes_are_refused_with_a_code_or_read(inside: bytes) -> None:
    body = b"<Body>" + inside + b"</Body>"
    digest = hashlib.sha1(body).digest()
    parts = [base64.b64encode(each).decode() for each in (digest, hmac.digest(KEY, digest, "sha1"))]
    found = "<DigestValue>{}</DigestValue><SignatureValue>{}</SignatureValue>".format(*parts)
    message = b"<Envelope>" + body + f"<Signature>{found}</Signature></Envelope>".encode()
    codes: set[str] = set()
    try:
        read_request(checked_body(message, KEY))
    except MessageFault as refused:
        codes.add(refused.status)
    assert {value_of_code(code) for code in codes} <= {"Failure"}


# ---------------------------------------------------------------- answers


@MANY
@given(st.integers(1, 12), st.integers(0, 30))
def test_chunks_have_all_objects_in_order_and_so_many_as_were_asked(size: int, number: int) -> None:
    objects = tuple(leaf("Job", place) for place in range(number))
    whole = RmapResponse(status=RmapStatus(), count=len(objects), data=objects, id="7")
    chunks = chunks_of(whole, size)
    assert tuple(one for chunk in chunks for one in chunk.data) == objects
    if len(chunks) > 1:
        assert [chunk.chunk for chunk in chunks] == [(n, len(chunks)) for n in range(1, len(chunks) + 1)]
        assert sum(chunk.count or 0 for chunk in chunks) == len(objects)
        assert {len(chunk.data) for chunk in chunks[:-1]} == {size}
        assert 0 < len(chunks[-1].data) <= size
    for chunk in chunks:
        assert read_response(parsed(envelope(canonical(write_response(chunk))))) == chunk_with_word(chunk)


def chunk_with_word(chunk: RmapResponse) -> RmapResponse:
    return RmapResponse(
        status=RmapStatus("000", "", "Success"),
        count=chunk.count,
        data=chunk.data,
        id=chunk.id,
        chunk=chunk.chunk,
    )


@pytest.mark.skipif(not WIRE.exists(), reason="the samples are not beside the repository")
def test_an_answer_of_another_server_is_read() -> None:
    _, _, chunks = (WIRE / "reply_success.http").read_bytes().partition(b"\r\n\r\n")
    payload = chunks.partition(b"\r\n")[2].removesuffix(b"0\r\n")
    response = read_response(parsed(payload))
    assert (response.status.code, response.count, len(response.data)) == ("000", 1, 1)


def test_text_between_elements_is_kept_for_signatures() -> None:
    text = "<Body>\n  <a>1</a>\n</Body>"
    assert canonical(element_of(parse_xml(text).root)) == text


# ---------------------------------------------------------------- names of versions


@pytest.mark.parametrize(
    ("inside", "names"),
    [
        ('<Get name="JobId"></Get>', PeerNames.V3_0),
        ('<Get name="NodeProperties"></Get>', PeerNames.V3_0),
        ('<Where name="Duration">1</Where>', PeerNames.V3_1),
        ('<Get name="jobId"></Get>', PeerNames.V0_2),
        ("<Data><Job><WallDuration>1</WallDuration></Job></Data>", PeerNames.V3_0),
        ("<Data><Job><userName>a</userName></Job></Data>", PeerNames.V0_2),
        ('<Get name="Priority"></Get>', PeerNames.V3_1),
    ],
)
def test_the_names_of_a_request_tell_its_version(inside: str, names: PeerNames) -> None:
    body = parsed(f'<Body><Request action="Query" actor="a"><Object>Job</Object>{inside}</Request></Body>')
    assert peer_names(read_request(body), "Job", PeerNames.V3_1) is names


def test_a_job_of_0_2_is_read_with_names_of_3_0() -> None:
    old = parsed(
        "<job><jobId>1</jobId><userName>ann</userName><wallclockLimit>60</wallclockLimit>"
        "<requestedProcessors>4</requestedProcessors><executable>/bin/true</executable></job>"
    )
    assert canonical(from_0_2(old)) == (
        "<Job><JobId>1</JobId><UserId>ann</UserId><WallDuration>60</WallDuration><Executable>/bin/true</Executable>"
        "<Requested><Processors>4</Processors></Requested></Job>"
    )
