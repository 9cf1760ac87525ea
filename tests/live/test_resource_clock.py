"""A clock that is set changes no patience of hand-off."""

import time

import pytest

from headnode.adapters.batch.resource_worker import ResourceWorker
from headnode.adapters.batch.staging_processes import TransferQueue
from headnode.apps.handoff import DIALECTS
from headnode.core.batch.dialect import AttemptPlace
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem

KEY = AttemptPlace(1, 1, 1, 1)


def test_a_worker_moves_its_table_with_a_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = BatchResource(name="r", system=ResourceSystem.SLURM, mark="00000000")
    worker = ResourceWorker(resource, DIALECTS[resource.system], lambda *_: None, TransferQueue())
    worker.end()
    worker._thread.join()  # now the table is ours
    worker._table.add(KEY, "mark", "ada", job="", may_be_there=True, now=worker._now())
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 86_400)
    assert -1 < worker._now() - worker._table.attempts[KEY].since < 3600
