"""A shepherd: runs the instances of one job on one node, as the job's user, whatever becomes of the agent.

Standard library only: this is loaded by the shepherd factory."""

import select
import time
from typing import Any

from headnode.adapters import process_tree
from headnode.adapters.processes.agent_link import FOR_EVER, REDIAL, Lease, boot_time, clear_signals
from headnode.adapters.processes.attempt_files import AttemptFiles
from headnode.adapters.processes.attempt_limits import MemoryWatch
from headnode.adapters.processes.attempts import (
    Lanes,
    ShepherdAttempt,
    attempts_of,
    ended_record,
    not_started_record,
    open_counters,
)
from headnode.adapters.processes.current_usage import UsageMeter
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.process_control import (
    AttemptEndings,
    ProcessSuspension,
    kill_all_descendants,
)
from headnode.adapters.processes.program_start import Removals
from headnode.adapters.processes.reaping import Reaper
from headnode.adapters.processes.remote_command import LaunchOrder
from headnode.adapters.processes.remote_steps import RemoteCommands, RemoteStep
from headnode.adapters.processes.run_limits import RunLimits, send_signal
from headnode.adapters.processes.shepherd_home import ShepherdHome
from headnode.adapters.processes.shepherd_reports import ShepherdReports
from headnode.adapters.processes.staging import ShepherdTransfers
from headnode.adapters.processes.start_failures import CannotStart
from headnode.core.model import faults
from headnode.core.model.outcome import Ending

WITHOUT_AGENT = 60.0  # seconds a shepherd with nothing to do waits for an agent before it ends
_FAREWELL = 5.0  # seconds for the last words to an agent that is slow to listen
_MAX_SLEEP = 30.0  # seconds: the machine may sleep, and the deadline does not wait for it


