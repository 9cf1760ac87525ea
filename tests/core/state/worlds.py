"""A whole head in one process: the real engine and policies, a journal in memory, nodes without machines."""

from collections.abc import Mapping
from typing import Literal

from headnode.adapters.clock import VirtualClock
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.state.apply_events import pass_time
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.invariants import check_cluster
from headnode.core.state.job_events import InstanceStage, JobCreated
from headnode.core.state.job_record import JobRecord, decode_record
from headnode.core.state.join import RegisterNode
from headnode.core.state.report import ReportStaging
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from headnode.engine.recovery import recover, save
from journal_model import ModelJournal
from testbed.in_process import Held, InProcessNodes

ROOT = User(name="root", uid=0, gid=0, administrator=True)
ADA = User(name="ada", uid=1001, gid=1001)
BOB = User(name="bob", uid=1002, gid=1002)


class World:
    """A head with nodes; time goes on only when it is told to."""

    def __init__(self, *processors: int, policies: Mapping[str, Policy] = POLICIES) -> None:
        self.clock = VirtualClock(Instant(1_000_000.0))
        self.journal = ModelJournal()
        self.nodes = InProcessNodes()
        self.engine = Engine(self.journal, self.clock, dict(policies), self.nodes)
        for number, count in enumerate(processors, 1):
            facts = NodeFacts(name=f"node{number}", processors=count, memory=1024)
            self.do(RegisterNode(facts=facts, approved=True))

    @property
    def cluster(self) -> ClusterState:
        return self.engine.cluster

    def do(self, *commands: Command) -> tuple[Event, ...]:
        """Give commands as one batch; return the events of the last; raise what refuses it."""
        answers = self.engine.handle(commands)
        check_cluster(self.cluster)
        last = answers[-1]
        if isinstance(last, HeadnodeError):
            raise last
        return last

    def submit(self, *tasks: TaskSpec, by: User = ROOT, **options: object) -> JobId:
        """Create and submit a job; return its id."""
        spec = JobSpec(tasks=tasks, **options)
        events = self.do(CreateJob(by=by, spec=spec, submit=True))
        return next(event.job for event in events if isinstance(event, JobCreated))

    def stage(self, held: Held, direction: Literal["in", "out", "ready"]) -> None:
        """Let a node say that files of an attempt are transferred."""
        stage = InstanceStage(held.task, held.instance, held.attempt, direction, self.clock.now())
        self.do(ReportStaging(node=held.place[0][0], job=held.job, staging=(stage,)))

    def end(self, job: JobId, task: int, instance: int = 1, exit_code: int = 0, kind: str = "exited") -> None:
        """Let one attempt end."""
        held = next(h for h in self.nodes.running() if (h.job, h.task, h.instance) == (job, task, instance))
        self.do(self.nodes.ended(held, self.clock.now(), kind=kind, exit_code=exit_code))

    def dispatched(self, job: JobId) -> list[tuple[int, int]]:
        """Return the (task, instance) pairs of a job that nodes have."""
        return [(h.task, h.instance) for h in self.nodes.running() if h.job == job]

    def record(self, job: JobId) -> JobRecord:
        """Return a job, alive or over."""
        alive = self.cluster.jobs.get(job)
        if alive is not None:
            return alive
        ended = self.journal.ended_job(job)
        assert ended is not None, f"there is no job {job}"
        return decode_record(ended.record)

    def archived(self, job: JobId) -> JobRecord | None:
        """Return a job that is over."""
        ended = self.journal.ended_job(job)
        return decode_record(ended.record) if ended else None

    def wait(self, seconds: float) -> None:
        """Let time go by, with what the engine does on time."""
        self.clock.advance(Seconds(seconds))
        self.engine.tick()
        check_cluster(self.cluster)

    def replayed(self) -> ClusterState:
        """Return the cluster that a restart would make, checked."""
        cluster, _, _ = recover(self.journal)
        pass_time(cluster, self.clock.now())
        check_cluster(cluster)
        return cluster

    def check_replay(self) -> None:
        """See that a restart would remember exactly this."""
        assert save(self.replayed()) == save(self.cluster)
