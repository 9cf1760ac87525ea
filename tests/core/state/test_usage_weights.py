"""What usage counts: the weights of processors, memory and GPUs by kind, at the time of use."""

from math import exp2, log
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from test_histories import OnGpus
from worlds import ADA, BOB, ROOT, World

from depth import seeds
from headnode.core.model.bounds import USAGE_WEIGHT, WEIGHTED_GPU_KINDS
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.usage_weights import UNIT, UsageWeights, read_usage_weights
from headnode.core.state.join import RegisterNode, SetNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.owner_usage import OwnerUsage, UsageAccount
from headnode.core.state.suspend import SuspendJob
from headnode.engine.settings import check_parameter

WEEK = 7 * 86_400.0
TASK = TaskSpec(command="x", rerunnable=True)
NODE = NodeFacts(name="a", processors=8, gpus=4, memory=65_536, features=("A100", "fast"))


def world_with(weights: str | None, *nodes: NodeFacts) -> World:
    world = World()
    for facts in nodes or (NODE,):
        world.do(RegisterNode(facts=facts, approved=True))
    if weights is not None:
        set_weights(world, weights)
    return world


def set_weights(world: World, weights: str | None) -> None:
    world.do(SetParameter(by=ROOT, name="UsageWeights", value=weights))


def submit(world: World, size: int, **options: Any) -> JobId:
    return world.submit(
        replace(TASK, minimum=size, maximum=size), by=ADA, minimum=size, maximum=size, **options
    )


def weighted(world: World) -> float:
    return world.cluster.usage.weighted(world.clock.now())["ada", ""]


def integral(rate: float, seconds: float) -> float:
    """Return what using so much for so long comes to at its end."""
    return rate * WEEK / log(2) * (1 - exp2(-seconds / WEEK))


GPUS = {"unit": UnitType.GPU, "processors_per_gpu": 2}


@pytest.mark.parametrize(
    ("weights", "options", "rate"),
    [
        (None, GPUS, 6),
        ("gpus=10", GPUS, 36),
        ("gpus=10", {}, 3),
        ("processors=0.5,gpus=10,gpus:a100=1.25", GPUS, 3 + 3 * 1.25),
        ("gpus=10,gpus:v100=4", GPUS, 36),
        ("gpus:a100=4,gpus:fast=5", GPUS, 6 + 15),
        ("memory-gb=0.25", {"process_memory": 2048}, 3 + 1.5),
        ("memory-gb=0.25", {}, 3),
        ("memory-gb=0.25", {"process_memory": 2048, "exclusive": True}, 8 + 16),
        ("processors=0,gpus:a100=2", {"exclusive": True}, 8),
        ("processors=0,gpus:a100=2", {**GPUS, "exclusive": True}, 8),
        ("processors=0,memory-gb=1", {}, 0),
    ],
)
def test_a_job_uses_the_sum_of_what_it_holds_each_with_its_weight(
    weights: str | None, options: dict[str, Any], rate: float
) -> None:
    world = world_with(weights)
    job = submit(world, 3, **options)
    world.wait(100)
    assert weighted(world) == pytest.approx(integral(rate, 100))
    world.engine.snapshot_if_due(1)
    world.check_replay()
    world.end(job, 1)
    world.wait(WEEK)
    assert weighted(world) == pytest.approx(integral(rate, 100) / 2)
    world.check_replay()


def test_a_job_that_takes_a_whole_node_by_its_unit_uses_its_memory_and_gpus() -> None:
    world = world_with("memory-gb=0.25,gpus=10")
    submit(world, 1, unit=UnitType.NODE)
    world.wait(100)
    assert weighted(world) == pytest.approx(integral(8 + 16 + 40, 100))


def test_new_weights_count_from_the_time_when_they_are_set_also_for_running_jobs() -> None:
    world = world_with(None)
    submit(world, 3, **GPUS)
    world.wait(100)
    set_weights(world, "gpus=10")
    assert weighted(world) == pytest.approx(integral(6, 100))
    world.wait(100)
    world.engine.snapshot_if_due(1)
    set_weights(world, None)
    world.check_replay()
    world.wait(100)
    assert weighted(world) == pytest.approx(300 * 6 + 100 * 30, rel=1e-3)
    assert world.cluster.usage.used(world.clock.now())["ada", ""] == pytest.approx(integral(6, 300))
    world.check_replay()


def test_a_node_that_gets_another_feature_or_memory_counts_so_from_then_on() -> None:
    world = world_with("processors=0,gpus=1,gpus:h100=3,memory-gb=1", replace(NODE, features=(), memory=1024))
    submit(world, 3, exclusive=True)
    world.wait(100)
    assert weighted(world) == pytest.approx(integral(4 + 1, 100))
    world.do(SetNode(by=ROOT, node="a", features=("H100",)))
    world.wait(100)
    assert weighted(world) == pytest.approx(100 * 5 + 100 * 13, rel=1e-3)
    world.engine.snapshot_if_due(1)
    world.do(RegisterNode(facts=replace(NODE, features=(), memory=2048), approved=True))
    world.wait(100)
    assert weighted(world) == pytest.approx(100 * 5 + 100 * 13 + 100 * 14, rel=1e-3)
    world.check_replay()


