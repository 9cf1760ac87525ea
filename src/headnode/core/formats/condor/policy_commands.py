"""Commands of submit files that say when a job runs, how long, and what happens when a program fails.

Source:  HTCondor 24, condor_submit(1), "POLICY COMMANDS".
"""

from collections.abc import Mapping
from typing import Final, NoReturn

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor import policies
from headnode.core.formats.condor.command_reading import SubmitCommand, number, sets, truth
from headnode.core.formats.condor.draft import SubmitDraft
from headnode.core.formats.condor.expressions import Expression, whole_number
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.bounds import TIME
from headnode.core.model.quantities import Instant

_KEPT, _TRANSLATED, _APPROXIMATED = Fidelity.KEPT, Fidelity.TRANSLATED, Fidelity.APPROXIMATED


def _hold(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.job["holds"] = ("user",) if truth(place, text) else ()
    place.report(_TRANSLATED, "whether the job is held until: hn job release ID")


def _retry_until(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = policies.parsed(text)
    code = None if found is None else policies.exit_code(found)
    if code is None:
        fix = "write an exit code: retry_until = 3"
        place.refuse(f"{text[:80]!r} decides whether the job runs again", fix, "not-supported")
    draft.until = code
    place.report(_APPROXIMATED, "a task that ends with this code has finished, as with success_exit_code")


def _on_exit_hold(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = _policy(place, text)
    if found.truth is False:
        place.report(_KEPT, "a job is not held when its program ends")
    elif policies.is_failure(found):
        draft.holds_on_failure = place
        place.report(
            _APPROXIMATED, "a task whose program fails has failed; start it again: hn job requeue ID"
        )
    else:
        _refuse_policy(place, text)


def _on_exit_remove(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = _policy(place, text)
    starts = policies.starts_until(found)
    if found.truth is True:
        place.report(_KEPT, "the job ends when its programs have ended")
    elif starts is not None:
        draft.starts = starts
        place.report(_TRANSLATED, f"a task that fails is started {max(starts, 1)} times at most")
    else:
        _refuse_policy(place, text, "write max_retries = N instead")


def _periodic_release(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = _policy(place, text)
    if found.truth is False:
        place.report(_KEPT, "a held job is released by: hn job release ID")
        return
    starts = policies.starts_below(found)
    if starts is None:
        _refuse_policy(place, text, "write max_retries = N instead of holding and releasing the job")
    draft.released_starts = starts
    place.report(_APPROXIMATED, "a task that fails is tried again so often, at once")


def _periodic_end(command: str, what: str, kind: Fidelity) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        found = _policy(place, text)
        if found.truth is False:
            place.report(_KEPT, "nothing ends the job")
            return
        limit = policies.run_time_limit(found)
        if limit is None:
            _refuse_policy(place, text, "write allowed_execute_duration = SECONDS")
        draft.run_times[command] = limit
        place.report(kind, what)

    return SubmitCommand(read)


def _policy(place: OptionPlace, text: str) -> Expression:
    return policies.parsed(text) or _refuse_policy(place, text)


def _refuse_policy(place: OptionPlace, text: str, fix: str = "leave it out") -> NoReturn:
    what = f"{text[:120]!r} decides whether the job goes on, and has no equivalent"
    place.refuse(what, fix, "not-supported")


def _duration(command: str, what: str, kind: Fidelity) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        draft.run_times[command] = float(number(place, text, 1))
        place.report(kind, what)

    return SubmitCommand(read)


def _deferral_time(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    at = whole_number(text)
    if at is None or not 0 <= at <= TIME.most:
        place.refuse(f"{text[:60]!r} is not a point of time", "write seconds since 1970")
    draft.job["hold_until"] = Instant(float(at))
    place.report(_TRANSLATED, "the job waits until then, and for free processors after that")


POLICY_COMMANDS: Final[Mapping[str, SubmitCommand]] = {
    "hold": SubmitCommand(_hold),
    "max_retries": sets("retries", number, "so often a task is tried again"),
    "success_exit_code": sets("success", number, "it is the valid exit code"),
    "retry_until": SubmitCommand(_retry_until),
    "on_exit_hold": SubmitCommand(_on_exit_hold),
    "on_exit_remove": SubmitCommand(_on_exit_remove),
    "periodic_release": SubmitCommand(_periodic_release),
    "periodic_remove": _periodic_end("periodic_remove", "it is the run time limit", _TRANSLATED),
    "periodic_hold": _periodic_end(
        "periodic_hold", "it is the run time limit: the program is ended, and not held", _APPROXIMATED
    ),
    "allowed_execute_duration": _duration(
        "allowed_execute_duration",
        "it is the run time limit: the program is ended, and not held",
        _APPROXIMATED,
    ),
    "allowed_job_duration": _duration(
        "allowed_job_duration",
        "it is the run time limit, of each attempt: the program is ended",
        _APPROXIMATED,
    ),
    "deferral_time": SubmitCommand(_deferral_time),
}