class Shepherd:
    """One thread, one loop: reap, write down, start, tell."""

    def __init__(self, home: ShepherdHome, order: dict[str, Any]) -> None:
        """`home` is what earlier jobs of this process had, too; `order` is of this job."""
        self._home, directories = home, home.directories
        self._job, self._marker = order["job"], order["marker"]
        self._limits = RunLimits(order["deadline"], order["warning"])
        self._grace: float = order["grace"]
        self._poller, self._link = home.poller, home.link
        self._wakeup, self._signals = home.wakeup, home.wakeup.fileno()
        self._reports = ShepherdReports(home.journal, self._link)
        self._lodging = home.placement
        self._lanes, self._suspension = Lanes(), ProcessSuspension(home.freezer)
        self._endings = AttemptEndings(self._lodging.kill)
        self._memory, self._meter, self._removals = MemoryWatch(), UsageMeter(), Removals()
        self._lease = Lease()
        self._transfers = ShepherdTransfers(self._poller, self._link.send, directories.slots)
        around = self._lanes, self._reports, self._removals, directories.output
        self._files = AttemptFiles(self._transfers, *around)
        tells = self._memory.begin, self._link.send
        self._launches = RemoteCommands(directories.run, home.groups, self._files, *tells)
        parts = self._endings, self._launches, self._transfers, self._removals
        self._reaper = Reaper(home.children, self._lanes, *parts)
        self._closing = self._stays = False
        self._due = True  # something is: else programs have ended, and that is all
        self._alone_since = time.monotonic()
        if self._link.up:  # as after another job
            self._introduce(known=True)

    def run(self) -> dict[str, Any] | None:
        """Work until the job is closed, or until nothing is left to do or to report.

        Return the order of the next job of this process; None if there is none.
        """
        while not self._closing and not self._abandoned():
            if not self._link.up:  # with the agent went the connections of all that was launched here
                self._launches.end_all()
                if self._link.dial():
                    self._introduce()
            self._listen()
            self._reap()
            self._keep_lease()
            if due := self._due or self._reaper.reaped_others:
                self._look_at_all()
            self._start_what_is_next()
            self._reports.report(self._lanes.running)
            if due or not self._link.up:
                self._files.report(up=self._link.up, suspended=self._suspension.number > 0)
        only_tasks = self._launches.empty and self._transfers.empty and not self._suspension.holds
        self._end_everything()
        if self._stays and only_tasks and self._lanes.empty and not self._reports.write_down():
            return self._home.next_order()
        self._link.finish(_FAREWELL)
        return None

    def _look_at_all(self) -> None:
        """Let every part do what is due."""
        self._due = self._reaper.reaped_others = False
        self._files.settle()
        self._launches.look(self._lanes.by_process)
        now = time.monotonic()
        if now >= self._suspension.next_look:
            self._stand_still()
        if now >= self._memory.next_look:
            self._watch_memory()
        if not self._suspension.holds:
            self._keep_limits(now)
            self._launch_kept()

    def _introduce(self, *, known: bool = False) -> None:
        self._due = True
        number = self._suspension.number
        going = self._transfers.going("in"), self._transfers.going("out")
        self._reports.introduce(self._job, self._marker, self._lanes, number, *going, known=known)
        if self._suspension.still and number:
            self._link.send(["suspended", number])

    def _abandoned(self) -> bool:
        if self._link.up or not self._lanes.empty or not self._transfers.empty:
            self._alone_since = FOR_EVER
            return False
        now = time.monotonic()
        self._alone_since = min(self._alone_since, now)
        return now - self._alone_since > WITHOUT_AGENT

    def _listen(self) -> None:
        orders, self._home.orders = self._home.orders, []
        for message in orders:
            self._obey(message)
        due = time.monotonic() if orders else self._next_moment()
        for descriptor, events in self._poller.poll(max(due - time.monotonic(), 0.0) * 1000):
            if descriptor == self._signals:
                self._reaper.child_ended = True
                clear_signals(self._wakeup)
                continue
            due = 0.0
            if descriptor == self._link.descriptor:
                if events & select.POLLOUT:
                    self._link.flush()
                for message in self._link.receive():
                    self._obey(message)
            else:
                self._transfers.receive(descriptor)
        if time.monotonic() >= due:
            self._due = True

    def _next_moment(self) -> float:
        """Return when something is due, on the monotonic clock, if nothing happens before."""
        now = time.monotonic()
        moments = [
            self._endings.next_look,
            self._suspension.next_look,
            self._memory.next_look,
            self._launches.next_look,
            self._transfers.next_look,
            self._reports.next_moment(),
            now + _MAX_SLEEP,
        ]
        if not self._suspension.apart:
            moments.append(now + self._lease.left)
        if not self._suspension.holds:
            moments.append(self._lanes.next_look)
            moments.append(self._limits.next_look(now, boot_time()))
        if not self._link.up:
            moments.append(now + REDIAL)
        return min(moments)

    def _obey(self, message: list[Any]) -> None:
        match message:
            case ["run", *rest]:
                self._accept(attempts_of(rest))
            case ["stop", keys, grace]:
                for key in keys:
                    self._stop(tuple(key), self._lease.grace(grace))
            case ["deadline" | "continue" as word, deadline, grace]:
                self._limits.move(deadline)
                self._grace = grace
                if word == "continue":
                    self._go_on()
            case ["signal", question, keys, number, target]:
                self._link.send(["signaled", question, self._signal(keys, number, target)])
            case ["measure", question]:
                self._link.send(["measured", question, self._meter.read(self._lanes, self._launches)])
            case ["suspend", number]:
                self._suspension.begin(number)
                if self._suspension.still:  # the agent has missed the report
                    self._link.send(["suspended", number])
            case ["acknowledged", first, last]:
                self._reports.acknowledged(first, last)
            case ["lease", until]:
                self._lease.renew(until)
            case ["launch", *order]:
                self._launches.keep(LaunchOrder(*order))
            case ["end-launches", numbers, grace]:
                self._launches.end(numbers, self._lease.grace(grace))
            case ["end-task-launches", task]:
                self._launches.end_task(task)
            case ["close" | "vacate" as word]:
                self._closing, self._stays = True, word == "vacate"

    def _accept(self, attempts: list[ShepherdAttempt]) -> None:
        ended = self._reports.unacknowledged()
        known = ended.keys() | self._transfers.keys()
        new = [attempt for attempt in attempts if attempt.key not in self._lanes and attempt.key not in known]
        if new:
            self._reports.note(["queued", new[0].key[0], [attempt.key[1:] for attempt in new]])
        for attempt in new:
            if attempt.after:
                self._reports.give_back(self._lanes.add_behind(attempt, ended))
            else:
                self._files.accept(attempt)

    def _stop(self, key: Key, grace: float) -> None:
        if key in self._transfers:
            self._transfers.stop(key)
        elif (waiting := self._lanes.take_back(key)) is not None:
            self._reports.give_back([waiting])
        elif (attempt := self._lanes.running.get(key)) is not None:
            self._end(attempt, "stopped", "", grace)

    def _signal(self, keys: list[Key] | None, number: int, target: str) -> int:
        """Send a signal to attempts, and to what they launched here; None: to all of the job."""
        running, keys = self._lanes.running, None if keys is None else [(t, i, a) for t, i, a in keys]
        attempts = running.values() if keys is None else [running[key] for key in keys if key in running]
        return send_signal(attempts, self._launches.of_attempts(self._job, keys), number, target)

    def _end(self, attempt: ShepherdAttempt, ending: Ending, message: str, grace: float) -> None:
        if attempt.verdict[0] == "exited" and attempt.usage is None:
            attempt.verdict = (ending, message)
        self._endings.begin(attempt, grace)
        self._suspension.look_soon()

    def _launch_kept(self) -> None:
        """Start commands.  In a suspended job they would run until they are found and stopped."""
        for order in self._launches.take_kept():
            try:
                self._launches.begin(order)
            except CannotStart as why:
                self._link.send(["launch-failed", order.number, str(why)])
            except OSError as error:
                self._link.send(
                    ["launch-failed", order.number, f"no process could be created: {error.strerror}"]
                )

    def _keep_lease(self) -> None:
        """Stop all processes while the lease is over; continue them after its renewal."""
        over = self._lease.is_over
        if over and not self._suspension.apart:
            self._suspension.part()
            self._endings.force()
            self._launches.force()
        elif self._suspension.apart and not over:
            self._limits.delay(self._suspension.rejoin(process_tree.picture()))

    def _stand_still(self) -> None:
        """Stop whatever still runs, but for what is being ended; say so when nothing does any more."""
        picture = process_tree.picture()
        spared = self._endings.members(self._lanes.by_process, picture)
        if not self._suspension.apart:  # transfers hold no processors: they go on
            spared |= process_tree.descendants(self._transfers.processes, picture)
        if self._suspension.look(spared, picture) and self._suspension.number:
            self._link.send(["suspended", self._suspension.number])

    def _go_on(self) -> None:
        """Let everything go on; limits do not count the time that it stood still."""
        if self._suspension.number:
            self._limits.delay(self._suspension.end(process_tree.picture()))

    def _reap(self) -> None:
        if self._reaper.child_ended:
            self._end_or_finish(self._reaper.reap())
        if time.monotonic() < self._endings.next_look:
            return
        ended = self._endings.look(self._lanes.by_process)
        over = self._reaper.reap() if ended else []  # what died only just has used something, too
        for attempt in ended:
            self._finish(attempt)
        self._endings.forget(ended)
        self._end_or_finish(over)

    def _end_or_finish(self, attempts: list[ShepherdAttempt]) -> None:
        """What a program leaves behind would run on processors that are given to others: it ends, too."""
        if not attempts:
            return
        strays = self._reaper.strays()
        for attempt in attempts:
            if strays or (attempt.group is not None and attempt.group.members()):
                self._endings.begin(attempt, 0.0)
            else:
                self._finish(attempt)

    def _finish(self, attempt: ShepherdAttempt) -> None:
        waiting = self._lanes.is_over(attempt)
        by_limit = self._lodging.leave(attempt)
        if not self._files.take_away(attempt, by_limit):
            self._files.tidy(attempt)
            record = ended_record(self._reports.next_number(), attempt, by_limit)
            self._reports.ended(record, waiting)

    def _watch_memory(self) -> None:
        watched: list[ShepherdAttempt | RemoteStep] = [
            *self._lanes.running.values(),
            *self._launches.outposts,
        ]
        for each, above in self._memory.look(watched):
            if isinstance(each, RemoteStep):
                self._launches.end_above(each, above)
            else:
                self._end(each, "timed-out", above, self._grace)

    def _keep_limits(self, now: float) -> None:
        if now >= self._lanes.next_look:
            self._reports.give_back(self._lanes.take_stuck(now))
        if now < self._limits.next_look(now, boot_time()):
            return
        for keys in self._limits.take_due(now, boot_time()):
            self._signal(keys, *self._limits.warning)
        for key in self._limits.take_over(now):
            if (attempt := self._lanes.running.get(key)) is not None:
                limit = f"the run time limit of the task, {attempt.limit:g} s, expired"
                self._end(attempt, "timed-out", limit, self._grace)
        if self._limits.take_deadline(boot_time()):
            for key in list(self._lanes.queued):
                self._stop(key, self._grace)
            for attempt in list(self._lanes.running.values()):
                self._end(attempt, "timed-out", "the run time limit of the job expired", self._grace)

    def _start_what_is_next(self) -> None:
        """Write down all that happened and the starts to come with one write, then start.

        A program that cannot be started leaves its lane free: its successor is next.
        """
        while True:
            self._reports.settle(self._lanes)
            starting = [] if self._suspension.holds else list(self._lanes.next_ones())
            for attempt in starting:
                attempt.started = time.time()
                self._reports.starts(attempt)
                for path in attempt.program.directories:
                    self._reports.note(["private", path])
            reason = self._reports.write_down()
            for attempt in starting:
                self._start(attempt, reason)
            if not starting:
                return

    def _start(self, attempt: ShepherdAttempt, no_journal: str) -> None:
        try:
            if no_journal:  # a start that is not written down might happen twice
                raise CannotStart(no_journal, faults.JOURNAL)
            process = self._lodging.start(attempt)
            attempt.counters = open_counters(process)
        except CannotStart as why:
            self._lanes.is_over(attempt)
            self._reports.ended(not_started_record(self._reports.next_number(), attempt.key, why))
            return
        self._lanes.has_process(attempt, process)
        self._memory.begin(attempt)
        now = time.monotonic()
        self._reports.started(attempt, now)
        self._limits.begins(attempt, now)

    def _end_everything(self) -> None:
        self._files.close()
        for key in list(self._lanes.queued):
            self._stop(key, 0)
        kill_all_descendants()
        self._reaper.child_ended = True
        for attempt in self._lanes.running.values():
            if attempt.verdict[0] == "exited" and attempt.usage is None:
                attempt.verdict = ("stopped", "")
        self._reap()
        self._files.settle()
        for attempt in list(self._lanes.running.values()):
            if attempt.usage is not None:
                self._finish(attempt)
        self._removals.finish()
        self._reports.write_down()
        self._reports.report_ended()
