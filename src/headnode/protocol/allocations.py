"""How the end of an allocation is requested, whose command runs where it was typed (`salloc`).

The page of the protocol is printed from it.  The comment of a field is what the page says of it.
"""

from typing import Annotated

from msgspec import Meta

from headnode.protocol.requests import JobIdRequest


class EndAllocationRequest(JobIdRequest, frozen=True, kw_only=True):
    """end_allocation."""

    exit_code: Annotated[int, Meta(ge=0, le=255)]  # of its command; 128 and more: the signal that ended it
