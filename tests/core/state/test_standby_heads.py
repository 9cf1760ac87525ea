"""Who may become a standby head, and how often one became the head."""

import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.core.state.join import (
    MAX_STANDBYS,
    AdmitNode,
    AdmitStandby,
    InviteNode,
    RemoveStandby,
    TakeOver,
)
from headnode.engine.engine import Engine
from headnode.engine.recovery import save


def invite(world: World, digest: str = "d", lifetime: float = 60.0, **wish: object) -> None:
    expires = Instant(world.clock.now() + lifetime)
    world.do(InviteNode(by=ROOT, digest=digest, expires=expires, **wish))


def admit(world: World, digest: str = "d", name: str = "spare", address: str = "") -> None:
    world.do(AdmitStandby(digest=digest, name=name, address=address or f"{name}.example:6814"))


def standby(world: World, name: str = "spare", address: str = "") -> None:
    invite(world, f"for {name}", standby=True)
    admit(world, f"for {name}", name, address)


def names(world: World) -> set[str]:
    return set(world.cluster.standbys)


def test_an_invitation_of_a_node_admits_no_standby_which_would_get_the_keys_of_the_cluster() -> None:
    world = World()
    invite(world, approve=True)
    with pytest.raises(NotAllowed, match="for a node"):
        admit(world)
    assert names(world) == set()
    world.do(AdmitNode(digest="d", facts=NodeFacts(name="far", processors=1), key="k"))  # it is not used up
    world.check_replay()


def test_an_invitation_of_a_standby_admits_no_node() -> None:
    world = World()
    invite(world, standby=True)
    with pytest.raises(NotAllowed, match="for a standby head"):
        world.do(AdmitNode(digest="d", facts=NodeFacts(name="far", processors=1), key="k"))
    assert "far" not in world.cluster.nodes
    admit(world)
    assert names(world) == {"spare"}
    world.check_replay()


def test_an_invitation_of_a_standby_is_used_up_and_expires() -> None:
    world = World()
    standby(world)
    with pytest.raises(NotAllowed, match="used already"):
        admit(world, "for spare", name="other")
    invite(world, "late", lifetime=10.0, standby=True)
    world.wait(10.0)
    with pytest.raises(NotAllowed, match="expired"):
        admit(world, "late", name="other")
    with pytest.raises(NotAllowed, match="never made"):
        admit(world, "guessed", name="other")
    assert names(world) == {"spare"}


def test_an_invitation_that_names_a_standby_admits_no_other() -> None:
    world = World()
    invite(world, node="wanted", standby=True)
    with pytest.raises(NotAllowed, match="'wanted'"):
        admit(world, name="other")
    admit(world, name="wanted")
    assert names(world) == {"wanted"}


def test_only_administrators_invite_remove_and_take_over() -> None:
    world = World()
    standby(world)
    expires = Instant(world.clock.now() + 60)
    for command in (
        InviteNode(by=ADA, digest="d", expires=expires, standby=True),
        RemoveStandby(by=ADA, name="spare"),
        TakeOver(by=ADA, name="spare", address="b.example:6814"),
    ):
        with pytest.raises(NotAllowed):
            world.do(command)
    assert (names(world), world.cluster.term) == ({"spare"}, 0)


@pytest.mark.parametrize("name", ["", "-x", "two words", "../x", "x" * 65, "\u00e4"])
def test_a_standby_has_a_plain_name(name: str) -> None:
    world = World()
    invite(world, standby=True)
    with pytest.raises(BadRequest, match="cannot be the name"):
        admit(world, name=name)


def test_a_cluster_has_few_standbys_and_one_that_joins_again_is_none_more() -> None:
    world = World()
    for number in range(MAX_STANDBYS):
        standby(world, f"s{number}")
    invite(world, standby=True)
    with pytest.raises(BadRequest, match="standby heads, which is the maximum"):
        admit(world, name="more")
    with pytest.raises(NotAllowed, match="exists already"):
        admit(world, name="s0", address="elsewhere.example:7000")
    admit(world, name="s0")  # the invitation was not used up
    invite(world, "for s0", standby=True, node="s0")
    admit(world, "for s0", name="s0", address="elsewhere.example:7000")
    assert len(names(world)) == MAX_STANDBYS
    assert world.cluster.standbys["s0"].address == "elsewhere.example:7000"
    world.do(RemoveStandby(by=ROOT, name="s1"))
    standby(world, "more")
    assert names(world) == {"s0", "s2", "s3", "more"}
    world.check_replay()


def test_a_standby_is_removed_once() -> None:
    world = World()
    standby(world)
    world.do(RemoveStandby(by=ROOT, name="spare"))
    assert names(world) == set()
    with pytest.raises(NotFound, match="'spare'"):
        world.do(RemoveStandby(by=ROOT, name="spare"))
    world.check_replay()


@pytest.mark.parametrize("forced", [False, True])
def test_each_takeover_counts_and_the_new_head_is_no_standby_any_more(forced: bool) -> None:
    world = World()
    standby(world, "first")
    standby(world, "second")
    for term, name in enumerate(("first", "second", "first"), 1):  # the third comes from a removed one
        world.do(TakeOver(by=ROOT, name=name, address=f"{name}.example:6814", forced=forced))
        assert world.cluster.term == term
        assert name not in names(world)
    world.check_replay()


def test_a_snapshot_keeps_standbys_open_invitations_and_the_term() -> None:
    world = World()
    standby(world, "first")
    standby(world, "second")
    invite(world, "open", standby=True)
    world.do(TakeOver(by=ROOT, name="first", address="first.example:6814"))
    before = save(world.cluster)
    assert world.engine.snapshot_if_due(at_least=1)
    world.engine = Engine(world.journal, world.clock, world.engine.policies, world.nodes)
    assert save(world.cluster) == before
    assert (names(world), world.cluster.term) == ({"second"}, 1)
    with pytest.raises(NotAllowed, match="for a standby head"):
        world.do(AdmitNode(digest="open", facts=NodeFacts(name="far", processors=1), key="k"))
    admit(world, "open", name="third")
    assert names(world) == {"second", "third"}
