"""What every verb may use: the engine behind its inbox, the jobs, and why they wait."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from headnode.apps.server.inbox import Inbox
from headnode.apps.server.lookups import Lookups
from headnode.apps.server.outlooks import Outlooks
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.decision import Reason, Why
from headnode.engine.engine import Engine
from headnode.engine.ports import Past, Predictions


class Desk:
    """Where clients' verbs meet the engine."""

    def __init__(self, engine: Engine, past: Past, inbox: Inbox, state: Path, name: str) -> None:
        self.engine = engine
        self.inbox = inbox
        self.lookups = Lookups(engine, past)
        self.predictions: Predictions = past
        self.outlooks = Outlooks(engine, past)
        self.state = state
        self.name = name
        self.started = engine.clock.now()
        self.shut_down: Callable[[], None] | None = None
        self.searching = asyncio.Lock()  # held by the one question that asks the policy many times

    @property
    def cluster(self) -> Cluster:
        """Return the cluster as it is now."""
        return self.engine.cluster

    def now(self) -> Instant:
        """Return the present instant."""
        return self.engine.clock.now()

    async def ask(self, command: c.Command) -> tuple[Event, ...]:
        """Return the events that a command causes, once they are durable; raise what refuses it."""
        return await self.inbox.ask(command)

    def pending_reason(self, record: JobRecord) -> str:
        """Return in one sentence why a job waits; nothing when it does not."""
        if record.state is not JobState.QUEUED:
            return ""
        reasons = self.waits_outside(record)
        if reasons:
            return reasons[0].text
        wait = (
            self.engine.last_plan.waits.get(self.cluster.request(record)) if self.engine.last_plan else None
        )
        if wait is None or not wait.reasons:
            return "waits for the next scheduling pass"
        return wait.reasons[0].text

    def waits_outside(self, record: JobRecord) -> list[Reason]:
        """Return why a queued job is not even considered: it is held, or its parents have not finished."""
        found: list[Reason] = []
        if record.id in self.cluster.held:
            until = datetime.fromtimestamp(self.cluster.held[record.id], UTC).astimezone()
            found.append(Reason(Why.HOLD, f"it is held until {until.isoformat(timespec='seconds')}"))
        for parent in record.waits_for:
            ended = self.lookups.archived(parent)
            how = f", which is {ended.state.value}" if ended is not None else " to finish"
            found.append(Reason(Why.DEPENDENCY, f"it waits for job {parent}{how}", str(parent)))
        return found
