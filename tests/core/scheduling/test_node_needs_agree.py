"""Whether a node is what is demanded of it, against the same rules said a second time."""

from itertools import combinations, product

from headnode.core.model.node_needs import NodeNeeds
from headnode.core.scheduling.placement import place
from headnode.testing import gang, part
from headnode.testing.node_needs_again import meets

from .scenes import asks, node

DEMANDS: tuple[dict[str, object], ...] = (
    {"names": ("N1", "n2")},
    {"excluded": ("N2",)},
    {"patterns": ("n[12]", "x.*")},
    {"excluded_patterns": (".*3",)},
    {"features": (("GPU", "tpu"), ("fast",))},
    {"feature_patterns": ("fa.*",)},
    {"lacking": ("slow",)},
    {"architectures": ("riscv64", "ARM64")},
    {"systems": ("Linux",)},
    {"minimum_memory": 8},
    {"minimum_disk": 8},
    {"minimum_swap": 4},
    {"minimum_virtual": 10},
    {"minimum_speed": 2000},
    {"minimum_processors": 2},
    {"minimum_sockets": 2},
    {"minimum_cores_per_socket": 2},
    {"minimum_threads_per_core": 2},
)
NODES = {
    each.facts.name: each
    for each in (
        node(
            "n1",
            2,
            features=("gpu", "Fast"),
            architecture="arm64",
            system="linux",
            memory=8,
            speed=2000,
            sockets=2,
            cores_per_socket=1,
            threads_per_core=1,
        ),
        node("N2", 2, features=("tpu",), groups=("fast",), architecture="riscv64", disk=8, swap=8, memory=4),
        node("n3", 1, groups=("slow", "gpu"), system="LINUX", memory=16, swap=4, speed=1000),
        node(
            "x4",
            4,
            cores_per_socket=2,
            threads_per_core=2,
            features=("fast", "slow"),
            memory=8,
            disk=9,
            swap=4,
            system="bsd",
            speed=3000,
        ),
    )
}


def test_a_node_serves_exactly_those_who_demand_no_more_than_it_has() -> None:
    seen = {True: 0, False: 0}
    for (one, other), name in product(combinations(DEMANDS, 2), NODES):
        needs = NodeNeeds(**one, **other)
        only = {name: NODES[name]}
        fits = meets(needs, NODES[name].facts)
        assert (place(asks(1, needs=needs), only) is not None) == fits, (needs, name)
        assert (place(gang(part(**one, **other)), only) is not None) == fits, (needs, name)
        assert (place(asks(1, parts=(part(**one, **other),)), only) is not None) == fits, (needs, name)
        seen[fits] += 1
    assert min(seen.values()) > 50, seen


def test_other_names_of_an_architecture_are_the_same_architecture() -> None:
    for found, there in (("x86_64", "AMD64"), ("arm64", "aarch64"), ("X64", "x86_64")):
        nodes = {"a": node("a", architecture=there)}
        assert place(asks(1, needs=NodeNeeds(architectures=(found,))), nodes) == (("a", 1),)
    assert place(asks(1, needs=NodeNeeds(architectures=("x86_64",))), {"a": node("a")}) is None
