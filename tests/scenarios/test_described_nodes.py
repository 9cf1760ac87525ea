"""A cluster in a word or in a file: every node is what was written, and what is wrong is named."""

from pathlib import Path

import pytest

from headnode.apps.simulate.machine import MAX_NODES, MAX_PROCESSORS, machine_of, pool, read_nodes
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeFacts


def short(nodes: tuple[NodeFacts, ...]) -> list[tuple[str, int, int]]:
    return [(node.name, node.processors, node.memory) for node in nodes]


def test_counted_nodes_are_numbered_on_with_as_many_digits_as_the_last_needs() -> None:
    assert short(read_nodes("8x1, 2x16:64000")) == [
        *((f"node{number:02}", 1, 0) for number in range(1, 9)),
        ("node09", 16, 64000),
        ("node10", 16, 64000),
    ]


def test_nodes_have_the_names_in_brackets() -> None:
    assert sorted(short(read_nodes("big[01-03,7]x64:512000,login-x1x2,1x4"))) == [
        ("big01", 64, 512000),
        ("big02", 64, 512000),
        ("big03", 64, 512000),
        ("big7", 64, 512000),
        ("login-x1", 2, 0),
        ("node1", 4, 0),
    ]


def test_a_file_can_say_everything_a_node_can_be(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        """
[[nodes]]
count = 2
processors = 16

[[nodes]]
names = ["big[1-2]", "old"]
processors = 64
sockets = 2
cores_per_socket = 16
threads_per_core = 2
memory = 512000
speed = 2400
groups = ["large"]
features = ["gpu"]
"""
    )
    nodes = read_nodes(str(file))
    assert [node.name for node in nodes] == ["node1", "node2", "big1", "big2", "old"]
    assert nodes[0] == NodeFacts(name="node1", processors=16)
    assert nodes[4] == NodeFacts(
        name="old",
        processors=64,
        sockets=2,
        memory=512000,
        speed=2400,
        groups=("large",),
        features=("gpu",),
        cores_per_socket=16,
        threads_per_core=2,
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' is not a description of nodes; write 100x16"),
        ("128", "'128' is not a description of nodes; write 100x16"),
        ("4x4,8y8", "'8y8' is not a description of nodes"),
        ("4x4:64GB", "'4x4:64GB' is not a description of nodes"),
        ("0x4", "'0x4' describes 0 nodes; write a count from 1"),
        ("100001x4", "describes 100001 nodes; write a count from 1 to 100000"),
        ("4x0", "'4x0' describes nodes of 0 processors"),
        ("n[1-3x4", "'n[1-3x4': 'n[1-3' has a stray '['; write names such as node"),
        ("n[3-1]x4", "'n[3-1]x4': range '3-1' in 'n[3-1]' is empty or too long"),
        ("n[a-b]x4", "'n[a-b]x4': 'a-b' in 'n[a-b]' is not a number or range"),
        ("n[1-1000]-[1-1000]x4", "names more than 100000 nodes"),
        ("n[1-99999999999999999999999]x4", "is not a number or range"),
        ("@allx4", "'@all' in '@allx4' is not a name of nodes"),
        ("a&bx4", "'a&b' in 'a&bx4' is not a name of nodes"),
        ("n[1-2]x4,N2x4", "describes node 'N2', which was already described; name each node once"),
        ("node1x4,1x4", "describes node 'node1', which was already described"),
        ("none.toml", "file 'none.toml' cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_word_is_named(text: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_nodes(text)
    assert complaint in str(refused.value).replace(" [nodes]", "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nodes = 3", "has no nodes; write tables [[nodes]]"),
        ("", "has no nodes; write tables [[nodes]]"),
        ("[[node]]\nprocessors = 1", "has 'node'; write tables [[nodes]], and nothing else"),
        ("[[nodes]\n", "is not TOML: "),
        ("[[nodes]]\ncount = 1\nprocesors = 1", "has 'procesors'; did you mean 'processors'?"),
        ("[[nodes]]\ncount = 1\ncolour = 1", "has 'colour'; there are processors, count"),
        ("[[nodes]]\ncount = 1", "missing required field `processors`"),
        ("[[nodes]]\ncount = 'x'\nprocessors = 1", "Expected `int | null`, got `str` - at `count`"),
        ("[[nodes]]\nprocessors = 1", "describes None nodes; write a count from 1 to 100000, or names"),
        ("[[nodes]]\nprocessors = 1\ncount = 1\nnames = 'a'", "has both a count and names"),
        ("[[nodes]]\nprocessors = 1\nnames = []", "names 0 nodes"),
        ("[[nodes]]\nprocessors = 6\ncount = 1\nsockets = 2\ncores_per_socket = 4", "2 sockets of 4 cores"),
        ("[[nodes]]\nprocessors = 6\ncount = 1\nthreads_per_core = -1", "-1 threads"),
        ("[[nodes]]\nprocessors = 1\nnames = 'a'\nmemory = -1", "-1 MB of memory"),
        ("[[nodes]]\nprocessors = 1\nnames = 'a'\n[[nodes]]\nprocessors = 0\ncount=1", "table 2 of "),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(BadRequest) as refused:
        read_nodes(str(file))
    assert complaint in str(refused.value).replace(" [nodes]", "")


def test_a_machine_larger_than_a_head_can_hold_is_refused() -> None:
    node = NodeFacts(name="n", processors=1)
    assert machine_of((node,) * MAX_NODES).processors == MAX_NODES
    for build in (lambda: machine_of((node,) * (MAX_NODES + 1)), lambda: pool(MAX_PROCESSORS + 1)):
        with pytest.raises(BadRequest, match="is too large"):
            build()
