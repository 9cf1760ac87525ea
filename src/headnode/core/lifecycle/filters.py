"""Which filters a job passes, as the cluster's parameters are now.

Source: HPC filters, "Cluster-wide and job template filters".
"""

from headnode.core.filtering.registration import Chain, Filter, chain_for
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.job import JobSpec

SUBMISSION, ACTIVATION = "SubmissionFilterProgram", "ActivationFilterProgram"


def submission_filters(cluster: Cluster, spec: JobSpec) -> Chain:
    """Return what a job passes before it comes into the queue, in order."""
    text = cluster.parameters.get(SUBMISSION, "")
    return chain_for(text, spec.template) if text else ()


def activation_filters(cluster: Cluster, record: JobRecord) -> tuple[Filter, ...]:
    """Return what a job passes before it gets resources, in order."""
    text = cluster.parameters.get(ACTIVATION, "")
    return chain_for(text, cluster.written(record).template) if text else ()
