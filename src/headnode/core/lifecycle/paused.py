"""Which jobs start on a paused node: those that an administrator submitted and that name it.

That is how an administrator tries a node out before others have it again.  An administrator's job that names
no node stays away from it: nobody who submits as root or as the head's own user means to run where others may
not.
Source: CCS, "Node status and life cycle", Paused: only jobs of administrators start.
"""

from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.job import JobRequest


def named_nodes(request: JobRequest) -> frozenset[str]:
    """Return the nodes that a request names, as names are compared: it runs on these, or needs them."""
    names = (*request.requested_nodes, *request.required_nodes, *request.needs.names)
    return frozenset(name.casefold() for name in names)


def starts_paused(record: JobRecord, request: JobRequest, node: str) -> bool:
    """Return whether a job may start on a node though it is paused."""
    return record.privileged and node.casefold() in named_nodes(request)
