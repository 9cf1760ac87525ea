"""What the head tells nodes of prologs, epilogs and node filters, and which nodes it waits for."""

from headnode.adapters.nodes import messages as m
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import Run
from headnode.core.model.quantities import JobId, Seconds
from headnode.engine.settings import Settings

HOOK_PARAMETERS = frozenset(
    {
        "PrologProgram",
        "PrologTimeout",
        "EpilogProgram",
        "EpilogTimeout",
        "NodeFilterDirectory",
        "NodeFilterTimeout",
    }
)
"""The parameters of which jobs that are open on nodes must hear when they change."""


def hooks_of(settings: Settings, run: Run) -> m.Hooks | None:
    """Return what nodes do around a job; None if that is nothing, and nobody waits for them to be ready."""
    prolog, epilog = settings.text("PrologProgram"), settings.text("EpilogProgram")
    filters = settings.text("NodeFilterDirectory")
    if not (prolog or epilog or filters or run.unready):
        return None
    return m.Hooks(
        prolog=prolog,
        prolog_timeout=Seconds(settings.number("PrologTimeout")),
        epilog=epilog,
        epilog_timeout=Seconds(settings.number("EpilogTimeout")),
        filters=filters,
        filter_timeout=Seconds(settings.number("NodeFilterTimeout")),
    )


def cleaned_on(cluster: Cluster, node: str) -> set[JobId]:
    """Return the jobs of which a node is being cleaned."""
    return {
        job
        for job in cluster.holders.get(node, ())
        if (run := cluster.jobs[job].run) is not None and node in run.cleaning
    }


def unready_on(cluster: Cluster, node: str) -> set[JobId]:
    """Return the jobs that wait for a node to say that it is ready for them."""
    return {
        job
        for job in cluster.holders.get(node, ())
        if (run := cluster.jobs[job].run) is not None and node in run.unready
    }
