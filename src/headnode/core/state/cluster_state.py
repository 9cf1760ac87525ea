"""The state of the whole cluster: what is alive, and what follows from it.

`apply_event` is the only code that changes it.  What is recorded is in `Snapshot`; everything else here
(queue, task graphs, free processors) is derived from it."""

from bisect import bisect_left, insort
from heapq import heappop, heappush

import msgspec
from msgspec.structs import replace

from headnode.core.model.errors import Broken, NotFound
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.template import JobTemplate
from headnode.core.model.user import Receipt
from headnode.core.state.events import Doubt
from headnode.core.state.job_record import JobRecord, decode_spec, spec_of, with_special_tasks
from headnode.core.state.job_request import (
    own_request,
    request_in,
    request_of,
    request_taken,
    request_to_resume,
    request_within,
    rounded_span,
    suspension_of,
    without_refused,
)
from headnode.core.state.node_record import (
    InvitationRecord,
    LoginRecord,
    NodeRecord,
    PrologSuccesses,
    StartFailures,
    TokenRecord,
)
from headnode.core.state.reservation_index import ReservationIndex, admitted, admitted_owner
from headnode.core.state.task_graph import TaskGraph, merge_cores, remove_cores
from headnode.core.state.transitions import JobState

MOST_RECEIPTS = 20_000  # of one user; each takes about 400 bytes
Turn = tuple[int, int, int]


class Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that must be kept to restart without the events before."""

    jobs: list[JobRecord] = []
    nodes: list[NodeRecord] = []
    parameters: dict[str, str] = {}
    templates: list[JobTemplate] = []
    reservations: list[NodeReservation] = []
    invitations: list[InvitationRecord] = []
    logins: list[LoginRecord] = []
    tokens: list[TokenRecord] = []
    receipts: list[Receipt] = []
    next_token: int = 1
    next_job: int = 1
    next_order: int = 1
    version: int = 1


class ClusterState:
    """What is alive.  Read it freely; only `fold.apply` may write."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        kept = snapshot or Snapshot()
        self.jobs: dict[JobId, JobRecord] = {}
        self.nodes: dict[str, NodeRecord] = {node.facts.name: node for node in kept.nodes}
        self.personal = any(node.facts.serves for node in kept.nodes)  # some node serves one user only
        self.parameters = dict(kept.parameters)
        self.templates = {template.name.lower(): template for template in kept.templates}
        self.invitations = {invitation.digest: invitation for invitation in kept.invitations}
        self.logins = {login.digest: login for login in kept.logins}
        self.tokens = {token.digest: token for token in kept.tokens}
        self.receipts: dict[int, dict[str, Receipt]] = {}  # of each user, by key, the oldest first
        for receipt in kept.receipts:
            self.receipts.setdefault(receipt.uid, {})[receipt.key] = receipt
        self.next_token = kept.next_token
        self.reservation_index = ReservationIndex(kept.reservations)
        self.next_job = kept.next_job
        self.next_order = kept.next_order
        # What follows from the above.
        self.queue: dict[JobRequest, list[Turn]] = {}
        self.filtered: set[JobId] = set()  # queued jobs that an activation filter keeps from starting
        self.held: dict[JobId, Instant] = {}
        self._holds: list[tuple[Instant, JobId]] = []  # by time; some are of jobs no longer held
        self.graphs: dict[JobId, TaskGraph] = {}
        self.free: dict[str, list[int]] = {}
        self.holders: dict[str, set[JobId]] = {}
        self.start_failures = StartFailures()
        self.ready_prologs = PrologSuccesses()
        self.doubts: dict[str, Doubt] = {}  # nodes that a failed prolog drained, while a job may be to blame
        self.reduced: set[str] = set()  # nodes of which jobs may hold what is out of service
        self.children: dict[int, set[JobId]] = {}
        self.deadlines: list[tuple[Instant, JobId]] = []
        self._wake_ups: list[
            tuple[Instant, JobId]
        ] = []  # when services may go on; some are of jobs that ended
        self._last_starts: list[tuple[Instant, JobId]] = []  # by time; some are of jobs no longer queued
        self.running: set[JobId] = set()
        self.aside: set[JobId] = set()  # suspended, or ending after it: they hold nothing where they are
        self.giving: set[JobId] = (
            set()
        )  # they hold something that will soon be free: they end, or it was recalled
        self.counts: dict[JobState, int] = {}
        # What the engine should look at next, and jobs that are over and go to the archive.
        self.dirty_jobs: set[JobId] = set()
        self.dirty_job_views: set[JobId] = set()  # jobs whose picture for the scheduler may be out of date
        self.dirty_node_views: set[str] = set()  # the same of nodes
        self.pass_needed = True
        self.let_go = False  # what became of a job has let others into the queue, of which no plan knows yet
        self.over: dict[JobId, JobRecord] = {}
        self._classes: dict[JobId, JobRequest] = {}
        self._interned: dict[str, str] = {}
        for node in self.nodes.values():
            self.open_node(node)
            self.update_doubts(node)
        for record in kept.jobs:
            self.adopt(record)

    def snapshot(self) -> Snapshot:
        """Return what must be kept.  It shares the records: encode it before anything changes."""
        return Snapshot(
            jobs=list(self.jobs.values()),
            nodes=list(self.nodes.values()),
            parameters=self.parameters,
            templates=list(self.templates.values()),
            reservations=list(self.reservation_index.named.values()),
            invitations=list(self.invitations.values()),
            logins=list(self.logins.values()),
            tokens=list(self.tokens.values()),
            receipts=[receipt for each in self.receipts.values() for receipt in each.values()],
            next_token=self.next_token,
            next_job=self.next_job,
            next_order=self.next_order,
        )

    def update_doubts(self, node: NodeRecord) -> None:
        """Learn from the drains of a node whether a job may be to blame."""
        self.doubts.pop(node.facts.name, None)
        for drain in node.drains:
            if drain.doubt is not None:
                self.doubts[node.facts.name] = drain.doubt

    # Reading

    def job(self, job: JobId) -> JobRecord:
        """Return a job that is alive.

        Raises:  NotFound ``no-such-job``.
        """
        record = self.jobs.get(job)
        if record is None:
            raise NotFound(code="no-such-job", what=f"there is no job {job}", fix="see `hn job list /all`")
        return record

    def node(self, name: str) -> NodeRecord:
        """Return a node.

        Raises:  NotFound ``no-such-node``.
        """
        record = self.nodes.get(name)
        if record is None:
            raise NotFound(code="no-such-node", what=f"there is no node {name!r}", fix="see `hn node list`")
        return record

    def spec(self, record: JobRecord) -> JobSpec:
        """Return the description of a job; of one that runs or ran, with the request that it was given."""
        graph = self.graphs.get(record.id)
        return graph.spec if graph is not None else spec_of(record)

    def written(self, record: JobRecord) -> JobSpec:
        """Return the description of a job as its owner wrote it, whichever alternative it was given."""
        return decode_spec(record.spec)

    def graph(self, job: JobId) -> TaskGraph:
        """Return the graph of a job that holds an allocation."""
        return self.graphs[job]

    def request(self, record: JobRecord) -> JobRequest:
        """Return what the scheduler needs to know of a job; of one that runs, what it was given."""
        known = self._classes.get(record.id)
        if known is not None:
            return known
        return self.given(record) if record.state.is_active else request_in(record.spec)

    def given(self, record: JobRecord) -> JobRequest:
        """Return what a job was given that was started, also when it is suspended and waits to go on."""
        request = request_taken(record.spec, record.run.option if record.run is not None else 0)
        return self.admit_request(record, without_refused(request, record.run))

    def turn(self, record: JobRecord) -> Turn:
        """Return the place of a job in the queue: smaller goes first."""
        return (-record.priority, record.order, record.id)

    # For `fold` only

    def keep_receipt(self, receipt: Receipt, now: Instant) -> None:
        """Keep what a request made; drop what has expired, and the oldest of too many of the user."""
        kept = self.receipts.setdefault(receipt.uid, {})
        kept.pop(receipt.key, None)
        while kept:
            oldest = next(iter(kept.values()))
            if oldest.expires > now and len(kept) < MOST_RECEIPTS:
                break
            del kept[oldest.key]
        kept[receipt.key] = receipt

    def remember_request(self, record: JobRecord, spec: JobSpec) -> None:
        """A running job's description changed: the scheduler sees the new one."""
        self.dirty_job_views.add(record.id)
        if record.id in self.running:
            request = without_refused(own_request(spec), record.run)
            self._classes[record.id] = self.admit_request(record, request)

    def adopt(self, record: JobRecord) -> None:
        """Take a record in, with everything that follows from it."""
        record.owner, record.submit_host = self.shared(record.owner), self.shared(record.submit_host)
        with_special_tasks(record)
        self.jobs[record.id] = record
        self.counts[record.state] = self.counts.get(record.state, 0) + 1
        if record.state is JobState.QUEUED:
            self.enqueue(record)
        elif record.is_aside:
            self.open_suspended(record)
            if record.state is JobState.RESUMING:
                self.enqueue(record)
        elif record.state in (JobState.RUNNING, JobState.SUSPENDING, JobState.ENDING):
            self.open_run(record)

    def move(self, record: JobRecord, state: JobState) -> None:
        """Give a job another state and keep the counts right."""
        self.counts[record.state] -= 1
        record.state = state
        self.counts[state] = self.counts.get(state, 0) + 1
        if record.run is not None:  # nothing follows inside a job of which nothing was started
            self.dirty_jobs.add(record.id)
        self.pass_needed = True

    def shared(self, text: str) -> str:
        """Return the one object for a text that many jobs have, such as the name of their owner."""
        return self._interned.setdefault(text, text)

    def enqueue(self, record: JobRecord) -> None:
        """Put a queued job where passes find it, unless it is held or waits for parents."""
        for parent in (*record.waits_for, *record.met):
            self.children.setdefault(parent, set()).add(record.id)
        if record.state is JobState.QUEUED and record.last_start is not None:
            self._remember_last_start(record.last_start, record.id)
        if record.filtered is not None:
            self.filtered.add(record.id)
        if record.hold_until is not None:
            self.held[record.id] = record.hold_until
            self._remember_hold(record.hold_until, record.id)
        else:
            self._insert_in_queue(record)

    def _insert_in_queue(self, record: JobRecord) -> None:
        if record.waits_for or record.holds:
            return
        request = self._asked(record)
        turns = self.queue.get(request)
        if turns is None:
            turns = self.queue[request] = []
        else:  # equal requests share one object: 100,000 alike jobs hold it once
            request = self._class_of(turns, request)
        self._classes[record.id] = request
        insort(turns, self.turn(record))
        self.pass_needed = True

    def _asked(self, record: JobRecord) -> JobRequest:
        """Return what a job of the queue asks for."""
        return self.admit_request(record, self._described(record))

    def admit_request(self, record: JobRecord, request: JobRequest) -> JobRequest:
        """Return a request with what depends on whose it is: where he is let in."""
        return self.for_user(record.owner, admitted(self.reservation_index.named, record, request))

    def request_if_queued(self, owner: str, spec: JobSpec) -> JobRequest:
        """Return what a job that is not in the queue would ask for, were it this owner's."""
        named = self.reservation_index.named.values()
        return self.for_user(owner, admitted_owner(named, owner, spec.project, request_of(spec)))

    def for_user(self, owner: str, request: JobRequest) -> JobRequest:
        """Return a request with whose it is, if that matters."""
        if not self.personal:
            return request
        others = tuple(replace(other, user=owner) for other in request.others)
        return replace(request, user=owner, others=others)

    def _described(self, record: JobRecord) -> JobRequest:
        if record.state is JobState.RESUMING:
            return request_to_resume(self.spec(record), suspension_of(record.run))
        request = request_in(record.spec)
        if record.last_start is None or record.submitted is None:
            return request
        end = self.written(record).end_by
        return (
            request if end is None else request_within(request, rounded_span(Seconds(end - record.submitted)))
        )

    def _class_of(self, turns: list[Turn], request: JobRequest) -> JobRequest:
        return self._classes.get(JobId(turns[0][2]), request) if turns else request

    def dequeue(self, record: JobRecord) -> None:
        """Take a job out of everything that `enqueue` put it in."""
        self.filtered.discard(record.id)
        for parent in (*record.waits_for, *record.met):
            waiting = self.children.get(parent, set())
            waiting.discard(record.id)
            if not waiting:
                self.children.pop(parent, None)
        self.held.pop(record.id, None)
        request = self._classes.pop(record.id, None)
        if request is not None:
            turns = self.queue[request]
            at = bisect_left(turns, self.turn(record))
            if at == len(turns) or turns[at][2] != record.id:
                raise Broken(code="queue", what=f"job {record.id} is not in the queue where it should be")
            del turns[at]
            if not turns:
                del self.queue[request]
        self.pass_needed = True

    def release_due(self, now: Instant) -> None:
        """Let the jobs go whose hold is over; they may start from now on."""
        while (until := self.next_release()) is not None and until <= now:
            job = heappop(self._holds)[1]
            del self.held[job]
            self._insert_in_queue(self.jobs[job])

    def next_release(self) -> Instant | None:
        """Return when the next hold is over; None when nothing is held."""
        while self._holds and self.held.get(self._holds[0][1]) != self._holds[0][0]:
            heappop(self._holds)
        return self._holds[0][0] if self._holds else None

    def _remember_hold(self, until: Instant, job: JobId) -> None:
        """Note when a hold ends; drop the entries of jobs that are no longer held, now and then."""
        if len(self._holds) > 2 * len(self.held) + 64:
            self._holds = sorted({kept for kept in self._holds if self.held.get(kept[1]) == kept[0]})
        heappush(self._holds, (until, job))

    def _remember_last_start(self, at: Instant, job: JobId) -> None:
        """Note when a queued job must start at the latest; drop those that are not queued, now and then."""
        queued = self.counts.get(JobState.QUEUED, 0)
        if len(self._last_starts) > 2 * queued + 64:
            self._last_starts = sorted({kept for kept in self._last_starts if self._must_start(*kept)})
        heappush(self._last_starts, (at, job))

    def next_last_start(self) -> Instant | None:
        """Return when the next queued job must have started to end by its deadline; None when none must."""
        while self._last_starts and not self._must_start(*self._last_starts[0]):
            heappop(self._last_starts)
        return self._last_starts[0][0] if self._last_starts else None

    def take_late(self, now: Instant) -> JobId | None:
        """Return a queued job that can no longer end by its deadline, each once; None when there is none."""
        at = self.next_last_start()
        return heappop(self._last_starts)[1] if at is not None and at < now else None

    def _must_start(self, at: Instant, job: JobId) -> bool:
        record = self.jobs.get(job)
        return record is not None and record.state is JobState.QUEUED and record.last_start == at

    def next_deadline(self) -> Instant | None:
        """Return when the next run time limit is over; None when no running job has one."""
        while self.deadlines and not self._is_deadline(*self.deadlines[0]):
            heappop(self.deadlines)
        return self.deadlines[0][0] if self.deadlines else None

    def _is_deadline(self, at: Instant, job: JobId) -> bool:
        record = self.jobs.get(job)
        return record is not None and record.run is not None and record.run.deadline == at

    def set_deadline(self, job: JobId, at: Instant | None) -> None:
        """Remember when a running job's limit is over; forget those of jobs that ended, now and then."""
        if len(self.deadlines) > 2 * len(self.running) + 64:
            self.deadlines = sorted(set(filter(lambda kept: self._is_deadline(*kept), self.deadlines)))
        self.dirty_job_views.add(job)
        if at is not None:
            heappush(self.deadlines, (at, job))

    def pause_service(self, job: JobId, until: Instant) -> None:
        """Let the service of a job make no new instance before `until`."""
        graph = self.graphs[job]
        if until > graph.rests_until:
            graph.rests_until = until
            heappush(self._wake_ups, (until, job))

    def set_wake_up(self, job: JobId, at: Instant) -> None:
        """Let a job that was started be looked at by then."""
        heappush(self._wake_ups, (at, job))

    def next_wake_up(self) -> Instant | None:
        """Return when the next service may go on that rests, or a node be given back; None when none is."""
        return self._wake_ups[0][0] if self._wake_ups else None

    def wake_due(self, now: Instant) -> None:
        """Let the jobs be looked at whose service has rested, or whose nodes should be clean."""
        while self._wake_ups and self._wake_ups[0][0] <= now:
            job = heappop(self._wake_ups)[1]
            self.dirty_jobs |= {job} & self.graphs.keys()

    def open_run(self, record: JobRecord) -> None:
        """Work out what follows from a job's allocation."""
        run = record.run
        if run is None:
            raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
        self.running.add(record.id)
        self._classes[record.id] = self.given(record)
        for node, processors in run.allocation.items():
            self.take(record.id, node, processors)
        self.graphs[record.id] = TaskGraph(record, run)
        self.set_deadline(record.id, run.deadline)
        self.update_releasing(record)
        for until in run.cleaning.values():
            self.set_wake_up(record.id, until)
        self.dirty_jobs.add(record.id)

    def update_releasing(self, record: JobRecord) -> None:
        """Work out again whether a job holds something that will soon be free."""
        recalled = record.run is not None and bool(record.run.recalled)
        if record.id in self.running and (recalled or record.state is JobState.ENDING):
            self.giving.add(record.id)
        else:
            self.giving.discard(record.id)

    def release_allocation(self, record: JobRecord) -> None:
        """A job that is suspended gives back what it holds; its processes stay where they are."""
        run = record.run
        if run is None:
            raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
        for node, processors in run.allocation.items():
            self.give_back(record.id, node, processors)
        run.allocation, run.recalled, run.recalled_for = {}, {}, ()
        self.running.discard(record.id)
        self.giving.discard(record.id)
        self._classes.pop(record.id, None)

    def open_suspended(self, record: JobRecord) -> None:
        """Work out what follows from a job whose processes are where it holds nothing."""
        run = record.run
        if run is None:
            raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
        self.aside.add(record.id)
        self.graphs[record.id] = TaskGraph(record, run)
        self.set_deadline(record.id, run.deadline)
        self.dirty_node_views.update(suspension_of(run).places)
        self.dirty_jobs.add(record.id)

    def on_node(self, node: str) -> set[JobId]:
        """Return the jobs that hold something of a node, or whose stopped processes are there."""
        aside = {job for job in self.aside if node in suspension_of(self.jobs[job].run).places}
        return self.holders.get(node, set()) | aside

    def close_run(self, record: JobRecord) -> None:
        """Give back everything a job holds."""
        self.dirty_job_views.add(record.id)
        if record.state is JobState.RESUMING:
            self.dequeue(record)
        if record.id in self.aside:
            self.dirty_node_views.update(suspension_of(record.run).places)
            self.aside.discard(record.id)
        if record.run is not None:
            for node, processors in record.run.allocation.items():
                self.give_back(record.id, node, processors)
            record.run.allocation, record.run.parts, record.run.prep_states = {}, (), {}
            record.run.unready, record.run.cleaning, record.run.forgiven = (), {}, False
            record.run.recalled, record.run.recalled_for, record.run.preempted_by = {}, (), 0
        self.running.discard(record.id)
        self.giving.discard(record.id)
        self.graphs.pop(record.id, None)
        self._classes.pop(record.id, None)
        self.pass_needed = True

    def take(self, job: JobId, node: str, processors: tuple[int, ...]) -> None:
        """Mark processors of a node as held by a job."""
        self.dirty_job_views.add(job)
        self.dirty_node_views.add(node)
        self.free[node] = remove_cores(self.free.get(node, []), processors)
        if processors and processors[-1] >= self.usable(node):
            self.reduced.add(node)
        self.holders.setdefault(node, set()).add(job)

    def give_back(self, job: JobId, node: str, processors: tuple[int, ...]) -> None:
        """Mark processors of a node as free; the job holds nothing else there, or says so by `take`."""
        self.dirty_job_views.add(job)
        self.dirty_node_views.add(node)
        record = self.nodes.get(node)
        there = record.facts.processors if record else 0
        back = [number for number in processors if number < there]
        self.free[node] = merge_cores(self.free.get(node, []), back)
        self.holders.setdefault(node, set()).discard(job)
        self.pass_needed = True

    def keep_reservation(self, reservation: NodeReservation) -> None:
        """Let nodes be reserved so."""
        self._reservations_changed(self.reservation_index.keep(reservation))

    def drop_reservation(self, key: str) -> None:
        """Let a reservation be no more."""
        self._reservations_changed(self.reservation_index.drop(key))

    def _reservations_changed(self, nodes: set[str]) -> None:
        """Work out again who is let in where, and draw the nodes anew."""
        self.dirty_node_views |= nodes & self.nodes.keys()
        self.pass_needed = True
        for job in self.running:
            self._classes[job] = self.given(self.jobs[job])
            self.dirty_job_views.add(job)
        for job, request in list(self._classes.items()):
            record = self.jobs[job]
            if record.state.is_queued and self._asked(record) != request:
                turns = self.queue[request]
                del turns[bisect_left(turns, self.turn(record))]
                if not turns:
                    del self.queue[request]
                self._insert_in_queue(record)

    def update_personal(self) -> None:
        """Work out again whether some node serves one user only, and what jobs ask for if that is new."""
        personal = any(node.facts.serves for node in self.nodes.values())
        if personal != self.personal:
            self.personal = personal
            self._reservations_changed(set())

    def begin_and_end_reservations(self, now: Instant) -> None:
        """Let the scheduler and whoever attends to them know of reservations that begin or end by now."""
        self.pass_needed = self.reservation_index.turn(now) or self.pass_needed

    def usable(self, node: str) -> int:
        """Return how many processors of a node jobs may keep, those with the lowest numbers."""
        known = self.nodes.get(node)
        return 0 if known is None else known.usable

    def overdrawn(self, node: str) -> dict[JobId, int]:
        """Return how many processors that a node no longer has jobs still hold of it."""
        if node not in self.reduced or node not in self.nodes:
            return {}
        there = self.nodes[node].facts.processors
        held = {
            job: sum(number >= there for number in run.allocation.get(node, ()))
            for job in sorted(self.holders.get(node, ()))
            if (run := self.jobs[job].run) is not None
        }
        return {job: count for job, count in held.items() if count}

    def free_on(self, node: str) -> list[int]:
        """Return what others may have of a node.

        Who runs on processors that it no longer has runs on others: as many of them are not free.
        """
        free = self.free.get(node, [])
        return free[: max(0, len(free) - sum(self.overdrawn(node).values()))]

    def update_reduced(self, node: str) -> None:
        """Look at the jobs of a node of which something is out of service, or is not any more."""
        self.reduced.discard(node)
        if any(
            number >= self.usable(node)
            for job in self.holders.get(node, ())
            if (run := self.jobs[job].run) is not None
            for number in run.allocation.get(node, ())
        ):
            self.reduced.add(node)
        self.dirty_jobs |= self.holders.get(node, set())

    def open_node(self, node: NodeRecord) -> None:
        """Work out what is free of a node that is new or has changed."""
        name = node.facts.name
        self.dirty_node_views.add(name)
        held = {
            number
            for job in self.holders.get(name, ())
            if (run := self.jobs[job].run) is not None
            for number in run.allocation.get(name, ())
        }
        self.free[name] = [number for number in range(node.facts.processors) if number not in held]
        self.holders.setdefault(name, set())
        self.pass_needed = True
