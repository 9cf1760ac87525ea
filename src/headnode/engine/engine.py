"""The one writer: commands in, answers out, and no answer before it is durable.

The policies know paused nodes as closed.  What they leave waiting is tried on a cluster of only these nodes,
with only administrators' jobs in the queue.  No job starts on paused and other nodes at once.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from headnode.core.model.errors import Refused, Unavailable
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import NEVER, STEP_BOUNDS, DurationHistogram, Instant, JobId, Seconds
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Plan, Start
from headnode.core.scheduling.policies import OrdersQueue, Policy, plan_easy, reordering
from headnode.core.scheduling.view import RunningJob, View, WaitingClass
from headnode.core.state.advance_job import AdvanceJob
from headnode.core.state.apply_events import apply_event, pass_time
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.decide import decide
from headnode.core.state.events import Event
from headnode.core.state.filters import TakeVerdict
from headnode.core.state.job_events import JobStarted
from headnode.core.state.nodes import ShiftLimits
from headnode.core.state.prep_release import named_nodes, starts_paused
from headnode.core.state.reservations import AdvanceReservation
from headnode.core.state.stop import EndLate, EndOverdue
from headnode.engine.activation_gate import constrained_view, gate_plan
from headnode.engine.activation_pending import PendingOffers
from headnode.engine.batch_write import BatchSteps, JournalWrite, carry_out_batch
from headnode.engine.policy_registry import chosen_policy, planned_again, planning_method
from headnode.engine.ports import Clock, Journal
from headnode.engine.preemption import (
    Rebalancing,
    is_balanced,
    plan_in_mode,
    plan_of_cluster,
    reclaims_of,
    withdrawals,
)
from headnode.engine.recovery import recover, save
from headnode.engine.settings import Settings
from headnode.engine.view_builder import ViewBuilder


def paused_node_starts(cluster: ClusterState, view: View, starting: Collection[JobId]) -> tuple[Start, ...]:
    """Return the starts of administrators' jobs on paused nodes; those of `starting` start elsewhere.

    Cost:  O(nodes and kinds of waiting job), and a plan of those that qualify.
    """
    paused = {name.casefold() for name, node in cluster.nodes.items() if node.state is NodeState.PAUSED}
    queue = list(_waiting(cluster, view, paused, starting))
    if not queue:
        return ()
    nodes = {name: _opened(cluster, name, node, view) for name, node in view.nodes.items()}
    kept = {name: node for name, node in nodes.items() if name.casefold() in paused}
    running = [there for job in view.running if (there := _on(job, kept)).allocation]
    return plan_easy(
        View(now=view.now, nodes=kept, queue=queue, running=running, licences=view.licences)
    ).starts


def _waiting(
    cluster: ClusterState, view: View, paused: set[str], starting: Collection[JobId]
) -> Iterator[WaitingClass]:
    """Yield those of the queue that an administrator submitted and that paused nodes may do for."""
    for each in view.queue:
        named = named_nodes(each.request)
        if named and not named & paused:
            continue
        jobs = cluster.jobs
        turns = tuple(t for t in each.turns if t.job not in starting and starts_paused(jobs[t.job]))
        if turns:
            yield WaitingClass(replace(each.request, others=()), turns, each.owner, each.project)


def _opened(cluster: ClusterState, name: str, node: NodeView, view: View) -> NodeView:
    """Return a node as if it were not paused; a drained node stays closed."""
    return replace(node, closed="drained" if cluster.nodes[name].closes <= view.now else "")


def _on(job: RunningJob, nodes: dict[str, NodeView]) -> RunningJob:
    return replace(job, allocation=tuple(share for share in job.allocation if share[0] in nodes))


log = logging.getLogger("headnode.engine")

Answer = tuple[Event, ...] | Refused | Unavailable
"""What became of a command: the events it caused, or why not."""

EVENTS_PER_SNAPSHOT = 50_000
AFTER_TROUBLE = 1.0  # seconds until the next try when the journal could not write
MOST_ROUNDS = 1_000  # of settling after one batch; what is left goes on after a rest
LONG_REST = 1.0  # seconds, after that many
SHORT_PASS = 0.02  # seconds; after a longer one passes rest as long as it took
LONG_PASS = 1.0  # seconds; a longer one is told in the log


class Effects(Protocol):
    """The port through which durable events take effect on nodes and watchers."""

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Tell nodes and watchers what they need to know.  May be lost: reconciling says it again."""


