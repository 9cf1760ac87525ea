"""Compares the journal of a head with what the tasks wrote while they ran.

What must hold is worked out here once more from the events, in the plainest way, so that a mistake of the
core does not excuse itself.  Every broken promise is a sentence; none is the wish.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

import msgspec
from ticking import Attempt, Track

from headnode.core.model.dependency import Condition
from headnode.core.model.job import JobSpec, all_dependencies
from headnode.core.state import job_events as e
from headnode.core.state import suspension_events as sj
from headnode.core.state.job_record import decode_record, decode_spec

CLOCK = 0.002  # seconds; ticks are written with six digits, events keep all
LATE = 8.0  # seconds after a deadline by which everything has stopped, though head and agent may have died
MAX_ALONE = 0.5  # seconds; so close to the death of a head or an agent, a gang need not start at once
PRIVATE = "headnode-{}.{}.{}."


class Handed(msgspec.Struct):
    """An attempt that was handed to a node."""

    at: float
    place: e.NodeCores
    ended_at: float = inf
    end: e.InstanceEnd | None = None
    stopping: float = inf  # since when it may use its grace, whatever its job does
    still: list[tuple[float, float]] = []  # when it stood still


class HeadAnswer(msgspec.Struct):
    """What the events say of a job."""

    spec: JobSpec
    over: str = ""  # how, if it is
    skipped: bool = False
    has_started: bool = False
    goes_back: bool = False  # it had been running: it waits for nobody any more
    holds: set[str] = set()
    still_since: float = inf
    resuming: bool = False
    first: list[Attempt] = []  # of a gang: what was handed over by its latest start
    configured: int = 0  # how often it was taken back to be described anew


class Witness:
    """Everything that the journal tells, and what is wrong with it."""

    def __init__(self, expected: Iterable[tuple[int, Any]], tracks: dict[Attempt, Track]) -> None:
        self.tracks = tracks
        self.wrong: list[str] = []
        self.jobs: dict[int, HeadAnswer] = {}
        self.handed: dict[Attempt, Handed] = {}
        self.gangs: list[list[Attempt]] = []
        self.events: dict[str, int] = defaultdict(int)
        for _, event in expected:
            self.events[type(event).__name__] += 1
            self._receive(event)

    def _receive(self, event: Any) -> None:
        if isinstance(event, e.JobCreated):
            self.jobs[event.job] = HeadAnswer(spec=decode_spec(event.spec))
        elif isinstance(event, e.JobEvent):
            job = self.jobs[event.job]
            self._about_waiting(job, event)
            self._about_running(job, event)
            self._about_attempts(job, event)

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)

    def _about_waiting(self, job: HeadAnswer, event: Any) -> None:
        match event:
            case e.JobModified(spec=spec):
                job.spec = decode_spec(spec)
            case e.JobSubmitted():
                job.holds |= set(job.spec.holds)
                job.goes_back = False
            case e.JobHeld(name=name):
                job.holds.add(name)
            case e.JobReleased(names=names):
                job.holds -= set(names)
            case e.JobUnarchived(record=record):
                job.holds = {hold.name for hold in decode_record(record).holds}
            case e.JobConfiguring():
                job.over, job.configured = "", job.configured + 1
            case e.JobRequeued() | e.JobAutoRequeued():
                job.goes_back, job.over, job.skipped = not job.over, "", False
            case e.JobStarted():
                self._may_start(job, event)

    def _may_start(self, job: HeadAnswer, event: e.JobStarted) -> None:
        self._must(not job.over, f"job {event.job} started after it was over")
        self._must(not job.holds, f"job {event.job} started in spite of its holds {job.holds}")
        until = job.spec.hold_until or 0
        self._must(event.at >= until, f"job {event.job} started {until - event.at} s before it may")
        for one in () if job.goes_back else all_dependencies(job.spec):
            holds = is_met(one.condition, self.jobs[one.job])
            what = f"{one.condition.value} of job {one.job}"
            self._must(holds, f"job {event.job} started, {what} has not come true")

    def _about_running(self, job: HeadAnswer, event: Any) -> None:
        match event:
            case e.JobStarted():
                job.has_started, job.first = True, []
                if job.spec.together:
                    self.gangs.append(job.first)
            case sj.JobSuspended():
                job.still_since = min(job.still_since, event.at)
                job.resuming = False
            case sj.JobResuming():
                job.resuming = True
            case sj.JobResumed():
                held = job.resuming and job.holds
                self._must(not held, f"job {event.job} goes on in spite of its holds {job.holds}")
                self._goes_on(event.job, job, event.at)
            case e.JobEnding() | e.JobAutoRequeued() | e.JobRequeued():
                self._goes_on(event.job, job, event.at)
            case e.JobEnded(outcome=outcome, skipped=skipped):
                self._goes_on(event.job, job, event.at)
                job.over, job.skipped = outcome, skipped

    def _goes_on(self, number: int, job: HeadAnswer, at: float) -> None:
        for name, handed in self.handed.items() if job.still_since < at else ():
            if name[0] == number and handed.end is None:
                handed.still.append((job.still_since, at))
        job.still_since, job.resuming = inf, False

    def _about_attempts(self, job: HeadAnswer, event: Any) -> None:
        match event:
            case e.InstancesDispatched(task=task, placement=place, attempts=attempts):
                self._must(job.still_since == inf, f"job {event.job} hands over while it is suspended")
                for instance, attempt in attempts:
                    name = (event.job, task, instance, attempt)
                    self._must(name not in self.handed, f"{name} was handed over twice")
                    self.handed[name] = Handed(event.at, place)
                    job.first.append(name)
            case e.InstancesEnded(ended=ended):
                for end in ended:
                    name = (event.job, end.task, end.instance, end.attempt)
                    handed = self.handed[name]
                    self._must(handed.end is None, f"{name} ended twice")
                    handed.end, handed.ended_at = end, event.at
                    if job.still_since < event.at:  # it may have been stopped by itself
                        handed.still.append((job.still_since, min(event.at, end.outcome.ended or event.at)))
            case e.InstancesStopping(task=task, instances=instances):
                for name, handed in self.handed.items():
                    if name[:2] == (event.job, task) and name[2] in instances and handed.end is None:
                        handed.stopping = min(handed.stopping, event.at)
                        if job.still_since < event.at:
                            handed.still.append((job.still_since, event.at))

    def check(self, kills: list[float]) -> list[str]:
        """Return all that is wrong; `kills` is when somebody killed a head or an agent."""
        for name, track in self.tracks.items():
            handed = self.handed.get(name)
            if handed is None:
                self.wrong.append(f"{name} ran and was never handed over")
            elif handed.end is None:
                self.wrong.append(f"{name} ran and never ended")
            else:
                self.wrong += self._check_ticks(name, track, handed)
                self.wrong += self._check_end(name, track, handed.end)
                self.wrong += self._check_promises(name, track, handed)
        for job in self.jobs:
            self._must(bool(self.jobs[job].over), f"job {job} is not over")
        for name, handed in self.handed.items():
            self._must(handed.end is not None, f"{name} was handed over and never ended")
            code = None if handed.end is None else handed.end.outcome.exit_code
            ran = name in self.tracks or not is_ticking(self.jobs[name[0]], name[1])
            self._must(ran or code is None, f"{name} is said to have ended with {code} and never ran")
        self._check_reruns()
        for gang in self.gangs:
            self.wrong += self._check_gang(gang, kills)
        return self.wrong

    def _check_ticks(self, name: Attempt, track: Track, handed: Handed) -> Iterator[str]:
        first, last = track.ticks[0], track.ticks[-1]
        if track.begins != 1:
            yield f"{name} began {track.begins} times"
        if first < handed.at - CLOCK:
            yield f"{name} ran {handed.at - first:.3f} s before it was handed over"
        if last > handed.ended_at + CLOCK:
            yield f"{name} ran for {last - handed.ended_at:.3f} s after its end: {handed.end}"
        for since, until in handed.still:
            until = min(until, handed.stopping)
            ticks = [tick for tick in track.ticks if since + CLOCK < tick < until - CLOCK]
            if ticks:
                begins = ticks[0] - since
                yield f"{name} ran while its job was suspended, {len(ticks)} ticks from {begins:.3f} s on"
        end_by = self.jobs[name[0]].spec.end_by or inf
        if last > end_by + LATE:
            yield f"{name} ran for {last - end_by:.1f} s after its deadline"

    def _check_end(self, name: Attempt, track: Track, end: e.InstanceEnd) -> Iterator[str]:
        if end.outcome.exit_code is not None and end.outcome.exit_code != track.exit_code:
            yield f"{name} ended with {track.exit_code}, and {end} says otherwise"
        if end.state == "finished" and end.cause == "program" and end.outcome.exit_code != 0:
            yield f"{name} has finished, {end}"
        if end.state == "failed" and end.cause == "program" and end.outcome.exit_code == 0:
            yield f"{name} has failed, {end}"
        if end.outcome.started is None and end.cause == "program":
            yield f"{name} ran and never began: {end}"

    def _check_promises(self, name: Attempt, track: Track, handed: Handed) -> Iterator[str]:
        job = self.jobs[name[0]].spec
        task = job.tasks[name[1] - 1]
        if track.processors != sum(len(numbers) for _, numbers in handed.place):
            yield f"{name} was told of {track.processors} processors and had {handed.place}"
        if track.node != handed.place[0][0]:
            yield f"{name} ran on {track.node}, not on {handed.place}"
        private = track.directory.rpartition("/")[2].startswith(PRIVATE.format(*name))
        if private != task.private_directory:
            yield f"{name} ran in {track.directory}"
        limit = next((limit.soft for limit in job.resource_limits), None)
        if limit not in (None, track.open_files):
            yield f"{name} may open {track.open_files} files, not {limit}"
        layout = task.distribution
        if layout is not None and layout.nodes and len(handed.place) != layout.nodes:
            yield f"{name} lies on {handed.place}, not on {layout.nodes} nodes"
        if layout is not None and layout.per_node and max(len(n) for _, n in handed.place) > layout.per_node:
            yield f"{name} lies on {handed.place}, more than {layout.per_node} on a node"
        if layout is not None and layout.geometry and len(handed.place) < len(layout.geometry):
            yield f"{name} lies on {handed.place}, not as {layout.geometry}"

    def _check_reruns(self) -> None:
        """What may not run twice did not, unless its owner said so."""
        ran: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for job, task, instance, attempt in self.tracks:
            ran[job, task, instance].append(attempt)
        for (job, task, instance), attempts in ran.items():
            found = self.jobs[job]
            retried = [
                handed.end is not None and handed.end.state == "queued" and handed.end.cause == "program"
                for name, handed in self.handed.items()
                if name[:3] == (job, task, instance)
            ]
            most = inf if found.spec.tasks[task - 1].rerunnable else 1 + sum(retried) + found.configured
            what = f"{job}.{task}.{instance} ran {len(attempts)} times, attempts {sorted(attempts)}"
            self._must(len(attempts) <= most, f"{what}, and may not run twice")

    def _check_gang(self, names: list[Attempt], kills: list[float]) -> Iterator[str]:
        """What was handed over with the start of a gang ran at the same time, if it ran to its end."""
        if not names:
            return
        start = self.handed[names[0]].at
        together = [name for name in names if self.handed[name].at == start]
        tracks = [self.tracks.get(name) for name in together]
        ran = [track for track in tracks if track is not None and track.exit_code is not None]
        if len(ran) < 2 or any(start - MAX_ALONE < kill < ran[0].ticks[0] + 3 for kill in kills):
            return
        if any(self.handed[name].still for name in together):
            return
        begins, ends = max(track.ticks[0] for track in ran), min(track.ticks[-1] for track in ran)
        if begins > ends:
            late = begins - ends
            yield f"gang {together} did not run together: one ended {late:.3f} s before another began"


def is_met(condition: Condition, parent: HeadAnswer) -> bool:
    """Whether something has come true of a job."""
    match condition:
        case Condition.ON_SUCCESS:
            return parent.over == "finished"
        case Condition.ON_FAILURE:
            return parent.over in ("failed", "canceled") and not parent.skipped
        case Condition.ON_EXIT:
            return bool(parent.over)
        case Condition.ON_START | Condition.ON_CORRESPONDING:
            return parent.has_started


def is_ticking(job: HeadAnswer, task: int) -> bool:
    """Whether a task runs the program that writes ticks."""
    return "ticker" in job.spec.tasks[task - 1].command
