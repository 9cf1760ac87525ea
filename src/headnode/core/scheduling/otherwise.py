"""Reasons of jobs that would do with several requests: those of their own, and one line for each other."""

from collections.abc import Iterable

from headnode.core.model.job import JobRequest
from headnode.core.scheduling.decision import Reason, Why
from headnode.core.scheduling.reasons import never_fits
from headnode.core.scheduling.view import View

Reasons = tuple[Reason, ...]


def with_alternatives(told: Iterable[Reasons]) -> Reasons:
    """Return the reasons of a job in one list, from those for each of its options, its own first."""
    own, *others = told
    return (*own, *(_line(number, reasons) for number, reasons in enumerate(others, start=1)))


def never_with_any(request: JobRequest, view: View) -> Reasons:
    """Return why the job could not run even on the whole cluster when empty, under none of its options.

    Nothing if it could under one.
    """
    found = [never_fits(request.option(n), view.nodes, view.licences) for n in range(len(request.others) + 1)]
    return with_alternatives(found) if all(found) else ()


def _line(number: int, reasons: Reasons) -> Reason:
    by_node = sorted(reasons, key=lambda reason: reason.what if reason.why is Why.NODE else "")
    text = "; ".join(reason.text for reason in by_node)
    return Reason(Why.ALTERNATIVE, f"alternative {number}: {text or 'it could start'}", str(number))
