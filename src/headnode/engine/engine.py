"""The one writer: commands in, answers out, and no answer before it is durable."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from headnode.core.model.errors import Refused, Unavailable
from headnode.core.model.quantities import NEVER, STEP_BOUNDS, DurationHistogram, Instant, Seconds
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import OrdersQueue, Policy, reordering
from headnode.core.scheduling.view import View, WaitingClass
from headnode.core.state.advance_job import AdvanceJob
from headnode.core.state.apply_events import apply_event, pass_time
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.decide import decide
from headnode.core.state.events import Event
from headnode.core.state.filters import TakeVerdict
from headnode.core.state.job_events import JobStarted
from headnode.core.state.nodes import ShiftLimits
from headnode.core.state.reservations import AdvanceReservation
from headnode.core.state.stop import EndLate, EndOverdue
from headnode.engine.activation_gate import constrained_view, gate_plan
from headnode.engine.activation_pending import PendingOffers
from headnode.engine.batch_write import BatchSteps, JournalWrite, carry_out_batch
from headnode.engine.policy_registry import PassRules, pass_rules, starts_nothing
from headnode.engine.ports import Clock, Journal
from headnode.engine.preemption import (
    Rebalancing,
    plan_in_mode,
    plan_of_cluster,
    reclaims_of,
    withdrawals,
)
from headnode.engine.recovery import recover, save
from headnode.engine.settings import Settings
from headnode.engine.view_builder import ViewBuilder

log = logging.getLogger("headnode.engine")

Answer = tuple[Event, ...] | Refused | Unavailable
"""What became of a command: the events it caused, or why not."""

EVENTS_PER_SNAPSHOT = 50_000
AFTER_TROUBLE = 1.0  # seconds until the next try when the journal could not write
MAX_ROUNDS = 1_000  # of settling after one batch; what is left goes on after a rest
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
        self._last_plan: Plan | None = None
        self._unmade: Instant | None = None  # of the last pass, if its plan was not made yet
        self._planned_by = ("", "", "")  # how the last plan was made
        self._rebalancing = Rebalancing()
        self.passes, self.commits = DurationHistogram(STEP_BOUNDS), DurationHistogram(STEP_BOUNDS)
        self._rules: PassRules
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
    def rules(self) -> PassRules:
        """Return what the cluster's parameters say about passes."""
        if self._rules.values != self.cluster.parameters:
            self._rules = pass_rules(self._settings)
        return self._rules

    @property
    def last_plan(self) -> Plan | None:
        """The plan of the last pass.  Of a pass that was sure to start nothing it is made when it is read."""
        if self._unmade is not None:
            self._make_plan(self._unmade)
        return self._last_plan

    def _make_plan(self, now: Instant) -> Plan:
        self._unmade = None
        plan = self._last_plan = self.plan(now)
        self._planned_by = self._rules.method  # those that the plan was made by
        return plan

    def _has_no_plan(self) -> None:
        self._unmade = self._last_plan = None

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
        self._rules = pass_rules(self._settings)
        self.offers.recover(self.cluster, self.clock.now())
        self.unwritten = False  # True: memory is ahead of the disk
        self._agenda = self.cluster.agenda
        self._agenda.closing = self.closing
        self._view_builder = ViewBuilder(self.cluster, keeps=True)
        self._has_no_plan()
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
        for _ in range(MAX_ROUNDS):
            if self._agenda.has_dirty:
                self._attend(now, facts)
            if not self._pass_is_due(now):
                return
            self._schedule(now, facts)
        self._attend(now, facts)
        log.error("scheduling is not complete after %d rounds; it continues later", MAX_ROUNDS)
        self._rest_after_pass(now, LONG_REST)

    def _attend(self, now: Instant, facts: list[Event]) -> None:
        while self._agenda.dirty_jobs:
            self._apply_command(AdvanceJob(job=self._agenda.dirty_jobs.pop()), now, facts)
        self._agenda.dirty_jobs.clear()  # else its table stays large, and each later pop searches it
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
        made = self._last_plan if self._unmade is None else None  # an unmade plan waits for no time
        wake = NEVER if made is None else made.wake
        return min(wake, self.offers.wake()) if self.offers.are_timed else wake

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
            self._has_no_plan()
            self._take(withdrawals(self.cluster), now, facts)
            return
        began, before = self.clock.now(), len(facts)
        rules = self.rules
        if starts_nothing(self.cluster, self.policies, rules, self.offers):
            self._unmade, self._agenda.children_released = now, False
            self._measure_pass(now, self.clock.now() - began)
            return
        plan = self._make_plan(now)
        if rules.balanced:
            self._rebalancing.done(self.cluster, now)
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
        again = (
            rules.balanced
            and any(  # who has just started has a share from the next pass on
                isinstance(event, JobStarted) for event in facts[before:]
            )
        )
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
        rules = self.rules
        policy = rules.planner(self.policies)
        before = self._last_plan if rules.method == self._planned_by else None
        if before is not None:  # its waits hold on to the view it was made from, and that to the plan before
            before = replace(before, waits={})
        seen = self._view_builder.view(
            now, before=before, depth=rules.depth, owners=isinstance(policy, OrdersQueue)
        )
        if isinstance(policy, OrdersQueue):
            seen = policy.ordered(seen if also is None else replace(seen, queue=[*seen.queue, also]))
        balancing = self._rebalancing.shown(self.cluster, now) if rules.balanced else None
        return seen if balancing is None else replace(seen, balancing=balancing)

    def owners(self, now: Instant) -> View:
        """Return what a policy would see that orders the queue: jobs by owner, and what owners have used."""
        return self._view_builder.view(now, owners=True)

    def nodes_alone(self, now: Instant) -> View:
        """Return the nodes and licences of `view`, without its jobs."""
        return self._view_builder.nodes_alone(now)

    def order(self) -> Callable[[View], View]:
        """Return what puts a view with changed jobs into the order of the chosen policy."""
        return reordering(self.rules.planner(self.policies))

    def policy(self) -> Policy:
        """Return the policy that is chosen, as the mode has it that a view is of."""
        return partial(plan_in_mode, self.rules.planner(self.policies))

    def plan(self, now: Instant) -> Plan:
        """Return what the policy would do now."""
        view = constrained_view(self.view(now), self.offers, self.cluster)
        plan = plan_of_cluster(view, self.policy(), self.cluster)
        return plan if self._rules.order is None else self._rules.planned_again(plan, view)

    def _with_tries(self, plan: Plan, now: Instant) -> Plan:
        """Return a plan with the starts on paused nodes, which policies know nothing of."""
        if not self._view_builder.paused:
            return plan
        from headnode.engine.paused_nodes import paused_node_starts  # few clusters have paused nodes

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
        first = agenda.next_due()
        release = self.cluster.queue.next_release()
        if release is not None and release < first:
            first = release
        if not self.closing:
            if agenda.pass_needed:
                now = self.clock.now()
                first = min(first, now if self._pass_is_due(now) else self._rest[1])
            elif (wake := self._wake()) < NEVER:
                first = min(first, max(wake, self._rest[1]))
        return first if first < NEVER else None

    def snapshot_if_due(self, at_least: int = EVENTS_PER_SNAPSHOT) -> bool:
        """Keep a snapshot if so many events have happened since the last; return whether one was kept."""
        if self.unwritten or self.number - self.kept < at_least:
            return False
        self.journal.keep_snapshot(self.number, save(self.cluster))
        self.kept = self.number
        return True
