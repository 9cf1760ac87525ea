"""Every verb of the local protocol as a method with its fields and its answer.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from headnode.sdk.synchronous.cluster_verbs import ClusterVerbs
from headnode.sdk.synchronous.job_verbs import JobVerbs
from headnode.sdk.synchronous.job_view_verbs import JobViewVerbs
from headnode.sdk.synchronous.node_verbs import NodeVerbs
from headnode.sdk.synchronous.task_verbs import TaskVerbs


class Verbs(JobVerbs, JobViewVerbs, TaskVerbs, NodeVerbs, ClusterVerbs):
    """Every verb of the local protocol as a method with its fields and its answer."""
