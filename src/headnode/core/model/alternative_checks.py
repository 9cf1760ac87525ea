"""What is wrong with the alternatives of a job: each must be a job that could be submitted by itself.

Source: SSS 3.1.0, "Requested" (attributes conj, group and preference).
"""

from collections.abc import Callable

from msgspec.structs import replace

from headnode.core.model.alternatives import chosen
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.small_checks import refuse

MOST_ALTERNATIVES = 32  # of one job


def check_alternatives(spec: JobSpec, check: Callable[[JobSpec], None]) -> None:
    """Refuse a job that would be wrong under one of its alternatives; `check` is what it is held to itself.

    Raises:  BadRequest; that of `check` says which alternative is meant.
    Cost:    that of `check` for each alternative.
    """
    count = len(spec.alternatives)
    if count > MOST_ALTERNATIVES:
        what = f"the job has {count} alternatives; {MOST_ALTERNATIVES} are the most"
        refuse("too-many-alternatives", what, "remove the least preferred ones")
    for number, other in enumerate(spec.alternatives, start=1):
        if other.tasks and len(other.tasks) != len(spec.tasks):
            what = f"alternative {number} describes {len(other.tasks)} tasks; the job has"
            refuse("alternative-tasks", f"{what} {len(spec.tasks)}", "describe every task, or none")
        try:
            check(replace(chosen(spec, number), alternatives=()))
        except BadRequest as no:
            raise BadRequest(code=no.code, what=f"alternative {number}: {no.what}", fix=no.fix) from None
