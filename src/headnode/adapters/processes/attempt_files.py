"""What a shepherd does around attempts for their files: directories, transfers, captured output.

Standard library only: this is loaded by the shepherd factory."""

from headnode.adapters.processes.attempt_directories import (
    is_own_directory,
    make_directories,
    make_temporary,
)
from headnode.adapters.processes.attempts import (
    Lanes,
    ShepherdAttempt,
    ended_record,
    not_brought_record,
    not_started_record,
)
from headnode.adapters.processes.job_journal import never_ran_record
from headnode.adapters.processes.program_start import Removals
from headnode.adapters.processes.shepherd_reports import ShepherdReports
from headnode.adapters.processes.spawning import discard_if_empty
from headnode.adapters.processes.staging import ShepherdTransfers
from headnode.adapters.processes.start_failures import CannotStart
from headnode.adapters.processes.transfer_run import TransferRun
from headnode.core.model import faults


class AttemptFiles:
    """What is done around attempts for their files: scratch directories, transfers, captured output."""

    def __init__(
        self,
        transfers: ShepherdTransfers,
        lanes: Lanes,
        reports: ShepherdReports,
        removals: Removals,
        output: int,
    ) -> None:
        self._transfers, self._lanes, self._reports = transfers, lanes, reports
        self._removals, self._output = removals, output
        self._closing = False

    def accept(self, attempt: ShepherdAttempt) -> None:
        """Give an attempt its turn, after its files were brought."""
        if attempt.staging is None:
            self._lanes.add(attempt)
            return
        try:
            make_directories(attempt.program.temporary, attempt.program.work_directory)
        except CannotStart as why:
            self._reports.ended(not_started_record(self._reports.next_number(), attempt.key, why))
            return
        for path in attempt.program.directories:
            self._reports.note(["private", path])
        if attempt.staging["in"]:
            self._transfers.begin(attempt, "in")
        else:
            self._lanes.add(attempt)

    def report(self, *, up: bool, suspended: bool) -> None:
        """Tell the agent how far files are; `suspended`: what has its files waits for processors."""
        self._transfers.report(up=up)
        waiting = self._lanes.waiting if up and suspended else ()
        self._transfers.report_ready([each for each in waiting if each.staging and each.staging["in"]])

    def settle(self) -> None:
        """Go on with attempts whose files are transferred, or cannot be."""
        for over in self._transfers.take_over():
            attempt = over.attempt
            if over.direction == "out":
                self._taken_away(over)
            elif over.failure is None and not over.stopped:
                self._lanes.add(attempt)
            else:
                self._remove_directories(attempt)
                number = self._reports.next_number()
                if over.stopped or over.failure is None:
                    self._reports.ended(never_ran_record(number, attempt.key))
                elif over.trouble:
                    why = CannotStart(over.failure, over.trouble)
                    self._reports.ended(not_started_record(number, attempt.key, why))
                else:
                    self._reports.ended(not_brought_record(number, attempt, over.failure))

    def take_away(self, attempt: ShepherdAttempt, by_limit: str) -> bool:
        """Take the results of an attempt away, unless it was stopped; False if there is nothing to do."""
        if self._closing or not (attempt.staging and attempt.staging["out"]):
            return False
        if attempt.verdict[0] == "stopped":
            return False
        attempt.verdict = (attempt.verdict[0], attempt.verdict[1] or by_limit)
        self._transfers.begin(attempt, "out")
        return True

    def _taken_away(self, over: TransferRun) -> None:
        """Report how an attempt ended; what could not be taken away stays where it is."""
        attempt, number = over.attempt, self._reports.next_number()
        if over.stopped:
            attempt.verdict = ("stopped", "")
        elif over.failure is not None:
            left = f"its results are in {attempt.program.work_directory} on the node"
            before = f"{attempt.verdict[1]}; " if attempt.verdict[1] else ""
            attempt.verdict = ("not-staged", f"{before}{over.failure}; {left}")
            self._reports.note(["kept", attempt.program.work_directory])
        self.tidy(attempt, keep=attempt.verdict[0] == "not-staged")
        self._reports.ended(ended_record(number, attempt, ""))

    def tidy(self, attempt: ShepherdAttempt, *, keep: bool = False) -> None:
        """Remove what an attempt leaves behind; `keep` its directory."""
        if attempt.program.captures:
            discard_if_empty(attempt.program.captured, self._output)
        self._remove_directories(attempt, keep=keep)

    def _remove_directories(self, attempt: ShepherdAttempt, *, keep: bool = False) -> None:
        for path in attempt.program.directories:
            if not (keep and path == attempt.program.work_directory):
                self._removals.begin(path)

    def make_elsewhere(self, path: str) -> bool:
        """Make the temporary directory of an attempt whose first node is another one.

        Return False if it is there: both nodes are on this machine, and that of the first one removes it.

        Raises:  CannotStart.
        """
        self._reports.note(["private", path])
        if why := self._reports.write_down():  # else nobody would remove it if this process was killed
            raise CannotStart(why, faults.JOURNAL)
        try:
            make_temporary(path)
        except CannotStart:
            self._reports.note(["kept", path])
            if is_own_directory(path):
                return False
            raise
        return True

    def remove(self, path: str) -> None:
        """Remove such a directory."""
        self._removals.begin(path)

    def close(self) -> None:
        """Begin no more transfers, and end all."""
        self._closing = True
        self._transfers.end_all()
