"""Failures between a client and the head, as errors of ours.  Imported only when there is one."""

from typing import Any

from headnode.core.model.errors import (
    IS_STANDBY,
    OLD_HEAD,
    BadRequest,
    Broken,
    HeadnodeError,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
    WrongState,
)

_REFUSALS: dict[str, type[HeadnodeError]] = {
    kind.error_class.value: kind
    for kind in (BadRequest, NotAllowed, NotFound, WrongState, Unavailable, Broken)
}


def refusal_in(answer: dict[str, Any]) -> HeadnodeError:
    """Return the refusal that `answer` is, of the class that the head gave it."""
    kind = _REFUSALS.get(str(answer.get("class")), Refused)
    return kind(
        code=str(answer.get("code", "refused")),
        what=str(answer.get("what", "the head refused the request without a reason")),
        fix=str(answer.get("fix", "")),
        path=tuple(answer.get("path") or ()),
    )


def failure_of(
    trouble: Exception, state_directory: str, *, connected: bool, address: str = ""
) -> HeadnodeError:
    """Say what `trouble` in talking to a head means to the user: of `state_directory`, or at an `address`."""
    if isinstance(trouble, OverflowError):
        return BadRequest(code="too-large", what=str(trouble), fix="split it into several jobs")
    if address:
        return _lost_far_away(trouble, address)
    if isinstance(trouble, PermissionError):
        return NotAllowed(
            code="no-access",
            what=f"you may not use the head in {state_directory!r}",
            fix="ask its owner, or start your own with: hn up --state DIRECTORY",
        )
    if not connected:
        return Unavailable(
            code="no-head", what=f"no head is running in {state_directory!r}", fix="start one with: hn up"
        )
    if isinstance(trouble, TimeoutError):
        return Unavailable(
            code="no-answer", what="the head does not answer", fix=f"see {state_directory}/head.log"
        )
    return Unavailable(
        code="head-gone",
        what=f"the connection to the head was lost ({trouble})",
        fix=f"what was acknowledged is kept; see {state_directory}/head.log, then try again",
    )


_AWAY = ("no-head", "head-gone", "head-away", "agent-away", "no-answer", IS_STANDBY, OLD_HEAD)


def is_away(error: HeadnodeError) -> bool:
    """Whether the head was not reached, or gave no answer; else it has refused the request."""
    return error.code in _AWAY


def _lost_far_away(trouble: Exception, address: str) -> HeadnodeError:
    if isinstance(trouble, TimeoutError):
        return Unavailable(code="no-answer", what=f"the head at {address} does not answer", fix="try again")
    return Unavailable(
        code="head-gone",
        what=f"the connection to the head at {address} was lost ({trouble})",
        fix="what was acknowledged is kept; try again",
    )
