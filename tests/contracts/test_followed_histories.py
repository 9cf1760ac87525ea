"""Whatever becomes of a standby on the way, in the end it has every row of its head, and the same state."""

import random
import signal
from pathlib import Path

import pytest
from test_histories import Player, Preempting

from depth import seeds
from headnode.adapters.standby import sender
from headnode.engine.recovery import recover, save
from replica_histories import History, closed_at_the_end, rows
from standbys import Leader, Standby

__all__ = ["closed_at_the_end"]
STEPS = 300


@pytest.mark.parametrize("player", [Player, Preempting])
@pytest.mark.parametrize("seed", seeds(4))
def test_a_standby_that_is_killed_and_stopped_again_and_again_has_every_row_in_the_end(
    tmp_path: Path, seed: int, player: type[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("BETWEEN_DIALS", 0.05),
        ("BETWEEN_PINGS", 0.05),
        ("MAX_EVENTS", 7),
        ("FARTHEST", 100),
    ):
        monkeypatch.setattr(sender, name, value)
    dice, made = random.Random(seed), player(seed)
    history = History(tmp_path / "source.db", made.world)
    leader, standby = Leader(tmp_path / "head", 0.1, history), Standby(tmp_path / "standby")
    try:
        standby.settle(leader)
        standby.start()
        leader.follow(standby)
        for _ in range(STEPS):
            made.step()
            chance = dice.random()
            if chance < 0.02:
                standby.stop(signal.SIGKILL)
                standby.start()
            elif chance < 0.06:
                standby.send(dice.choice((signal.SIGSTOP, signal.SIGCONT)))
            elif chance < 0.1:
                leader.engine.snapshot_if_due(at_least=1)
        standby.send(signal.SIGCONT)
        leader.until_in_step(standby)
        assert standby.log().count("Traceback") == 0
        standby.stop(signal.SIGTERM)
        store = standby.on_disk(tmp_path / "seen")
        try:
            assert save(recover(store)[0]) == save(leader.engine.cluster)
            assert rows(store, tmp_path / "all") == rows(leader.store, tmp_path / "all")
        finally:
            store.close()
    finally:
        for each in leader.senders.values():
            each.stop()
            each.join()
        standby.stop()
