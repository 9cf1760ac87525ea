"""How often what the system lost is tried again: cluster parameters that the rules of jobs depend on.

Source: HPC Pack cluster parameters JobRetryCount and TaskRetryCount.
"""

from headnode.core.lifecycle.cluster import Cluster

JOB_RETRY_COUNT = 3
"""How often a job goes back to the queue because it lost nodes, unless the parameter says otherwise."""

TASK_RETRY_COUNT = 3
"""How often a task that may run twice is run again after the system lost it, unless the parameter says so."""


def job_retries(cluster: Cluster) -> int:
    """Return how often a job may go back to the queue because it lost nodes."""
    return int(float(cluster.parameters.get("JobRetryCount", JOB_RETRY_COUNT)))


def task_retries(cluster: Cluster) -> int:
    """Return how often an instance may be run again that the system lost."""
    return int(float(cluster.parameters.get("TaskRetryCount", TASK_RETRY_COUNT)))
