"""Who may become a node, and for whom a node may speak."""

import pytest
from msgspec.structs import replace
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, Refused
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec
from headnode.core.state import job_events as e
from headnode.core.state.command import Command
from headnode.core.state.join import AdmitNode, InviteNode, RegisterNode, SetNode
from headnode.core.state.nodes import ChangeNode
from headnode.core.state.report import ReportEnded, ReportStarted
from headnode.core.state.transitions import JobState

FACTS = NodeFacts(name="far", processors=4)


def invite(world: World, digest: str = "d", lifetime: float = 60.0, **wish: object) -> None:
    expires = Instant(world.clock.now() + lifetime)
    world.do(InviteNode(by=ROOT, digest=digest, expires=expires, **wish))


def admit(world: World, digest: str = "d", name: str = "far", key: str = "k") -> None:
    world.do(AdmitNode(digest=digest, facts=replace(FACTS, name=name), key=key))


def here(world: World, name: str = "far", key: str = "k") -> None:
    world.do(RegisterNode(facts=replace(FACTS, name=name), key=key))


def test_an_invited_node_is_pending_until_it_is_approved() -> None:
    world = World()
    invite(world)
    admit(world)
    here(world)
    assert world.cluster.node("far").state is NodeState.PENDING
    world.do(ChangeNode(by=ROOT, node="far", action="approve"))
    assert world.cluster.node("far").state is NodeState.READY
    world.check_replay()


def test_a_node_that_joined_takes_jobs_only_once_its_agent_is_here() -> None:
    world = World()
    invite(world, approve=True)
    admit(world)
    assert world.cluster.node("far").state is NodeState.UNREACHABLE
    here(world)
    assert world.cluster.node("far").state is NodeState.READY
    world.check_replay()


def test_only_administrators_invite_and_describe() -> None:
    world = World(2)
    with pytest.raises(NotAllowed):
        world.do(InviteNode(by=ADA, digest="d", expires=Instant(world.clock.now() + 1)))
    with pytest.raises(NotAllowed):
        world.do(SetNode(by=ADA, node="node1", comment="mine"))


@pytest.mark.parametrize("lifetime", [0.0, -1.0, 31 * 86400.0])
def test_an_invitation_lives_for_a_sensible_time(lifetime: float) -> None:
    with pytest.raises(BadRequest, match="lifetime"):
        invite(World(), lifetime=lifetime)


def test_an_invitation_is_used_up_expires_and_is_for_whom_it_names() -> None:
    world = World()
    invite(world)
    admit(world)
    with pytest.raises(NotAllowed, match="used already"):
        admit(world, name="other", key="o")
    invite(world, "late", lifetime=10.0)
    world.wait(10.0)
    with pytest.raises(NotAllowed, match="expired"):
        admit(world, "late", name="other", key="o")
    invite(world, "named", node="wanted")
    with pytest.raises(NotAllowed, match="'wanted'"):
        admit(world, "named", name="other", key="o")
    admit(world, "named", name="wanted", key="w")
    world.check_replay()


def test_an_invitation_for_several_nodes_admits_each_of_them_once_and_no_other() -> None:
    world = World()
    invite(world, approve=True, nodes=("n1", "n2", "n1"))
    with pytest.raises(NotAllowed, match="not for node 'n3'"):
        admit(world, name="n3", key="c")
    admit(world, name="n1", key="a")
    with pytest.raises(NotAllowed, match="has joined with it"):
        admit(world, name="n1", key="thief")
    admit(world, name="n1", key="a")  # it lost the answer
    admit(world, name="n2", key="b")
    assert world.cluster.invitations == {}
    admit(world, name="n1", key="a")
    with pytest.raises(NotAllowed, match="used already"):
        admit(world, name="n3", key="c")
    assert {name: node.key for name, node in world.cluster.nodes.items()} == {"n1": "a", "n2": "b"}
    world.check_replay()


def test_an_invitation_for_several_names_replaces_nodes_of_these_names_only() -> None:
    world = World()
    for name in ("n1", "n3"):
        invite(world, f"first {name}", node=name)
        admit(world, f"first {name}", name=name, key="old")
    invite(world, "again", nodes=("n1", "n2"))
    admit(world, "again", name="n1", key="new")
    assert world.cluster.node("n1").key == "new"
    with pytest.raises(NotAllowed):
        admit(world, "again", name="n3", key="new")
    assert world.cluster.node("n3").key == "old"
    world.check_replay()


