"""What a reservation would have done to past jobs: the whole head keeps it, whatever comes and ends when."""

import json
from pathlib import Path

import pytest
from cli_scripted_head import hn
from test_engine_replay import SIZE, worlds

from headnode.apps.simulate.engine_replay import EngineReplay, last_allocations
from headnode.apps.simulate.machine import SimulatedMachine, pool, read_reservations
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.core.model.reservation import NodeReservation
from headnode.core.scheduling.policies import POLICIES

BEGINS, ENDS = 20.0, 50.0
MACHINE = SimulatedMachine((NodeFacts(name="n1", processors=2), NodeFacts(name="n2", processors=2)))


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_nobody_runs_while_the_machine_is_reserved_and_everybody_before_or_after_it(policy: str) -> None:
    kept = NodeReservation(name="off", start=Instant(BEGINS), end=Instant(ENDS), nodes=("pool",))
    before = after = 0
    for workload in worlds(25, 40):
        machine = pool(SIZE)._replace(reservations=(kept,))
        starts = EngineReplay(workload, machine, policy).run()
        first = workload.submits[0]
        for start, estimate in zip(starts, workload.estimates, strict=True):
            over = start + estimate <= first + BEGINS
            assert over or start >= first + ENDS
            before, after = before + over, after + (not over)
    assert min(before, after) > 50


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_only_jobs_on_reserved_nodes_keep_out_of_the_time(policy: str) -> None:
    kept = read_reservations(("N2@1+1",), MACHINE)
    assert [(each.start, each.end, each.nodes) for each in kept] == [(60, 120, ("n2",))]
    beside = 0
    for workload in worlds(25, 40):
        small = workload._replace(processors=[1 + count % 2 for count in workload.processors])
        replayed = EngineReplay(small, MACHINE._replace(reservations=kept), policy)
        starts = replayed.run()
        allocations = last_allocations(replayed.journal, len(starts))
        for row, start in enumerate(starts):
            if start < small.submits[0] + 120 and start + small.estimates[row] > small.submits[0] + 60:
                assert [node for node, _ in allocations[row]] == ["n1"]
                beside += 1
    assert beside > 20


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("n1", "reservation"),
        ("n1@5+0", "reservation"),
        ("n9@5+5", "reservation"),
        ("n1@1:2:3:4+5", "run-time"),
    ],
)
def test_a_reservation_that_is_none_is_refused_and_shows_how_one_is_written(text: str, code: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_reservations((text,), MACHINE)
    assert refused.value.code == code


def test_the_command_line_shows_what_maintenance_costs(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    rows = [f"{number} {number * 60} 0 600 1 -1 -1 1 600 -1 1 1 1 1 1 -1 -1 -1" for number in range(1, 9)]
    log.write_text("\n".join(rows) + "\n")
    words = ("simulate", str(log), "--nodes", "n[1-2]x1", "--json")
    plain = json.loads(hn(*words, state=tmp_path).stdout)
    kept = json.loads(hn(*words, "--reservation", "n[1-2]@15+2:00", state=tmp_path).stdout)
    assert kept["mean_wait"] > plain["mean_wait"] + 3600
    refused = hn("simulate", str(log), "--processors", "2", "--reservation", "n1@15+5", state=tmp_path)
    assert (refused.returncode, "no nodes to reserve" in refused.stderr) == (2, True)
