"""The state of the whole cluster: what is alive, and what follows from it.

`apply_event` is the only code that changes it.  What is recorded is in `Snapshot`; everything else here
(queue, task graphs, free processors) is derived from it."""

from collections.abc import Iterable
from math import inf, nextafter
from typing import Any

from msgspec.structs import replace

from headnode.core.model.errors import NotFound
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.user import packed_receipts, receipts_in
from headnode.core.state.agenda import Agenda
from headnode.core.state.bank_ledger import BankLedger
from headnode.core.state.elastic_record import ElasticIndex
from headnode.core.state.events import SuspectJob
from headnode.core.state.indexes import FreeCores, JobQueue, ResourceIndex, drop_children, note_children
from headnode.core.state.job_record import JobRecord, awaited_by_instances, decode_spec, spec_of, started_run
from headnode.core.state.job_request import (
    own_request,
    queued_request,
    request_in,
    request_of,
    request_taken,
    request_to_resume,
    suspension_of,
    wake_ups,
    without_refused,
)
from headnode.core.state.limit_index import LimitIndex
from headnode.core.state.node_record import NodeRecord, PrologSuccesses, StartFailures
from headnode.core.state.owner_usage import OwnerUsage
from headnode.core.state.recurring_record import RecurringIndex
from headnode.core.state.reservation_index import ReservationIndex, admitted, admitted_owner
from headnode.core.state.snapshot import Snapshot
from headnode.core.state.task_graph import TaskGraph, is_blocked
from headnode.core.state.transitions import JobState, set_recalled


