"""How much an answer with a list may have: `limit` of the verbs, as the REST API refuses it.

The head itself answers a larger `limit` with a page of this length.
"""

from collections.abc import Mapping
from typing import Final

from headnode.core.model.bounds import (
    AUDIT_PAGE,
    EVENT_PAGE,
    HISTORY_PAGE,
    OWNER_PAGE,
    PAGE,
    PAST_PAGE,
    TASK_PAGE,
    Bound,
)

LIST_PAGES: Final[Mapping[str, Bound]] = {
    "jobs": PAGE,
    "job_efficiency": PAGE,
    "queue": PAGE,
    "site_jobs": PAGE,
    "ended_jobs": PAST_PAGE,
    "parameter_history": PAST_PAGE,
    "tasks": TASK_PAGE,
    "limits": OWNER_PAGE,
    "shares": OWNER_PAGE,
    "priorities": PAST_PAGE,
    "events": EVENT_PAGE,
    "watch_events": EVENT_PAGE,
    "job_states": EVENT_PAGE,
    "job_history": HISTORY_PAGE,
    "node_history": HISTORY_PAGE,
    "audit_log": AUDIT_PAGE,
}
