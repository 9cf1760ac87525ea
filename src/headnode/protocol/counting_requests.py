"""The fields of the verbs that look at many jobs or instances at once: the queue, the parts of a sweep."""

from typing import Annotated

from msgspec import Meta

from headnode.protocol.requests import JobIdRequest, VerbRequest


class QueueRequest(VerbRequest, frozen=True):
    """queue."""

    limit: int = 100  # jobs, at most 1,000


class InstanceCountsRequest(JobIdRequest, frozen=True):
    """instance_counts."""

    task: int
    parts: Annotated[int, Meta(ge=1, le=1000)] = 1000  # at most so many
