"""The parsers that are fuzzed: each takes any bytes, and lets only the documented error pass.

What a reader of jobs lets in goes further, as in real life: it is checked, and written in every language.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headnode.core.formats import dialects, swf, terms, values
from headnode.core.formats.compute_cluster_xml.job_rows import JOB_ROWS
from headnode.core.formats.compute_cluster_xml.task_rows import TASK_ROWS
from headnode.core.formats.dates import parse_date_time
from headnode.core.formats.dialects import DIALECTS, How, Language
from headnode.core.formats.fidelity import Awareness, parse_awareness
from headnode.core.formats.grid import keys as grid
from headnode.core.formats.native_form import keys as native
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.model.checks import check
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, parse_priority, parse_run_time

Parser = Callable[[bytes], None]
_HERE = Path(__file__).parent.parent
_SHARED = _HERE.parent / "shared" / "samples"
_VALUES = (
    parse_awareness,
    parse_date_time,
    parse_priority,
    parse_run_time,
    values.parse_exit_codes,
    values.parse_flag,
    values.parse_ids,
    values.parse_int,
    values.parse_least,
    values.parse_licences,
    values.parse_names,
    values.parse_nodes,
    values.parse_order,
    values.parse_seconds,
    values.UNIT.read,
    values.GROUP_OP_TERM.read,
    values.TASK_TYPE_TERM.read,
)


def _language(language: Language, how: How) -> Parser:
    chosen = How(language=language, lenient=how.lenient, strict=how.strict, awareness=how.awareness)

    def parse(data: bytes) -> None:
        with suppress(BadRequest):
            reading = dialects.read(data, chosen)
            for spec in reading.jobs[:3]:
                _use(data, language, spec)

    return parse


def _use(data: bytes, language: Language, spec: JobSpec) -> None:
    try:
        check(spec)
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
        check(terms.read_terms(pairs, now=Instant(0.0)))
    with suppress(BadRequest):
        terms.read_task_terms(pairs)


def single_values(data: bytes) -> None:
    """Read a single value; the first byte says of which kind."""
    if data:
        with suppress(BadRequest):
            _VALUES[data[0] % len(_VALUES)](data[1:].decode(errors="surrogateescape"))


def workload(data: bytes) -> None:
    """Read a log in the Standard Workload Format."""
    with suppress(BadRequest):
        swf.read_swf(data.decode(errors="replace").splitlines(), whose=True)


_PLAIN, _LENIENT = How(), How(lenient=True, awareness=Awareness.IGNORE)
PARSERS: dict[str, Parser] = {
    "any-language": any_language,
    "compute-cluster": _language(Language.COMPUTE_CLUSTER, _PLAIN),
    "compute-cluster-strict": _language(
        Language.COMPUTE_CLUSTER, How(strict=True, awareness=Awareness.REJECT)
    ),
    "sss": _language(Language.SSS, _PLAIN),
    "sss-lenient": _language(Language.SSS, _LENIENT),
    "grid": _language(Language.GRID, _PLAIN),
    "grid-lenient": _language(Language.GRID, _LENIENT),
    "native": _language(Language.NATIVE, _PLAIN),
    "terms": job_terms,
    "values": single_values,
    "workload": workload,
}
_FILES = {
    "any-language": ("job_xml", "ccs", "sss", "grid", "native_form"),
    "compute-cluster": ("job_xml", "ccs"),
    "sss": ("sss",),
    "grid": ("grid",),
    "native": ("native_form",),
}
_TEXTS = {
    "terms": (b"runtime\x001:30\x00numprocessors\x004-8", b"command\0a\0env\0A=1", b"minprocessors\x001"),
    "values": tuple(
        bytes([kind]) + text
        for kind in range(len(_VALUES))
        for text in (b"1", b"1:30", b"a:1,b:*", b"0,10..12", b"2030-01-31T18:00:00Z", b"Highest", b"-Memory")
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
    yield from (*native.JOB_ROWS, *native.TASK_ROWS)
    yield from (name for names in SPELLINGS.values() for name in names)
    yield from (name for row in (*JOB_ROWS, *TASK_ROWS) for name in (row.hpc, row.ccs) if name)
    yield from (*terms.JOB_TERMS, *terms.TASK_TERMS)
    yield from ("conj", "group", "preference", "aggregation", "Pattern", "List", "condition", "designator")
