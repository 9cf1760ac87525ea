"""Which filters a job passes, as the cluster's parameters and its job template are now.

Source: HPC filters, "Cluster-wide and job template filters".
"""

from headnode.core.filtering.registration import Chain, Filter, chain_for, read_filters
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.templates import template_named
from headnode.core.model.job import JobSpec

SUBMISSION, ACTIVATION = "SubmissionFilterProgram", "ActivationFilterProgram"


def submission_filters(cluster: Cluster, spec: JobSpec) -> Chain:
    """Return what a job passes before it comes into the queue, in order."""
    text = cluster.parameters.get(SUBMISSION, "")
    if not text and not cluster.templates:
        return ()
    template = template_named(cluster.templates, spec.template)
    own = read_filters(template.submission_filters) if template is not None else ()
    return chain_for(text, spec.template, own)


def activation_filters(cluster: Cluster, record: JobRecord) -> tuple[Filter, ...]:
    """Return what a job passes before it gets resources, in order."""
    text = cluster.parameters.get(ACTIVATION, "")
    name = cluster.written(record).template
    template = template_named(cluster.templates, name) if cluster.templates else None
    own = read_filters(template.activation_filters) if template is not None else ()
    return chain_for(text, name, own)


def activation_rules(cluster: Cluster) -> tuple[tuple[str, str], ...]:
    """Return all that says which activation filters there are; nothing if there are none."""
    found = [(name, each.activation_filters) for name, each in cluster.templates.items()]
    found.append(("", cluster.parameters.get(ACTIVATION, "")))
    return tuple(rule for rule in found if rule[1])