class ClusterState:
    """The current state of the cluster, with indexes derived from it.

    Read it freely; only `apply_events` writes it.  What is left to do is on the `agenda` of the engine.
    """

    def __init__(self, snapshot: Snapshot | None = None, records: Iterable[JobRecord] | None = None) -> None:
        """Begin with what is recorded; `records` are its jobs, None if they are in the snapshot."""
        kept = snapshot or Snapshot()
        self.agenda = Agenda()
        self.jobs: dict[JobId, JobRecord] = {}
        self.nodes: dict[str, NodeRecord] = {node.facts.name: node for node in kept.nodes}
        self.parameters = dict(kept.parameters)
        self.limit_index = LimitIndex(self.parameters, self.jobs, dict(kept.user_groups))
        self.templates = {template.name.lower(): template for template in kept.templates}
        self.invitations = {invitation.digest: invitation for invitation in kept.invitations}
        self.logins = {login.digest: login for login in kept.logins}
        self.tokens = {token.digest: token for token in kept.tokens}
        self.receipts = packed_receipts(kept.receipts)  # of each user, by key, the oldest first
        self.reservation_index = ReservationIndex()
        self.standbys, self.term = {one.name: one for one in kept.standbys}, kept.term
        self.next_token, self.next_job, self.next_order = kept.next_token, kept.next_job, kept.next_order
        self.usage = OwnerUsage(kept.usage, self.parameters, self.nodes)
        self.resource_index = ResourceIndex(kept.resources, self.jobs, self.agenda)
        self.bank, self.elastic = BankLedger(kept.bank), ElasticIndex(kept.elastic)
        self.recurring = RecurringIndex(kept.recurring, kept.recurring_tables, kept.next_recurring)
        self._derive_nothing()
        for reservation in kept.reservations:
            self.keep_reservation(reservation)
        for node in self.nodes.values():
            self.cores.open_node(node)
            self.update_doubts(node)
        self.update_personal()
        for record in kept.jobs if records is None else records:
            self.adopt(record)

    def _derive_nothing(self) -> None:
        """Begin what is derived from the records; `adopt` and others fill it."""
        self.queue = JobQueue()
        self._granted: dict[JobId, JobRequest] = {}  # what running jobs were given
        self.filtered: set[JobId] = set()  # queued jobs that an activation filter keeps from starting
        self.children: dict[int, set[JobId]] = {}  # jobs that have not started, by the jobs they depend on
        self.element_children: dict[int, dict[int, set[JobId]]] = {}  # by job and number of an element
        self.followers: dict[int, set[JobId]] = {}  # jobs whose instances wait for those of a job
        self.graphs: dict[JobId, TaskGraph] = {}
        self.waiting: set[JobId] = set()  # jobs with a graph that have tasks to dispatch
        self.cores = FreeCores(self.jobs, self.nodes, self.agenda)
        self.running: set[JobId] = set()  # jobs that hold an allocation
        self.detached: set[JobId] = set()  # jobs that hold nothing where their processes are
        self.releasing: set[JobId] = set()  # running jobs that end, or of which processors were recalled
        self.counts: dict[JobState, int] = {}
        self.personal = False  # some node serves one user only
        self.start_failures = StartFailures()
        self.ready_prologs = PrologSuccesses()
        self.suspects: dict[str, SuspectJob] = {}  # by node that a failed prolog drained: the job to blame
        self._interned: dict[Any, Any] = {}

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
            receipts=receipts_in(self.receipts),
            usage=self.usage.accounts(),
            resources=list(self.resource_index.named.values()),
            bank=list(self.bank.entries.values()),
            elastic=list(self.elastic.named.values()), standbys=list(self.standbys.values()),
            user_groups=self.limit_index.groups, **self.recurring.kept(),
            term=self.term, next_token=self.next_token, next_job=self.next_job, next_order=self.next_order,
        )  # fmt: skip

    def update_doubts(self, node: NodeRecord) -> None:
        """Learn from the drains of a node whether a job may be to blame."""
        self.suspects.pop(node.facts.name, None)
        for doubt in [drain.suspect for drain in node.drains if drain.suspect is not None]:
            self.suspects[node.facts.name] = doubt

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
        """Return the description of a job; of a started job, with the request that it started with."""
        graph = self.graphs.get(record.id)
        return graph.spec if graph is not None else spec_of(record)

    def written(self, record: JobRecord) -> JobSpec:
        """Return the description of a job as its owner wrote it, whichever alternative it was given."""
        return decode_spec(record.spec)

    def graph(self, job: JobId) -> TaskGraph:
        """Return the graph of a job that holds an allocation."""
        return self.graphs[job]

    def request(self, record: JobRecord) -> JobRequest:
        """Return the resource request of a job; of a running job, the request that it started with."""
        if (known := self._granted.get(record.id) or self.queue.requests.get(record.id)) is not None:
            return known
        return self.started_request(record) if record.state.is_active else request_in(record.spec)

    def started_request(self, record: JobRecord) -> JobRequest:
        """Return what a job was given that was started, also when it is suspended and waits to go on."""
        return self.admit_request(record, without_refused(request_taken(record.spec, record.run), record.run))

    # For `apply_events` only

    def remember_request(self, record: JobRecord, spec: JobSpec) -> None:
        """A running job's description changed: the scheduler sees the new one."""
        self.agenda.dirty_job_views.add(record.id)
        if record.id in self.running:
            request = without_refused(own_request(spec), record.run)
            self._granted[record.id] = self.admit_request(record, request)

    def adopt(self, record: JobRecord) -> None:
        """Take a record in, with everything that follows from it."""
        shared = self._interned.setdefault  # as `shared`, which takes a call more for each of many jobs
        record.owner = shared(record.owner, record.owner)
        record.uid, record.gid = shared(record.uid, record.uid), shared(record.gid, record.gid)
        record.priority = shared(record.priority, record.priority)
        record.submit_host = shared(record.submit_host, record.submit_host)
        record.submitted = record.created if record.submitted == record.created else record.submitted
        record.order = record.id if record.order == record.id else record.order
        if record.state is JobState.RUNNING and record.is_elsewhere and started_run(record).started is None:
            record.state = JobState.HANDED  # older snapshots do not have it
        self.jobs[record.id] = record
        self.counts[record.state] = self.counts.get(record.state, 0) + 1
        self.limit_index.note(record)
        for parent in awaited_by_instances(record):
            self.followers.setdefault(parent, set()).add(record.id)
        if record.state is JobState.QUEUED:
            self.enqueue(record)
        elif record.is_elsewhere:
            if record.state in (JobState.HANDED, JobState.RUNNING, JobState.ENDING):
                self.open_elsewhere(record)
        elif record.is_detached:
            self.open_detached(record)
            if record.state is JobState.RESUMING:
                self.enqueue(record)
        elif record.state in (JobState.RUNNING, JobState.SUSPENDING, JobState.ENDING):
            self.open_run(record)

    def move(self, record: JobRecord, state: JobState) -> None:
        """Give a job another state and keep the counts right."""
        self.counts[record.state] -= 1
        record.state = state
        self.counts[state] = self.counts.get(state, 0) + 1
        self.limit_index.note(record)
        if record.run is not None:  # nothing follows inside a job of which nothing was started
            self.agenda.dirty_jobs.add(record.id)
        self.agenda.pass_needed = True

    def shared(self, value: Any) -> Any:
        """Return the one object for a text or number that many jobs have, such as their owner."""
        return self._interned.setdefault(value, value)

    def enqueue(self, record: JobRecord) -> None:
        """Put a queued job where passes find it, unless it is held or waits for parents."""
        note_children(self.children, self.element_children, record)
        if record.state is JobState.QUEUED and record.last_start is not None:
            over = nextafter(record.last_start, inf)  # at that very instant it may start still
            self.agenda.last_starts.set(record.id, Instant(over))
        if record.filter_reply is not None:
            self.filtered.add(record.id)
        if record.hold_until is None and record.start_after is None:
            self._insert_in_queue(record)
        else:
            self.queue.hold(record.id, Instant(max(record.hold_until or 0.0, record.start_after or 0.0)))

    def _insert_in_queue(self, record: JobRecord) -> None:
        if record.waits_for or record.holds or is_blocked(record):
            return
        asked = self._asked(record)
        if asked.resource and self.resource_index.note_place(record, asked.resource):
            return
        self.queue.insert(record.turn, asked)
        self.agenda.pass_needed = True

    def _asked(self, record: JobRecord) -> JobRequest:
        """Return the request of a queued job."""
        if record.state is JobState.RESUMING:
            return self.admit_request(record, request_to_resume(self.spec(record), suspension_of(record.run)))
        return self.admit_request(record, queued_request(record))

    def admit_request(self, record: JobRecord, request: JobRequest) -> JobRequest:
        """Return a request with the access of its owner to reservations and nodes, and with its limits."""
        if self.reservation_index.named or request.reservation:
            request = admitted(self.reservation_index.named, record, request)
        return self.limit_index.admit_job(record, self.for_user(record.owner, request))

    def request_if_queued(self, owner: str, spec: JobSpec) -> JobRequest:
        """Return the request of a job that is not queued, as if it were this owner's."""
        named = self.reservation_index.named.values()
        request = self.for_user(owner, admitted_owner(named, owner, spec.project, request_of(spec)))
        return self.limit_index.admit(owner, spec.project, request)

    def for_user(self, owner: str, request: JobRequest) -> JobRequest:
        """Return a request with its owner, if some node serves one user only."""
        if not self.personal:
            return request
        options = tuple(replace(one, user=owner) for one in request.alternatives)
        return replace(request, user=owner, alternatives=options)

    def dequeue(self, record: JobRecord) -> None:
        """Take a job out of everything that `enqueue` put it in."""
        self.filtered.discard(record.id)
        drop_children(self.children, self.element_children, record)
        self.agenda.last_starts.drop(record.id)
        self.resource_index.leave_queue(record.id)
        self.queue.remove(record.turn)
        self.agenda.pass_needed = True

    def release_due(self, now: Instant) -> None:
        """Queue the jobs whose start time has come."""
        while (job := self.queue.release(now)) is not None:
            self._insert_in_queue(self.jobs[job])

    def open_run(self, record: JobRecord) -> None:
        """Update the indexes for a job's allocation."""
        run, job = started_run(record), record.id
        self.running.add(job)
        granted = self._granted[job] = self.started_request(record)
        for node, processors in run.allocation.items():
            self.cores.take(job, node, processors)
        graph = self.graphs[job] = TaskGraph(record, run, self.waiting)
        self.agenda.set_deadline(job, run.deadline)
        self.update_releasing(record)
        for name, until in wake_ups(run, self.parameters).items():
            self.agenda.wake_ups.set((job, name), until)
        self.agenda.dirty_jobs.add(job)
        self.usage.count(record, graph.spec.project, granted)

    def open_elsewhere(self, record: JobRecord) -> None:
        """Update the indexes for a job that was handed over; it holds nothing here."""
        run = started_run(record)
        self.resource_index.elsewhere.add(record.id)
        self.graphs[record.id] = TaskGraph(record, run, self.waiting)
        live = sum(len(progress.live) for progress in run.tasks)
        self.resource_index.count(run.resource, live, self.waiting)
        self.agenda.set_deadline(record.id, run.deadline)
        self.agenda.dirty_jobs.add(record.id)

    def update_releasing(self, record: JobRecord) -> None:
        """Update whether a job is releasing processors: recalled ones, or all because it is ending."""
        recalled = record.run is not None and bool(record.run.recalled)
        releases = record.id in self.running and (recalled or record.state is JobState.ENDING)
        (self.releasing.add if releases else self.releasing.discard)(record.id)

    def release_allocation(self, record: JobRecord) -> None:
        """Release the allocation of a job whose processes stay on their nodes."""
        run = started_run(record)
        for node, processors in run.allocation.items():
            self.cores.give_back(record.id, node, processors)
        run.allocation, run.recalled_for = {}, ()
        for node in run.recalled:
            set_recalled(run.holdings, node, 0)
        self.usage.count(record, self.spec(record).project)
        self.running.discard(record.id)
        self.releasing.discard(record.id)
        self._granted.pop(record.id, None)

    def open_detached(self, record: JobRecord) -> None:
        """Update the indexes for a job whose processes are on nodes without an allocation."""
        run = started_run(record)
        self.detached.add(record.id)
        self.graphs[record.id] = TaskGraph(record, run, self.waiting)
        self.agenda.set_deadline(record.id, run.deadline)
        self.agenda.dirty_node_views.update(run.places)
        self.agenda.dirty_jobs.add(record.id)

    def on_node(self, node: str) -> set[JobId]:
        """Return the jobs that hold something of a node, or whose processes are there without that."""
        detached = {job for job in self.detached if node in started_run(self.jobs[job]).places}
        return self.cores.holders.get(node, set()) | detached

    def close_run(self, record: JobRecord) -> None:
        """Give back everything a job holds."""
        self.agenda.dirty_job_views.add(record.id)
        if record.state is JobState.RESUMING:
            self.dequeue(record)
        if record.id in self.detached:
            self.agenda.dirty_node_views.update(started_run(record).places)
            self.detached.discard(record.id)
        if (run := record.run) is not None:
            for node, processors in run.allocation.items():
                self.cores.give_back(record.id, node, processors)
            run.detached, run.allocation, run.parts, run.holdings = {}, {}, (), {}
            run.recalled_for, run.end = (), None
            self.usage.count(record, self.spec(record).project)
        for jobs in (self.running, self.resource_index.elsewhere, self.releasing, self.waiting):
            jobs.discard(record.id)
        self.graphs.pop(record.id, None)
        self.agenda.deadlines.drop(record.id)
        self._granted.pop(record.id, None)
        self.agenda.pass_needed = True

    def keep_reservation(self, reservation: NodeReservation) -> None:
        """Add or replace a reservation."""
        self.agenda.change_reservation(reservation)
        self._requests_changed(self.reservation_index.keep(reservation))

    def drop_reservation(self, key: str) -> None:
        """Remove a reservation."""
        self.agenda.dirty_reservations.discard(key)
        self._requests_changed(self.reservation_index.drop(key))

    def read_limits(self) -> None:
        """Update the limits of users, projects and groups, and the requests of their jobs."""
        self.limit_index.read(self.parameters)
        self._requests_changed(set())

    def _requests_changed(self, nodes: set[str]) -> None:
        """Update what reservations and limits make of the requests of jobs, and the views of these nodes."""
        self.agenda.dirty_node_views |= nodes & self.nodes.keys()
        self.agenda.pass_needed = True
        for job in self.running:
            self._granted[job] = self.started_request(self.jobs[job])
            self.agenda.dirty_job_views.add(job)
        for job, request in list(self.queue.requests.items()):
            record = self.jobs[job]
            if self._asked(record) != request:
                self.queue.remove(record.turn)
                self._insert_in_queue(record)

    def update_personal(self) -> None:
        """Update whether any node serves one user only, and the requests of jobs if that has changed."""
        personal = self.elastic.is_personal or any(node.facts.only_user for node in self.nodes.values())
        if personal != self.personal:
            self.personal = personal
            self._requests_changed(set())
