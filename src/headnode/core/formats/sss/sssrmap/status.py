"""The status codes of SSSRMAP answers, and the code of each of our errors.

Source:  SSSRMAP Wire Protocol 3.0.3; the codes are those that deployed servers and clients use.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from headnode.core.model.errors import BadRequest, ErrorClass, HeadnodeError


class StatusCode(StrEnum):
    """A status code.  0xx: success; 1xx: warning; the others: failure."""

    SUCCESS = "000"
    NOT_UNDERSTOOD = "126"  # carried out without a feature that is not known
    PARTIAL = "146"  # part of the content
    PARTLY_DONE = "148"
    TIMED_OUT = "232"
    BUSY = "234"
    TOO_LARGE = "236"
    FRAMING = "242"
    NO_MESSAGE = "243"
    SIZE = "244"
    CUT = "246"
    NOT_XML = "302"
    NAMESPACE = "306"
    NOT_A_MESSAGE = "308"
    OPERATOR = "310"  # a wrong conj or op
    NO_OBJECT = "311"
    NO_ACTION = "312"  # or no actor
    WRONG_ACTION = "313"
    MISSING = "314"
    WRONG_OBJECT = "315"
    WRONG_ATTRIBUTE = "316"  # of an object
    WRONG_VALUE = "317"
    COMBINATION = "318"
    WRONG_DATA = "319"
    NO_STATUS = "321"  # in an answer
    NOT_UNIQUE = "342"
    AUTHENTICATION = "424"
    ENCRYPTION = "434"
    NOT_ALLOWED = "444"
    NOT_SUPPORTED = "710"
    INTERNAL = "720"
    UNAVAILABLE = "730"
    REFUSED = "740"  # no such object; not in this state


class MessageFault(BadRequest):
    """A message that is refused; `status` is the code of the answer."""

    def __init__(self, status: StatusCode, what: str, fix: str = "") -> None:
        super().__init__(code="sssrmap", what=what, fix=fix)
        self.status = status


_OF_CLASS: Final[Mapping[ErrorClass, StatusCode]] = {
    ErrorClass.BAD_INPUT: StatusCode.WRONG_VALUE,
    ErrorClass.NOT_ALLOWED: StatusCode.NOT_ALLOWED,
    ErrorClass.NOT_FOUND: StatusCode.REFUSED,
    ErrorClass.CONFLICT: StatusCode.REFUSED,
    ErrorClass.BUSY: StatusCode.UNAVAILABLE,
    ErrorClass.FAULT: StatusCode.INTERNAL,
}
_OF_CODE: Final[Mapping[str, StatusCode]] = {
    "no-such-user": StatusCode.NOT_ALLOWED,  # the actor
    "gateway-busy": StatusCode.BUSY,
    "not-understood": StatusCode.WRONG_ATTRIBUTE,
}


def status_of_error(error: HeadnodeError) -> StatusCode:
    """Return the status code of an error."""
    if isinstance(error, MessageFault):
        return error.status
    return _OF_CODE.get(error.code, _OF_CLASS[error.error_class])


def value_of_code(code: str) -> str:
    """Return the word that belongs to a code.

    >>> value_of_code("000"), value_of_code("146"), value_of_code("740")
    ('Success', 'Warning', 'Failure')
    """
    return {"0": "Success", "1": "Warning"}.get(code[:1], "Failure")
