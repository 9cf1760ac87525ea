"""What the parts of the agent ask of the node, and what they tell it."""

from typing import Protocol

from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.adapters.processes.shepherd_protocol import ShepherdLaunchesEnded
from headnode.adapters.wire.agent_messages import AttemptTransfers, Launch
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.shepherd_handle import Failure, ShepherdHandle
from headnode.core.launching.node_filters import NodeFilterResult
from headnode.core.model.quantities import JobId
from headnode.core.state.job_events import NodeCores


class NodeServices(Protocol):
    """The node, as its shepherds, visits, filters, remote commands and clients know it."""

    # The head and the jobs.

    def send(self, message: FromAgent) -> None:
        """Say something to the head, if it listens."""

    def user_of(self, number: JobId, key: Key) -> int | None:
        """Return the user whose attempt lives here; None when there is no such attempt."""

    def attempt_of(self, uid: int, named: str) -> tuple[JobId, Key] | None:
        """Return this attempt (job.task.instance.attempt) of a user, if it may be here, else another one."""

    def temporary_name(self, number: JobId, key: Key) -> str:
        """Return the name of the temporary directory of an attempt that lives here; empty: it has none.

        Raises:  OSError.
        """

    # Remote commands.

    def start_launched(self, launch: Launch) -> int:
        """Let the job's shepherd run a command; return its user.

        Raises:  OSError, HeadnodeError when that cannot be.
        """

    def end_launched(self, number: JobId, launches: list[str], grace: float) -> None:
        """Let the job's shepherd end commands, within seconds."""

    def end_launched_by(self, number: JobId, key: Key) -> bool:
        """Let the job's shepherd kill whatever an attempt of another node has running here.

        False when the job has no shepherd here; else it tells when that is done, and what was used.
        """

    # Prolog, epilog and filters.

    def entered(self, number: JobId) -> None:
        """The prolog of a job is over, well or not."""

    def left(self, number: JobId) -> None:
        """The epilog of a job is over; meanwhile it may have come back."""

    def passed(self, number: JobId, key: Key, place: NodeCores, filtered: NodeFilterResult) -> None:
        """A task may start, as its filter wants it."""

    def refused(self, number: JobId, key: Key, why: str, trouble: str) -> None:
        """A task cannot start."""

    # Shepherds.

    def takes_over(self, tended: ShepherdHandle) -> None:
        """A job gets a shepherd that has served another, with its control groups.

        Raises:  OSError when the job cannot be kept from the devices of others.
        """

    def adopted(self, tended: ShepherdHandle) -> None:
        """A shepherd of an earlier agent is here, dead or alive."""

    def started(self, tended: ShepherdHandle, begun: list[tuple[int, int, int, float]]) -> None:
        """These attempts run."""

    def staging(self, tended: ShepherdHandle, transfers: list[AttemptTransfers]) -> None:
        """Files of these attempts are transferred."""

    def ended(self, tended: ShepherdHandle, records: list[EndedRecord]) -> None:
        """These attempts are over."""

    def is_suspended(self, tended: ShepherdHandle, number: int) -> None:
        """A shepherd lets nothing run, or soon nothing, by the suspension of this number."""

    def stands_still(self, tended: ShepherdHandle, number: int) -> None:
        """Nothing that a shepherd has runs any more, by the suspension of this number."""

    def not_launched(self, number: str, why: str) -> None:
        """A shepherd could not start a command."""

    def launches_over(self, job: JobId, message: ShepherdLaunchesEnded) -> None:
        """Nothing runs any more of what an attempt of another node launched here."""

    def never_arrived(self, tended: ShepherdHandle, keys: list[Key]) -> None:
        """These were lost on the way to a shepherd that lives."""

    def vanished(
        self, tended: ShepherdHandle, started: dict[Key, float], failure: Failure | None, *, rebooted: bool
    ) -> None:
        """A shepherd is gone and nothing of it runs; with a failure it never came to be."""