@pytest.mark.parametrize("paused", [True, False])
def test_a_node_that_is_connected_is_not_replaced_by_the_invitation_that_all_nodes_have(paused: bool) -> None:
    world = World()
    invite(world, "first", approve=True)
    admit(world, "first", name="n1", key="old")
    here(world, "n1", key="old")
    if paused:
        world.do(ChangeNode(by=ROOT, node="n1", action="pause"))
    invite(world, "several", nodes=("n1", "n2"))
    with pytest.raises(NotAllowed, match="hn node invite --for n1"):
        admit(world, "several", name="n1", key="thief")
    admit(world, "several", name="n1", key="old")
    invite(world, "for it alone", node="n1")
    admit(world, "for it alone", name="n1", key="new")
    assert world.cluster.node("n1").key == "new"
    world.check_replay()


def test_names_of_an_invitation_count_among_those_that_are_open() -> None:
    world = World()
    invite(world, "some", nodes=tuple(f"n{number}" for number in range(9_999)))
    invite(world, "one")
    with pytest.raises(BadRequest, match="at most 10000"):
        invite(world, "another")
    with pytest.raises(BadRequest, match="cannot be the name"):
        invite(World(), nodes=("n1", "a b"))


@pytest.mark.parametrize("approve", [True, False])
def test_a_node_that_lost_the_answer_joins_again_with_its_key_and_nobody_else_does(approve: bool) -> None:
    world = World()
    invite(world, approve=approve)
    admit(world)
    before = world.cluster.node("far").state
    admit(world)
    assert world.cluster.node("far").state is before
    with pytest.raises(NotAllowed, match="used already"):
        admit(world, key="another")
    world.do(ChangeNode(by=ROOT, node="far", action="remove"))
    with pytest.raises(NotAllowed, match="used already"):
        admit(world)
    world.check_replay()


def test_expired_invitations_are_forgotten_when_the_next_is_made() -> None:
    world = World()
    invite(world, "old", lifetime=10.0)
    world.wait(20.0)
    invite(world, "new")
    assert set(world.cluster.invitations) == {"new"}


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "\u0430"])
def test_a_name_that_is_none_is_refused_and_the_invitation_stays_good(name: str) -> None:
    world = World()
    invite(world)
    with pytest.raises(BadRequest, match="name"):
        admit(world, name=name)
    admit(world)


def test_a_name_is_taken_over_only_by_an_invitation_that_names_it() -> None:
    world = World(2)
    invite(world)
    admit(world)
    for number, name in enumerate(("far", "node1")):
        invite(world, f"any{number}", approve=True)
        with pytest.raises(NotAllowed, match="another key"):
            admit(world, f"any{number}", name=name, key="x")
    invite(world, "named", node="far")
    admit(world, "named", key="new")
    here(world, key="new")
    with pytest.raises(NotAllowed, match="is not known with this key"):
        here(world, key="k")


def test_a_node_that_was_removed_must_join_again() -> None:
    world = World()
    invite(world, approve=True)
    admit(world)
    here(world)
    world.do(ChangeNode(by=ROOT, node="far", action="remove"))
    with pytest.raises(NotAllowed, match="join again"):
        here(world)
    with pytest.raises(NotFound):
        world.cluster.node("far")


def test_what_was_set_stays_when_the_machine_says_something_else() -> None:
    world = World()
    invite(world, approve=True)
    admit(world)
    world.do(SetNode(by=ROOT, node="far", groups=("blue",), features=("gpu",), comment="old"))
    assert world.do(SetNode(by=ROOT, node="far", comment="old")) == ()
    world.do(RegisterNode(facts=replace(FACTS, processors=8, groups=("red",)), key="k"))
    found = world.cluster.node("far")
    assert (found.facts.processors, found.facts.groups, found.facts.features) == (8, ("blue",), ("gpu",))
    world.check_replay()


@pytest.mark.parametrize("kind", ["started", "ended"])
def test_a_node_cannot_speak_of_what_another_runs(kind: str) -> None:
    world = World(1, 1)
    job = world.submit(TaskSpec(command="true"))
    (held,) = world.nodes.running()
    other = "node2" if held.place[0][0] == "node1" else "node1"
    truth = world.nodes.ended(held, world.clock.now(), kind="exited", exit_code=0)
    assert isinstance(truth, ReportEnded)
    begun = e.InstanceStart(
        task=held.task, instance=held.instance, attempt=held.attempt, at=world.clock.now()
    )
    found: dict[str, Command] = {
        "ended": replace(truth, node=other),
        "started": ReportStarted(node=other, job=job, starts=(begun,)),
    }
    assert world.do(found[kind]) == ()
    run = world.record(job).run
    assert run is not None
    assert run.tasks[0].live[1].started is None
    world.do(truth)
    assert world.record(job).state is JobState.FINISHED


def test_every_refusal_says_what_to_do() -> None:
    world = World()
    for command in (
        AdmitNode(digest="none", facts=FACTS, key="k"),
        AdmitNode(digest="none", facts=replace(FACTS, name="?"), key="k"),
        RegisterNode(facts=FACTS, key="k"),
    ):
        with pytest.raises(Refused) as refusal:
            world.do(command)
        assert refusal.value.fix
