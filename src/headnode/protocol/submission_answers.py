"""Answers about many submissions in one request."""

import msgspec
from msgspec import UNSET, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.protocol.answers import VerbAnswer


class SubmissionRefusal(VerbAnswer, frozen=True):
    """Why a submission was refused; the fields of an error."""

    code: str
    what: str
    fix: str
    exit_status: int
    error_class: str = msgspec.field(name="class")
    path: list[str | int]  # begins with `submissions` and the number of the submission, from 0


class SubmissionOutcome(VerbAnswer, frozen=True):
    """The jobs of a submission, or why there are none."""

    job: int | UnsetType = UNSET  # of a file with several jobs the last one
    jobs: list[int] | UnsetType = UNSET  # all, of a file with several jobs
    report: FidelityReport | UnsetType = UNSET  # if there is something to report
    refused: SubmissionRefusal | UnsetType = UNSET  # with `job`: its submission filters refused the job


class SubmitJobsAnswer(VerbAnswer, frozen=True):
    """submit_jobs."""

    submissions: list[SubmissionOutcome]  # in the order of the request
    jobs: list[int]  # all that were made
    owner: str | UnsetType = UNSET  # of jobs that are made for another user
    repeated: bool | UnsetType = UNSET  # true: an earlier request with this key made them
