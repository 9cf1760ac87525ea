"""What the answer of a submission filter means.

Source: HPC filters, "Job submission filters and their return values".
"""

from enum import StrEnum

from headnode.core.filtering.answer import Answer, How, said
from headnode.core.filtering.registration import Filter


class Passage(StrEnum):
    """What becomes of a job at one submission filter."""

    AS_IS = "goes on as it is"
    CHANGED = "goes on as the filter changed it"
    FAILED = "fails"


_BY_EXIT_CODE = {0: Passage.AS_IS, 1: Passage.CHANGED}


def passage(answer: Answer) -> Passage:
    """Return what an answer means: 0 as it is, 1 changed, anything else fails the job."""
    if answer.how is not How.ANSWERED or answer.exit_code is None:
        return Passage.FAILED
    return _BY_EXIT_CODE.get(answer.exit_code, Passage.FAILED)


def failure(of: Filter, answer: Answer, seconds: float) -> str:
    """Return the message of a job that a submission filter failed; each way to fail has its own."""
    match answer.how:
        case How.TIMED_OUT:
            return f"submission filter {of.name!r} timed out: no answer within {seconds:g} s"
        case How.MISSING:
            why = f": {answer.words}" if answer.words else ""
            return f"submission filter {of.name!r} could not be run{why}"
        case _:
            return f"submission filter {of.name!r} failed the job: {said(answer, seconds)}"


def wrong_change(of: Filter, why: str) -> str:
    """Return the message of a job that a filter changed into what is no job, or not the same tasks."""
    return f"submission filter {of.name!r} created an invalid job: {why}"
