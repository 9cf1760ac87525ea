"""The parsers that are fuzzed: each takes any bytes, and lets only the documented error pass.

What a reader of jobs lets in goes further, as in real life: it is checked, and written in every language.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headnode.adapters.wire.sssrmap import check_request, read_chunks, read_head, request_frame
from headnode.core.batch.slurm_conf import setup_script
from headnode.core.formats import dialects, hpc_values, slash_terms, swf
from headnode.core.formats.dialects import DIALECTS, JobLanguage, ReadOptions
from headnode.core.formats.fidelity import Awareness, parse_awareness
from headnode.core.formats.grid import keys as grid
from headnode.core.formats.hpc_xml.attributes import JOB_ATTRIBUTES, TASK_ATTRIBUTES
from headnode.core.formats.native import keys as native
from headnode.core.formats.sss.property_rows import SPELLINGS
from headnode.core.formats.sss.sssrmap.joins import JoinSide, answer_join
from headnode.core.formats.sss.sssrmap.messages import envelope, leaf, read_request
from headnode.core.formats.sss.sssrmap.queries import answer_query
from headnode.core.formats.sss.sssrmap.signatures import checked_body, signature_of
from headnode.core.formats.text.quantities import parse_date_time
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import RMAP_HEAD
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.owner_limits import LimitedAmount, read_owner_limits
from headnode.core.model.quantities import Instant, parse_priority, parse_run_time
from headnode.engine.settings import read_licences

Parser = Callable[[bytes], None]
_HERE = Path(__file__).parent.parent
_SHARED = _HERE.parent / "shared" / "samples"
_VALUES = (
    parse_awareness,
    parse_date_time,
    parse_priority,
    parse_run_time,
    hpc_values.parse_exit_codes,
    hpc_values.parse_flag,
    hpc_values.parse_ids,
    hpc_values.parse_int,
    hpc_values.parse_least,
    hpc_values.parse_licences,
    hpc_values.parse_names,
    hpc_values.parse_nodes,
    hpc_values.parse_order,
    hpc_values.parse_seconds,
    hpc_values.UNIT.read,
    hpc_values.GROUP_OP_TERM.read,
    hpc_values.TASK_TYPE_TERM.read,
    read_owner_limits,
    read_licences,
)


def _language(language: JobLanguage, how: ReadOptions) -> Parser:
    chosen = ReadOptions(language=language, lenient=how.lenient, strict=how.strict, awareness=how.awareness)

    def parse(data: bytes) -> None:
        with suppress(BadRequest):
            reading = dialects.read(data, chosen)
            for spec in reading.jobs[:3]:
                _use(data, language, spec)

    return parse


def _use(data: bytes, language: JobLanguage, spec: JobSpec) -> None:
    try:
        check_job(spec)
    except BadRequest as wrong:
        dialects.locate(data, language, wrong)
    for name in DIALECTS:
        with suppress(BadRequest):
            dialects.write(spec, name)


def any_language(data: bytes) -> None:
    """Recognise and read a job file."""
    with suppress(BadRequest):
        dialects.read(data)


def job_terms(data: bytes) -> None:
    """Read options of a job and of one task: names and values between NUL bytes."""
    parts = data.decode(errors="replace").split("\0")
    pairs = dict(zip(parts[::2], parts[1::2], strict=False))
    with suppress(BadRequest):
        check_job(slash_terms.read_terms(pairs, now=Instant(0.0)))
    with suppress(BadRequest):
        slash_terms.read_task_terms(pairs)


def single_values(data: bytes) -> None:
    """Read a single value; the first byte says of which kind."""
    if data:
        with suppress(BadRequest):
            _VALUES[data[0] % len(_VALUES)](data[1:].decode(errors="surrogateescape"))


def sssrmap(data: bytes) -> None:
    """Read an SSSRMAP message: one that is signed wrongly, and one whose Body is signed whatever it says."""
    with suppress(BadRequest):
        checked_body(data, b"key")
    body = data.decode(errors="replace")
    with suppress(BadRequest):
        request = read_request(checked_body(envelope(body, signature_of(body, b"key")), b"key"))
        jobs = [XmlElement("Job", {}, [leaf("JobId", 5), leaf("Name", "x")])]
        answer_query(request, jobs)
        answer_join(request, [JoinSide(name, jobs) for name in request.objects])


def sssrmap_framing(data: bytes) -> None:
    """Read the messages of an SSSRMAP connection until it is over, or one is refused."""

    async def read() -> None:
        reader = asyncio.StreamReader(limit=RMAP_HEAD.most)
        reader.feed_data(data)
        reader.feed_eof()
        with suppress(BadRequest):
            while (head := await read_head(reader)) is not None:
                check_request(head)
                await read_chunks(reader, head)

    _LOOP.run_until_complete(read())


_LOOP = asyncio.new_event_loop()


def slurm_conf(data: bytes) -> None:
    """Make the commands of a slurm.conf."""
    with suppress(BadRequest):
        setup_script(data.decode("utf-8", "replace"))


def workload(data: bytes) -> None:
    """Read a log in the Standard Workload Format."""
    with suppress(BadRequest):
        swf.read_swf(data.decode(errors="replace").splitlines(), whose=True)


_PLAIN, _LENIENT = ReadOptions(), ReadOptions(lenient=True, awareness=Awareness.IGNORE)
PARSERS: dict[str, Parser] = {
    "any-language": any_language,
    "compute-cluster": _language(JobLanguage.COMPUTE_CLUSTER, _PLAIN),
    "compute-cluster-strict": _language(
        JobLanguage.COMPUTE_CLUSTER, ReadOptions(strict=True, awareness=Awareness.REJECT)
    ),
    "sss": _language(JobLanguage.SSS, _PLAIN),
    "sss-lenient": _language(JobLanguage.SSS, _LENIENT),
    "grid": _language(JobLanguage.GRID, _PLAIN),
    "grid-lenient": _language(JobLanguage.GRID, _LENIENT),
    "native": _language(JobLanguage.NATIVE, _PLAIN),
    "condor": _language(JobLanguage.CONDOR, _PLAIN),
    "terms": job_terms,
    "values": single_values,
    "sssrmap": sssrmap,
    "sssrmap-framing": sssrmap_framing,
    "workload": workload,
    "slurm-conf": slurm_conf,
}
_FILES = {
    "any-language": ("job_xml", "ccs", "sss", "grid", "native_form"),
    "compute-cluster": ("job_xml", "ccs"),
    "sss": ("sss",),
    "grid": ("grid",),
    "native": ("native_form",),
    "condor": ("condor",),
}
_TEXTS = {
    "sssrmap": (
        b'<Body><Request action="Query" actor="a" chunking="True" chunkSize="9"><Object>Job</Object>'
        b'<Option name="Limit">1</Option><Get name="A/B[1]" op="Sort"></Get><Where name="Name" op="Match" '
        b'conj="OrNot" group="1">*x?</Where><Where name="@a" group="-1" units="GB">1</Where>'
        b"</Request></Body>",
        b'<Body><Request action="Query" actor="a"><Object alias="J">Job</Object>'
        b'<Object join=",">User</Object><Get name="Name" object="User" op="Max"></Get>'
        b'<Where name="JobId" object="J" subject="User" op="GE">JobId</Where></Request></Body>',
    ),
    "sssrmap-framing": (
        request_frame(b"<Envelope></Envelope>"),
        request_frame(b"<Envelope></Envelope>", keep_alive=True) * 2,
        b"POST /SSSRMAP3 HTTP/1.1\r\nContent-Type: text/xml\r\n"
        b"Transfer-Encoding: chunked;\r\n\r\n1;a\r\nx0\r\n\0",
        b"POST /gold HTTP/1.0\nContent-Type: text/xml\nContent-Length: 1\n\nx",
    ),
    "terms": (b"runtime\x001:30\x00numprocessors\x004-8", b"command\0a\0env\0A=1", b"minprocessors\x001"),
    "values": tuple(
        bytes([kind]) + text
        for kind in range(len(_VALUES))
        for text in (
            b"1",
            b"1:30",
            b"a:1,b:*",
            b"0,10..12",
            b"2030-01-31T18:00:00Z",
            b"Highest",
            b"-Memory",
            b"*:jobs=1,gpus=unlimited;a:submitted=10",
        )
    ),
    "workload": (b"; MaxProcs: 8\n1 0 0 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n",),
}


def seeds(name: str) -> Iterable[bytes]:
    """Yield what the fuzzing of a parser begins with: our own examples, and samples that lie beside."""
    plain = name.partition("-")[0] if name not in _FILES else name
    folders = next((_FILES[one] for one in _FILES if one.startswith(plain)), ())
    for folder in folders:
        for root in (_HERE / "tests" / "golden" / folder, _SHARED / folder):
            yield from (path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())
    yield from _TEXTS.get(name, ())


def words() -> Iterable[str]:
    """Yield the names that the languages know: chance would hardly write them."""
    for table in (grid.JOB_ROWS, grid.ITEM_ROWS, grid.TASK_ROWS, grid.REQUIREMENT_ROWS):
        yield from table.by_key
    yield from (*native.JOB_KEYS, *native.TASK_KEYS)
    yield from (name for names in SPELLINGS.values() for name in names)
    yield from (name for row in (*JOB_ATTRIBUTES, *TASK_ATTRIBUTES) for name in (row.hpc, row.ccs) if name)
    yield from (*slash_terms.JOB_TERMS, *slash_terms.TASK_TERMS)
    yield from (f"{amount}=" for amount in LimitedAmount)
    yield from ("conj", "group", "preference", "aggregation", "Pattern", "List", "condition", "designator")
