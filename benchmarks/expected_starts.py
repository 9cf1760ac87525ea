"""How often the head's own predicted starts hold: `PYTHONPATH=tests python benchmarks/expected_starts.py`.

The first jobs of SDSC-SP2 go through the whole head (EASY, one pool), and whenever a job has to wait the head
looks ahead, as it does in production.  The predictions of the first 30 days only teach.  P90 should hold for
85 to 95 %, and P50 be off by at most half of what the plan from users' limits is.  The trace is read from
../shared/traces; without it a log is made up, to which no limit is held.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headnode.adapters.files.job_logs import read_log
from headnode.apps.server.command_batcher import EffectsInOrder
from headnode.apps.server.predicted_starts import prediction_scores
from headnode.apps.simulate.engine_replay import EngineReplay
from headnode.apps.simulate.machine import pool
from headnode.core.model.quantities import Instant
from headnode.core.model.workload import Workload
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.command import Command
from headnode.core.state.submit import CreateJob
from headnode.engine.prediction import StartPredictor, look_ahead
from journal_model import ModelJournal
from trace_replay import TRACES, made_up

SDSC = TRACES / "SDSC-SP2.swf.xz"
JOBS = 5_000
TEACHING = 30 * 86_400.0  # seconds
P90_HOLDS = (0.85, 0.95)


def main() -> int:
    """Print how often predictions held; fail when a limit is missed."""
    with tempfile.TemporaryDirectory() as directory:
        log = read_log(str(SDSC if SDSC.exists() else made_up(Path(directory))), whose=True)
    workload = Workload._make(column[:JOBS] for column in log.workload)
    began = time.perf_counter()
    replay = Foretold(workload, log.processors)
    replay.run()
    spent = time.perf_counter() - began
    since = Instant(workload.submits[0] + TEACHING)
    judged = [each for each in replay.archive.judged_predictions(since, JOBS) if each.made >= since]
    scores = msgspec.to_builtins(prediction_scores(judged))
    print(f"{JOBS} jobs, {replay.looks} looks ahead, {1000 * spent / max(1, replay.looks):.0f} ms for each")
    for name, score in {"all that waited": scores["all"], **scores["by_predicted_wait"]}.items():
        if score["jobs"]:
            print(
                f"{name:>16}: {score['jobs']:5} jobs, P50 held {score['p50_held']:.1%}, off by "
                f"{score['p50_error']:.0f} s; P90 held {score['p90_held']:.1%}; limits off by "
                f"{score['promise_error']:.0f} s"
            )
    return int(SDSC.exists() and not _is_good(scores["all"]))


def _is_good(score: dict[str, float]) -> bool:
    least, most = P90_HOLDS
    return least <= score["p90_held"] <= most and 2 * score["p50_error"] <= score["promise_error"]


class Foretold(EngineReplay):
    """A replay in which the head looks ahead at each arrival that leaves jobs waiting."""

    def __init__(self, workload: Workload, processors: int) -> None:
        super().__init__(workload, pool(processors), "easy")
        self.looks = 0
        self.archive = self.engine.journal = ModelJournal()
        self.archive.append([event for _, event in self.journal.replay()])
        self._foreseer = StartPredictor(self.engine.cluster, self.archive)
        self.engine.effects = EffectsInOrder(self.engine.effects, self._foreseer)

    def _do(self, commands: Sequence[Command]) -> None:
        super()._do(commands)
        engine = self.engine
        if engine.cluster.queue.by_request and any(isinstance(command, CreateJob) for command in commands):
            self.looks += 1
            view = engine.view(engine.clock.now())
            situation = self._foreseer.situation(engine.cluster, view, engine.last_plan, "easy")
            outlook = look_ahead(situation, POLICIES["easy"], lambda: False)
            self._foreseer.accept(situation, outlook, engine.cluster)


if __name__ == "__main__":
    raise SystemExit(main())
