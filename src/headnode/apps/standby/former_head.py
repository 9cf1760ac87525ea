"""What a former head wrote and its standby never got: people are told, so that nothing is lost unseen."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headnode.adapters.journal.sqlite import JOURNAL, SqliteJournal
from headnode.core.model.errors import HeadnodeError
from headnode.core.state.job_events import JobCreated, JobModified, JobSubmitted
from headnode.core.state.job_request import job_names
from headnode.engine.ports import EventSource, StandbyStore, may_be_same

log = logging.getLogger("headnode.standby")

FORMER: Final = "former-head-"
"""How the directories begin that have what a former head had."""
REPORT: Final = "jobs-not-taken-over.txt"


def report_lost_jobs(state: Path, store: EventSource) -> list[str]:
    """Write into each directory of a former head which jobs the present one never got; return sentences.

    A report that is there is not written again.
    """
    sentences = []
    for kept in sorted(state.glob(f"{FORMER}*")):
        if (kept / REPORT).exists() or not (kept / JOURNAL).exists():
            continue
        try:
            sentences += _report(kept, store)
        except (HeadnodeError, OSError) as error:
            log.error("what the former head in %s had could not be read: %s", kept, error)
    return sentences


def _report(kept: Path, store: EventSource) -> list[str]:
    former = SqliteJournal(kept / JOURNAL, may_create=False)
    try:
        common = last_common(former, store)
        lines = list(lost_jobs(former, common))
    finally:
        former.close()
    text = (
        f"After event {common}, the last that both heads have, the former head wrote (it may not have "
        "acknowledged the last of it):\n"
    )
    (kept / REPORT).write_text(text + "".join(f"{line}\n" for line in lines or ["nothing"]), encoding="utf-8")
    if not lines:
        return []
    jobs = f"{len(lines)} jobs" if len(lines) > 1 else "1 job"
    sentence = f"{jobs} of the former head never reached this one: see {kept / REPORT}"
    log.warning("%s", sentence)
    return [sentence]


def last_common(one: EventSource, other: EventSource) -> int:
    """Return the number of the last event that two journals of one cluster have in common.

    Journals agree up to that event and differ from the next on, so it is found by halving.  One of them may
    have purged events that the other has: they are older than that.
    """
    low, high = 0, min(one.last_number, other.last_number)
    while low < high:
        middle = (low + high + 1) // 2
        if may_be_same(one.checksum_of(middle), other.checksum_of(middle)):
            low = middle
        else:
            high = middle - 1
    return low


def lost_jobs(former: StandbyStore, common: int) -> Iterator[str]:
    """Yield a line for each job that was submitted after an event."""
    owners: dict[int, str] = {}
    names: dict[int, str] = {}
    for _, event in former.replay(common):
        match event:
            case JobCreated(job=job, owner=owner, spec=spec):
                owners[job], names[job] = owner, job_names(spec).name
            case JobModified(job=job, spec=spec) if spec:
                names[job] = job_names(spec).name
            case JobSubmitted(job=job):
                whose = f" of {owners[job]}: {names[job]}" if job in owners else ""
                yield f"job {job}{whose}"