class Engine:
    """Applies commands: events change the state, are written to the journal, and then take effect.

    Memory runs ahead of the disk only inside `handle`, and between the `steps` of a batch."""

    def __init__(self, journal: Journal, clock: Clock, policies: dict[str, Policy], effects: Effects) -> None:
        self.journal = journal
        self.clock = clock
        self.policies = policies
        self.effects = effects
        self.offers = PendingOffers()
        self.cluster = ClusterState()
        self.number = 0  # of the last event
        self.kept = 0  # of the last event in a snapshot
        self.last_plan: Plan | None = None
        self._planned_by = ("", "", "")  # how the last plan was made
        self._rebalancing = Rebalancing()
        self.passes, self.commits = DurationHistogram(STEP_BOUNDS), DurationHistogram(STEP_BOUNDS)
        self._rest = (Instant(0.0), Instant(0.0))  # no pass from the one until the other
        self.write_problem = ""  # why the journal could not write at the last try
        self._to_shift = Seconds(0.0)  # by how much the clock was set, as far as that is not written
        self._retry_at: Instant | None = None  # when to try again what the journal could not write
        self.closing = False
        self.recover()

    def close(self, *, closing: bool) -> None:
        """Let nothing start any more: the head cancels all jobs and ends.  Or let all start again."""
        self.closing = self._agenda.closing = closing
        self._agenda.pass_needed = True
        self._agenda.dirty_jobs |= self.cluster.graphs.keys()

    @property
    def settings(self) -> Settings:
        """Return the cluster's parameters as they are now."""
        return self._settings

    def recover(self) -> None:
        """Forget memory and read the journal.

        Raises:  Unavailable ``journal-damaged``.
        """
        self.cluster, self.number, self.kept = recover(self.journal)
        self._settings = Settings(self.cluster.parameters)
        self.offers.recover(self.cluster, self.clock.now())
        self.unwritten = False  # True: memory is ahead of the disk
        self._agenda = self.cluster.agenda
        self._agenda.closing = self.closing
        self._view_builder, self.last_plan = ViewBuilder(self.cluster, keeps=True), None
        pass_time(self.cluster, self.clock.now())

    def handle(self, batch: Sequence[Command]) -> list[Answer]:
        """Answer every command, in order, once the answers are durable.

        When the journal cannot write, every answer is the Unavailable it raised, and memory is read from
        the journal again: nothing of the batch has happened.
        Raises:  Broken when an event cannot be applied.  The caller must then end the process.
        """
        return carry_out_batch(self.steps(batch))

    def steps(self, batch: Sequence[Command]) -> BatchSteps[list[Answer]]:
        """Do as `handle`, but leave the write to the journal, if there is one, to the caller.

        Until what that raises is thrown in, or the steps go on, nothing else may be asked of the engine.
        """
        now = self.clock.now()
        if (error := self._mind_the_clock(now)) is not None:
            return [error for _ in batch]
        return (yield from self._steps(batch, now))

    def _mind_the_clock(self, now: Instant) -> Unavailable | None:
        """Move run time limits when the clock was set; return why not, and then nothing may come before."""
        if by := self.clock.set_by():
            log.warning("the clock was set by %.0f seconds", by)
            self._to_shift = Seconds(self._to_shift + by)
        if self._to_shift:
            (answer,) = carry_out_batch(self._steps([ShiftLimits(by=self._to_shift)], now))
            if isinstance(answer, Unavailable):
                return answer
            self._to_shift = Seconds(0.0)
        return None

    def _steps(self, batch: Sequence[Command], now: Instant) -> BatchSteps[list[Answer]]:
        facts: list[Event] = []
        answers = [self._apply_command(command, now, facts) for command in batch]
        self._run_to_fixpoint(now, facts)
        if not facts:
            self.offers.perform()
            return answers
        write = JournalWrite(self.journal, self.clock, self.cluster, facts)
        self.unwritten = True
        try:
            yield write
        except Unavailable as error:
            if not self.write_problem:
                log.error("the journal cannot write; it is tried again each second: %s", error)
            self.recover()
            self.write_problem, self._retry_at = error.what, Instant(now + AFTER_TROUBLE)
            return [error for _ in batch]
        if self.write_problem:
            log.info("the journal can write again")
        self.write_problem, self._retry_at, self.unwritten = "", None, False
        self.number = write.number
        self.commits.add(write.seconds)
        self._agenda.for_archive.clear()
        self.effects.perform(facts, self.cluster)
        self.offers.perform()
        return answers

    def _apply_command(self, command: Command, now: Instant, facts: list[Event]) -> Answer:
        if isinstance(command, TakeVerdict):
            does = self.offers.take(command, self.cluster, now)
            if does is None:
                return ()
            command = does
        try:
            events = decide(self.cluster, command, now)
        except Refused as refusal:
            return refusal
        for event in events:
            apply_event(self.cluster, event)
        facts += events
        return tuple(events)

    def _run_to_fixpoint(self, now: Instant, facts: list[Event]) -> None:
        """Dispatch, end and schedule until nothing more follows from what has happened."""
        for _ in range(MOST_ROUNDS):
            self._attend(now, facts)
            if not self._pass_is_due(now):
                return
            self._schedule(now, facts)
        self._attend(now, facts)
        log.error("scheduling is not complete after %d rounds; it continues later", MOST_ROUNDS)
        self._rest_after_pass(now, LONG_REST)

    def _attend(self, now: Instant, facts: list[Event]) -> None:
        while self._agenda.dirty_jobs:
            self._apply_command(AdvanceJob(job=self._agenda.dirty_jobs.pop()), now, facts)
        if not self._agenda.dirty_reservations:
            return
        reservations, self._agenda.dirty_reservations = self._agenda.dirty_reservations, set()
        for name in sorted(reservations):
            self._apply_command(AdvanceReservation(name=name), now, facts)
            self._attend(now, facts)

    def _pass_is_due(self, now: Instant) -> bool:
        begin, end = self._rest  # a clock that was set back ends it
        due = self._agenda.pass_needed or self._wake() <= now
        return due and not self.closing and not begin <= now < end

    def _wake(self) -> Instant:
        """Return when the last plan wants to be made again though nothing happens."""
        wake = NEVER if self.last_plan is None else self.last_plan.wake
        return min(wake, self.offers.wake())

    def _rest_after_pass(self, now: Instant, seconds: float) -> None:
        self._rest = (now, Instant(now + seconds))

    def _schedule(self, now: Instant, facts: list[Event]) -> None:
        """Run one pass.  A pass that took long makes the next wait as long, so passes take half the time."""
        self._agenda.pass_needed = False
        if self.offers.are_in_play:
            self._view_builder.freed = True  # what was held for others may not be any more
        for firm in self.offers.begin(self.cluster, now):
            self.offers.settled(firm, self._apply_command(firm, now, facts))
        if not self.cluster.queue.by_request and self.cluster.waiting.isdisjoint(self.cluster.running):
            self.last_plan = None
            self._take(withdrawals(self.cluster), now, facts)
            return
        began, before = self.clock.now(), len(facts)
        plan = self.last_plan = self.plan(now)
        self._rebalancing.done(self.cluster, now)
        self._planned_by = planning_method(self.settings)
        self._view_builder.freed, self._agenda.children_released = False, False
        for command in gate_plan(self.offers, self._with_tries(plan, now), self.cluster, now):
            answer = self._apply_command(command, now, facts)
            self.offers.settled(command, answer)
            if isinstance(answer, Refused):
                log.warning("a plan was stale: %s", answer)
        self._take(reclaims_of(plan), now, facts)
        self.offers.make_next_firm(claim.job for claim in plan.claims)
        self._view_builder.freed = (
            self.offers.restless
        )  # what was planned for those asked about is free still
        self._view_builder.look_at_jobs(now)  # those that started: one may end before the next pass
        balanced = is_balanced(self.settings)  # who has just started has a share from the next pass on
        again = balanced and any(isinstance(event, JobStarted) for event in facts[before:])
        self._agenda.pass_needed = self._agenda.children_released or self.offers.restless or again
        self._measure_pass(now, self.clock.now() - began)

    def _measure_pass(self, now: Instant, spent: float) -> None:
        """Count a pass of so many seconds, and rest after a long one."""
        self.passes.add(spent)
        if spent > LONG_PASS:
            log.warning(
                "a scheduling pass took %.1f s: %d jobs run, %d kinds of job wait on %d nodes",
                spent, len(self.cluster.running), len(self.cluster.queue.by_request), len(self.cluster.nodes),
            )  # fmt: skip
        if spent > SHORT_PASS:
            self._rest_after_pass(now, 2 * spent)

    def _take(self, takings: Sequence[Command], now: Instant, facts: list[Event]) -> None:
        for command in takings:
            answer = self._apply_command(command, now, facts)
            if isinstance(answer, Refused):
                log.warning("a plan was stale: %s", answer)

    def view(self, now: Instant, also: WaitingClass | None = None) -> View:
        """Return what the policy would see now, its queue in the order of the policy.

        A policy that orders the queue sees a job that is not in it yet as `also`.
        """
        settings = self.settings
        policy = chosen_policy(self.policies, settings)
        before = self.last_plan if planning_method(settings) == self._planned_by else None
        if before is not None:  # its waits hold on to the view it was made from, and that to the plan before
            before = replace(before, waits={})
        seen = self._view_builder.view(
            now, before=before, depth=settings.depth(), owners=isinstance(policy, OrdersQueue)
        )
        if isinstance(policy, OrdersQueue):
            seen = policy.ordered(seen if also is None else replace(seen, queue=[*seen.queue, also]))
        balancing = self._rebalancing.shown(self.cluster, now)
        return seen if balancing is None else replace(seen, balancing=balancing)

    def owners(self, now: Instant) -> View:
        """Return what a policy would see that orders the queue: jobs by owner, and what owners have used."""
        return self._view_builder.view(now, owners=True)

    def nodes_alone(self, now: Instant) -> View:
        """Return the nodes and licences of `view`, without its jobs."""
        return self._view_builder.nodes_alone(now)

    def order(self) -> Callable[[View], View]:
        """Return what puts a view with changed jobs into the order of the chosen policy."""
        return reordering(chosen_policy(self.policies, self.settings))

    def policy(self) -> Policy:
        """Return the policy that is chosen, as the mode has it that a view is of."""
        return partial(plan_in_mode, chosen_policy(self.policies, self.settings))

    def plan(self, now: Instant) -> Plan:
        """Return what the policy would do now."""
        view = constrained_view(self.view(now), self.offers, self.cluster)
        return planned_again(plan_of_cluster(view, self.policy(), self.cluster), view, self.settings)

    def _with_tries(self, plan: Plan, now: Instant) -> Plan:
        """Return a plan with the starts on paused nodes, which policies know nothing of."""
        if all(node.state is not NodeState.PAUSED for node in self.cluster.nodes.values()):
            return plan
        tries = paused_node_starts(self.cluster, self.view(now), {start.job for start in plan.starts})
        return replace(plan, starts=(*plan.starts, *tries))

    def tick(self) -> None:
        """Carry out what is due: release holds, end overdue and late jobs, run a postponed pass."""
        now = self.clock.now()
        self._retry_at = None
        if self._mind_the_clock(now) is not None:
            return
        pass_time(self.cluster, now)
        agenda = self._agenda
        agenda.begin_and_end_reservations(self.cluster.reservation_index.named, now)
        agenda.wake(now, self.cluster.graphs.keys())
        overdue: list[Command] = []
        while (job := agenda.deadlines.take(now)) is not None:
            overdue.append(EndOverdue(job=job))
        while (late := agenda.last_starts.take(now)) is not None:
            overdue.append(EndLate(job=late))
        if overdue or agenda.dirty_jobs or agenda.dirty_reservations or self._pass_is_due(now):
            carry_out_batch(self._steps(overdue, now))

    def next_wake(self) -> Instant | None:
        """Return when `tick` has something to do; None when time alone changes nothing."""
        if self._retry_at is not None:
            return self._retry_at
        agenda = self._agenda
        times = [self.cluster.queue.next_release(), agenda.next_due()]
        if agenda.pass_needed and not self.closing:
            now = self.clock.now()
            times.append(now if self._pass_is_due(now) else self._rest[1])
        elif (wake := self._wake()) < NEVER and not self.closing:
            times.append(Instant(max(wake, self._rest[1])))
        return min([time for time in times if time is not None], default=None)

    def snapshot_if_due(self, at_least: int = EVENTS_PER_SNAPSHOT) -> bool:
        """Keep a snapshot if so many events have happened since the last; return whether one was kept."""
        if self.unwritten or self.number - self.kept < at_least:
            return False
        self.journal.keep_snapshot(self.number, save(self.cluster))
        self.kept = self.number
        return True
