"""Apply what the instances of special tasks do to the stay of their job on its nodes."""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.records import LiveInstance, Run, Stay, TaskProgress
from headnode.core.model.errors import Broken
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import MOST_INSTANCES

SHORT_SERVICE = Seconds(1.0)
"""An instance of a service that ends sooner is followed by the next one no sooner than so long after it."""


def make(progress: TaskProgress, instance: int) -> None:
    """An instance of a special task comes into being, with the next number."""
    if instance != progress.made_so_far + 1:
        raise Broken(code="not-next", what=f"instance {instance} of a task that has {progress.made}")
    progress.made = instance
    if instance >= MOST_INSTANCES:
        progress.endless = False


def arrive(flow: Flow, index: int, place: e.Place) -> None:
    """An instance was handed to nodes: one of a usual task makes them nodes that the job has used."""
    stays = flow.run.stays
    if index == flow.prep:
        stays[place[0][0]] = Stay.PREPARING
    elif index == flow.release:
        stays[place[0][0]] = Stay.LEAVING
    else:
        stays.update((node, Stay.READY) for node, _ in place)


def depart(flow: Flow, index: int, live: LiveInstance, how: e.Ended) -> None:
    """An instance of a special task is over."""
    run, node = flow.run, live.place[0][0]
    if node not in run.places:
        return
    if index == flow.release:
        run.stays[node] = Stay.LEFT
    elif index != flow.prep:
        return
    elif how.state == "finished":
        run.stays[node] = Stay.READY
    elif how.state == "failed":
        run.stays[node] = Stay.REFUSED
        run.refused[node] = how.message
    else:  # it never ran
        run.stays.pop(node, None)


def rest(how: e.Ended, at: Instant) -> Instant:
    """Return until when a service waits after this end of an instance of it; the past if it need not."""
    lasted = 0.0 if how.started is None or how.ended is None else how.ended - how.started
    return Instant(at + SHORT_SERVICE) if lasted < SHORT_SERVICE else Instant(0.0)


def forget(run: Run, node: str) -> None:
    """The job has nothing of a node any more, or the node has forgotten what was done to it."""
    run.stays.pop(node, None)
