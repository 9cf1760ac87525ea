"""A job on this node: what the head said of it, and its shepherds."""

from headnode.adapters.nodes import messages as m
from headnode.adapters.processes.job_journal import Key
from headnode.apps.agent.herd import Phase, Tended
from headnode.apps.agent.ledger import Entry
from headnode.apps.agent.orders import Orders
from headnode.core.lifecycle.records import decode_spec
from headnode.core.model.quantities import Instant, JobId


class Job:
    """One job.  It has one shepherd at work; others may still be on their way out."""

    def __init__(self, job: JobId) -> None:
        self.id = job
        self.opened: m.OpenJob | None = None  # None: closed, or not opened to this agent
        self.herd: dict[str, Tended] = {}  # by marker
        self.orders: Orders | None = None  # for the shepherd at work
        self.deaths = 0  # of its shepherds, one after the other without a task that started
        self.held: dict[Key, Entry] = {}  # results that wait for what was used on other nodes
        self.suspended = 0  # the number of the suspension by which nothing of it runs; 0: by none

    @property
    def at_work(self) -> Tended | None:
        """The shepherd that takes orders; None when a new one is needed."""
        for tended in self.herd.values():
            if tended.phase in (Phase.AWAITED, Phase.HERE) and not tended.closing:
                return tended
        return None

    @property
    def may_run_elsewhere(self) -> bool:
        """Whether the head may let others run what runs here, should it lose this node."""
        return self.opened is None or any(task.rerunnable for task in decode_spec(self.opened.spec).tasks)

    def owner_of(self, key: Key) -> Tended | None:
        """Return the shepherd that has this attempt, waiting or running."""
        for tended in self.herd.values():
            if key in tended.live:
                return tended
        return None

    def live(self) -> list[m.Live]:
        """Return the attempts that are not over."""
        held = [(key, entry.result.started) for key, entry in self.held.items()]
        return [
            m.Live(self.id, *key, since is not None, None if since is None else Instant(since))
            for live in (*(tended.live.items() for tended in self.herd.values()), held)
            for key, since in live
        ]
