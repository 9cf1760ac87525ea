"""Questions about attempts, answered at once as the user of their job: a file is read, a signal is sent."""

from collections.abc import Sequence
from typing import NamedTuple

from headnode.adapters.batch.attempt_files import bytes_read, read_words
from headnode.adapters.batch.commands import account_of, run_command
from headnode.adapters.batch.orders import (
    AttemptFileAnswer,
    AttemptFileQuestion,
    AttemptSignal,
    AttemptSignalAnswer,
)
from headnode.core.batch.dialect import CommandResult, Dialect
from headnode.core.model.resource import BatchResource

MAX_READ = 20.0  # seconds, of a part of a file
MAX_SIGNAL = 20.0  # seconds


class AttemptDesk(NamedTuple):
    """Answers for one resource; any thread may ask."""

    resource: BatchResource
    dialect: Dialect

    def read(self, question: AttemptFileQuestion) -> AttemptFileAnswer:
        """Read a file as the user of a job."""
        try:
            result = self._run(question, read_words(question.path, question.offset, question.limit), MAX_READ)
            data, size = bytes_read(result)
        except (LookupError, PermissionError, ValueError) as error:
            return AttemptFileAnswer(question.number, problem=str(error))
        return AttemptFileAnswer(question.number, data, size)

    def signal(self, asked: AttemptSignal) -> AttemptSignalAnswer:
        """Send a signal to jobs as their user."""
        argv = self.dialect.signal(asked.ids, asked.signal, asked.target)
        if not argv:
            return AttemptSignalAnswer(asked.number, impossible=True)
        try:
            result = self._run(asked, argv, MAX_SIGNAL)
        except (LookupError, PermissionError) as error:
            return AttemptSignalAnswer(asked.number, problem=str(error))
        return AttemptSignalAnswer(asked.number, problem="" if result.status == 0 else result.complaint)

    def _run(
        self, question: AttemptFileQuestion | AttemptSignal, argv: Sequence[str], seconds: float
    ) -> CommandResult:
        account = account_of(question.owner, question.uid, question.gid)
        variable = self.dialect.system.settings_variable
        return run_command(self.resource, variable, account, argv, seconds=seconds)
