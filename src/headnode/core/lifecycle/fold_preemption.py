"""Apply the events of jobs that give up what they hold."""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.arrows import job_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import Run
from headnode.core.model.errors import Broken


def recalled(cluster: Cluster, event: e.ProcessorsRecalled) -> None:
    """From now on it is to give up these, and no others."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    if record.run is None:
        raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
    record.run.recalled, record.run.recalled_for = dict(event.processors), event.for_jobs
    cluster.look_what_it_gives(record)
    cluster.redraw.add(record.id)
    cluster.touched.add(record.id)
    if not event.processors:
        cluster.pass_needed = True  # who was to have them does not come; the job may want to grow


def was_given(run: Run, node: str, gone: int, left: int) -> None:
    """So many processors of a node went, and so many are left: that much less is to be given up there."""
    if node not in run.recalled:
        return
    still = min(run.recalled[node] - gone, left)
    others = {name: count for name, count in run.recalled.items() if name != node}
    run.recalled = others | ({node: still} if still > 0 else {})
    if not run.recalled:
        run.recalled_for = ()
