"""What a route of the REST API is: a method and a path that carry out a verb."""

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from headnode.protocol import requests as r


class RestBody(Enum):
    """Where the fields of a request come from that are not in the path."""

    QUERY = auto()  # a parameter of the query for each
    FIELDS = auto()  # one JSON object
    JOB_FILE = auto()  # one JSON object; or a job file, and the other fields in the query
    TEXT = auto()  # one JSON object; or the field `text` as plain text


class RestForm(Enum):
    """The form of an answer."""

    OBJECT = auto()  # one JSON object
    LINES = auto()  # a JSON object on each line, as they come
    BYTES = auto()  # the bytes of a file, parts of it by Range; or the JSON object of the verb, by Accept


class RestRoute(NamedTuple):
    """One method of one path.

    `fields` are set by the route itself; `guard` is the path of the GET route whose entity tag `If-Match`
    is compared with: "" if the route takes none; `needs_body`: a request without a body is refused.
    """

    method: str
    path: str  # below PREFIX; names in braces are fields of the request
    verb: str
    request: type[r.VerbRequest]
    answer: Any
    summary: str
    body: RestBody = RestBody.QUERY
    form: RestForm = RestForm.OBJECT
    status: int = 200
    fields: Mapping[str, Any] = {}
    guard: str = ""
    needs_body: bool = False

    @property
    def name(self) -> str:
        """The operation id: a name that is no other route's."""
        return _NAMES.get((self.method, self.path), self.verb)


_NAMES: Final[Mapping[tuple[str, str], str]] = {
    ("POST", "/jobs/{job}/submit"): "submit_created_job",
    ("POST", "/jobs/{job}/check"): "check_created_job",
    ("GET", "/jobs/{job}/tasks/{expand}/instances"): "instances",
}

get, delete = partial(RestRoute, "GET"), partial(RestRoute, "DELETE")
lines = partial(RestRoute, "GET", form=RestForm.LINES)
post = partial(RestRoute, "POST", body=RestBody.FIELDS)
put = partial(RestRoute, "PUT", body=RestBody.FIELDS)
patch = partial(RestRoute, "PATCH", body=RestBody.FIELDS)
