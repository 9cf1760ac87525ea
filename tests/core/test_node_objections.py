"""What is demanded of nodes is judged by name, by feature and by what the machine is, and said in words."""

import pytest

from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds, meets, needs_objection

NODE = NodeFacts(
    name="Gpu07",
    processors=8,
    memory=1000,
    speed=2000,
    disk=500,
    swap=100,
    groups=("rack1",),
    features=("CUDA", "ib"),
    architecture="x86_64",
    system="Linux",
    sockets=2,
    cores_per_socket=2,
    threads_per_core=2,
)


@pytest.mark.parametrize(
    "needs",
    [
        ANY_NODE,
        NodeNeeds(names=("gpu07", "x"), excluded=("gpu08",), patterns=("gpu[0-9]+",)),
        NodeNeeds(excluded_patterns=("cpu.*",), feature_patterns=("cu.*", "rack[12]")),
        NodeNeeds(features=(("cuda", "rocm"), ("RACK1",)), lacking=("slow",)),
        NodeNeeds(architectures=("AMD64",), systems=("GNU/Linux", "AIX")),
        NodeNeeds(minimum_memory=1000, minimum_disk=500, minimum_swap=100, minimum_virtual=1100),
        NodeNeeds(minimum_speed=2000, minimum_processors=8),
        NodeNeeds(minimum_sockets=2, minimum_cores_per_socket=2, minimum_threads_per_core=2),
    ],
)
def test_a_node_meets_what_it_has(needs: NodeNeeds) -> None:
    assert needs_objection(needs, NODE) == ""
    assert meets(needs, NODE)


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (NodeNeeds(names=("gpu08",)), "is not among the requested nodes"),
        (NodeNeeds(excluded=("GPU07",)), "is excluded"),
        (NodeNeeds(patterns=("gpu", "cpu.*")), "has a name that does not match 'gpu' or 'cpu.*'"),
        (NodeNeeds(excluded_patterns=("gpu.*",)), "has a name that matches 'gpu.*', which is excluded"),
        (NodeNeeds(features=(("cuda",), ("a", "b"))), "has no feature 'a' or 'b'"),
        (NodeNeeds(feature_patterns=("c.",)), "has no feature that matches 'c.'"),
        (NodeNeeds(lacking=("Rack1",)), "has the feature 'Rack1', which is excluded"),
        (NodeNeeds(architectures=("arm64",)), "has the architecture 'x86_64', not 'arm64'"),
        (NodeNeeds(systems=("AIX", "Solaris")), "has the operating system 'Linux', not 'AIX' or 'Solaris'"),
        (NodeNeeds(minimum_memory=1001), "has 1000 MB of memory; at least 1001 are requested"),
        (NodeNeeds(minimum_disk=501), "has 500 MB of disk; at least 501 are requested"),
        (NodeNeeds(minimum_swap=101), "has 100 MB of swap; at least 101 are requested"),
        (
            NodeNeeds(minimum_virtual=1101),
            "has 1100 MB of memory and swap together; at least 1101 are requested",
        ),
        (NodeNeeds(minimum_speed=2001), "has 2000 MHz; at least 2001 are requested"),
        (NodeNeeds(minimum_processors=9), "has 8 processors; at least 9 are requested"),
        (NodeNeeds(minimum_sockets=3), "has 2 sockets; at least 3 are requested"),
        (NodeNeeds(minimum_cores_per_socket=3), "has 2 cores per socket; at least 3 are requested"),
        (NodeNeeds(minimum_threads_per_core=3), "has 2 threads per core; at least 3 are requested"),
    ],
)
def test_a_node_that_does_not_is_told_why(needs: NodeNeeds, why: str) -> None:
    assert needs_objection(needs, NODE) == why
    assert not meets(needs, NODE)


def test_a_node_that_does_not_tell_what_it_is_serves_nobody_who_asks() -> None:
    assert needs_objection(NodeNeeds(systems=("Linux",)), NodeFacts(name="n", processors=1)) == (
        "does not report its operating system"
    )


@pytest.mark.parametrize("what", ["cores per socket", "threads per core"])
def test_a_node_whose_topology_is_not_known_serves_no_job_that_asks_for_more_than_every_node_has(
    what: str,
) -> None:
    field, unknown = f"minimum_{what.replace(' ', '_')}", NodeFacts(name="n", processors=64)
    assert needs_objection(NodeNeeds(**{field: 2}), unknown) == (
        f"does not report its {what}; at least 2 are requested"
    )
    assert meets(NodeNeeds(**{field: 1}), unknown)
