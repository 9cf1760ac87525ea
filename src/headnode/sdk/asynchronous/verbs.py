"""Every verb of the local protocol as a method with its fields and its answer.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from headnode.sdk.asynchronous.cluster_verbs import AsyncClusterVerbs
from headnode.sdk.asynchronous.job_verbs import AsyncJobVerbs
from headnode.sdk.asynchronous.job_view_verbs import AsyncJobViewVerbs
from headnode.sdk.asynchronous.node_verbs import AsyncNodeVerbs
from headnode.sdk.asynchronous.task_verbs import AsyncTaskVerbs


class AsyncVerbs(AsyncJobVerbs, AsyncJobViewVerbs, AsyncTaskVerbs, AsyncNodeVerbs, AsyncClusterVerbs):
    """Every verb of the local protocol as a method with its fields and its answer."""
