"""Which jobs start on a paused node: those that an administrator submitted.

That is how an administrator tries a node out before others have it again.  To keep all jobs away, drain it.
Source: CCS, "Node status and life cycle", Paused: "New administrator jobs will be started."
"""

from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.job import JobRequest


def named_nodes(request: JobRequest) -> frozenset[str]:
    """Return the nodes that a request names, as names are compared: it runs on these, or needs them."""
    names = (*request.requested_nodes, *request.required_nodes, *request.needs.names)
    return frozenset(name.casefold() for name in names)


def starts_paused(record: JobRecord) -> bool:
    """Return whether a job may start on a node though it is paused."""
    return record.privileged
