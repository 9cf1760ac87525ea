"""What the verbs about resources are asked and answer.  The page of the protocol is printed from it.

Times are in seconds.  The comment of a field is what the page says of it;
what is in braces there is of `core/model/resource_system`.
"""

from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import Duration, Name, PathText, VerbRequest


class ResourceNameRequest(VerbRequest, frozen=True):
    """resource, remove_resource."""

    name: Name


class SetResourceRequest(ResourceNameRequest, frozen=True):
    """set_resource.  What is left out stays as it is, or has its default.  Times are in seconds."""

    system: Name | None = None  # {SYSTEM_NAMES}
    host: Name | None = None  # where its commands run, by ssh; empty: on the head's machine
    programs: PathText | None = None  # directory of its commands; empty: found by PATH
    settings: PathText | None = None  # {SETTINGS_VARIABLES}
    directory: PathText | None = None  # for files of attempts; empty: in the home of each user
    queue: Name | None = None  # partition or queue; empty: that of the site
    parallel: Name | None = None  # parallel environment of Grid Engine
    most_jobs: int | None = None  # of ours there at a time
    poll: Duration | None = None  # between two polls, at least
    settle: Duration | None = None  # until a submission without an answer may be repeated
    overlay: bool | None = None  # jobs that name no resource go there, and its queue is shown
    lost_after: Duration | None = None  # until a job counts as lost that is no longer listed


class ResourceObject(VerbAnswer, frozen=True):
    """A resource with its own scheduler, and how its last poll went.  Times are in seconds."""

    name: str
    system: str
    mark: str  # eight digits in the names of all our jobs there
    host: str
    programs: str
    settings: str
    directory: str
    queue: str
    parallel: str
    most_jobs: int
    poll: float
    settle: float
    lost_after: float
    jobs: int  # attempts that are there, or on their way
    waiting: int  # jobs of the queue that go there
    polled: float | None  # since 1970; null: not since the head started
    answered_in: float | None
    overlay: bool  # jobs that name no resource go there, and its queue is shown
    problem: str  # empty: the last poll was answered


class ResourcesAnswer(VerbAnswer, frozen=True):
    """resources."""

    resources: list[ResourceObject]


class ResourceAnswer(VerbAnswer, frozen=True):
    """resource, set_resource."""

    resource: ResourceObject