def test_a_suspended_job_uses_nothing_whatever_has_a_weight() -> None:
    world = world_with("gpus=10,memory-gb=1")
    job = submit(world, 3, suspendable=True, process_memory=1024, **GPUS)
    world.wait(100)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    before = weighted(world)
    world.wait(100)
    assert weighted(world) < before == pytest.approx(integral(42, 100))


def test_usage_of_an_older_version_counts_its_processors() -> None:
    kept = msgspec.convert({"owner": "ada", "project": "", "used": 50.0, "at": 10.0}, UsageAccount)
    usage = OwnerUsage([kept], {"UsageWeights": "gpus=10"}, {})
    assert usage.weighted(Instant(10.0)) == {("ada", ""): 50.0}
    assert usage.accounts() == [replace(kept, weighted=50.0)]


def test_without_weights_the_sum_is_exactly_the_processors() -> None:
    world = World(4, 2)
    for seconds in (7, 13.3, 1e-3, 86_400):
        world.submit(TASK, by=ADA)
        world.submit(TASK, by=BOB, project="mesh")
        world.wait(seconds)
        now = world.clock.now()
        assert world.cluster.usage.weighted(now) == world.cluster.usage.used(now) != {}


class WithWeights(OnGpus):
    """Weights and limits of GPU-minutes are set at random, and nodes get other features."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        set_weights(self.world, "processors=0.7,gpus=0.5")

    def step(self) -> None:
        r = self.random
        if r.random() < 0.08:
            weights = (
                "processors=0.7,gpus=0.1,memory-gb=0.3",
                "processors=0.000001,gpus:k=7",
                "gpus:k=3,gpus:m=2.5",
                None,
            )
            set_weights(self.world, r.choice(weights))
        if r.random() < 0.04:
            limits = r.choice(("*:gpu-minutes=9", "ada:gpu-minutes-running=5,gpus=2", None))
            self.world.do(SetParameter(by=ROOT, name="UserLimits", value=limits))
        if r.random() < 0.2:
            self.world.wait(r.randint(1, 40))
        nodes = sorted(self.world.cluster.nodes)
        if nodes and r.random() < 0.08:
            features = r.choice(((), ("K",), ("k", "M")))
            self.world.do(SetNode(by=ROOT, node=r.choice(nodes), features=features))
        super().step()


def test_nothing_that_happens_makes_a_restart_count_otherwise() -> None:
    """Also a restart from a snapshot of any moment: `check_replay` compares all accounts, to the last bit."""
    used, histories = 0, list(seeds(20))
    for seed in histories:
        player = WithWeights(seed)
        for step in range(160):
            player.step()
            if step % 40 == 0:
                player.world.engine.snapshot_if_due(1)
        player.world.check_replay()
        usage, now = player.world.cluster.usage, player.world.clock.now()
        used += usage.weighted(now) != usage.used(now)
        assert all(amount >= 0 for amount in usage.weighted(now).values())
    assert used > len(histories) // 2


def test_words_and_numbers_of_weights() -> None:
    found = read_usage_weights(" processors = 0.5 , memory-gb=0.25,GPUs=2, gpus:A100=4.000001 ")
    assert found == UsageWeights(UNIT // 2, UNIT // 4, 2 * UNIT, {"a100": 4 * UNIT + 1})
    assert read_usage_weights("gpus=1") == UsageWeights(gpus=UNIT)
    assert read_usage_weights("gpus=1000000").gpus == USAGE_WEIGHT.most * UNIT


@pytest.mark.parametrize(
    "text",
    [
        "cpu=1",
        "gpus=-1",
        "gpus=1e3",
        "gpus=inf",
        "gpus=nan",
        "gpus=1_0",
        "gpus=0x1",
        "gpus=٣",
        "gpus=1000000.000001",
        "gpus=9999999",
        "gpus=0.0000001",
        "gpus=.5",
        "gpus",
        "gpus=",
        "gpus=1,gpus=2",
        "gpus:a=1,gpus:A=2",
        "gpus:=1",
        f"gpus:{'x' * 257}=1",
        "gpus:\x07=1",
        "processors=0",
        "processors=0,gpus=0",
        ",".join(f"gpus:k{n}=1" for n in range(WEIGHTED_GPU_KINDS.most + 1)),
    ],
)
def test_absurd_weights_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(BadRequest) as no:
        check_parameter("UsageWeights", text)
    assert no.value.code == "parameter-value"
    assert no.value.fix == "write processors=1,memory-gb=0.25,gpus=2,gpus:a100=4"
    assert len(no.value.what) < 300
