"""The tables of the reference page, printed from the rows."""

from collections.abc import Iterable, Iterator

from headnode.core.formats.compute_cluster_xml.dialects import HPC
from headnode.core.formats.compute_cluster_xml.job_rows import JOB_ROWS
from headnode.core.formats.compute_cluster_xml.rows import Role, Row
from headnode.core.formats.compute_cluster_xml.task_rows import TASK_ROWS

_ROLES = {Role.FIELD: "", Role.LIVE: "only in exports", Role.KEPT: "kept, without effect"}


def reference_tables() -> str:
    """Return every attribute of Job and of Task as tables in Markdown."""
    job, task = "\n".join(_table(JOB_ROWS)), "\n".join(_table(TASK_ROWS))
    return f"### Attributes of Job\n\n{job}\n\n### Attributes of Task\n\n{task}\n"


def _table(rows: Iterable[Row]) -> Iterator[str]:
    yield "| HPC Pack | CCS 2003 | also read | field | width | source |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        later = " (2008 R2)" if row.since == HPC and row.hpc else ""
        meaning = _ROLES[row.role] or f"`{row.field}`"
        cells = (row.hpc + later, row.ccs, ", ".join(row.also), meaning, str(row.width or ""), row.source)
        yield f"| {' | '.join(cells)} |"
