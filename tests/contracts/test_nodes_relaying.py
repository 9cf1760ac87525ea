"""What passes between the nodes of a task by way of the head, and what does not."""

from itertools import product

import pytest
from worlds import World

from headnode.adapters.nodes.streams import Relay, Sessions
from headnode.adapters.wire.agent_messages import (
    Launch,
    LaunchAck,
    LaunchData,
    LaunchesEnded,
    ReportedAttempt,
    Route,
)
from headnode.adapters.wire.messages import FromHead, KillLaunches, Launching
from headnode.core.model.outcome import RemoteUsage
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesEnded

PAIR = TaskSpec(command="x", minimum=2, maximum=2)
NODES = ("node1", "node2", "node3")


class Scene:
    """A task on two of three nodes, and what a relay says to whom."""

    def __init__(self) -> None:
        self.world = World(1, 1, 1)
        self.job = self.world.submit(PAIR, minimum=2, maximum=2)
        run = self.world.record(self.job).run
        assert run is not None
        self.place = run.tasks[0].live[1].placement
        self.first, self.target = (node for node, _ in self.place)
        (self.foreign,) = set(NODES) - {self.first, self.target}
        self.sent: list[tuple[str, FromHead]] = []

        def send(node: str, message: FromHead) -> None:
            self.sent.append((node, message))

        self.relay = Relay(send, Sessions(send))

    def route(self, **changed: object) -> Route:
        own = {"job": self.job, "task": 1, "instance": 1, "attempt": 1, "number": "7"}
        return Route(**{**own, "first": self.first, "target": self.target, **changed})

    def receive(self, node: str, message: Launching) -> list[tuple[str, FromHead]]:
        """Let the relay hear a node; return what it says."""
        self.sent.clear()
        self.relay.pass_on(node, message, self.world.cluster)
        return list(self.sent)

    def end(self) -> None:
        before = self.world.engine.number
        self.world.end(self.job, 1)
        events: list[Event] = [event for _, event in self.world.journal.replay(before)]
        self.sent.clear()
        self.relay.end_what_is_over(events, self.world.cluster)


def launch(route: Route) -> Launch:
    return Launch(route, "hostname", "/", {})


def test_a_launch_reaches_its_target_with_the_place_of_the_task() -> None:
    scene = Scene()
    (found,) = scene.receive(scene.first, launch(scene.route()))
    assert found == (scene.target, Launch(scene.route(), "hostname", "/", {}, placement=scene.place))


def test_pieces_pass_only_between_the_first_node_and_the_target_in_every_small_world() -> None:
    scene = Scene()
    for node, first, target, back in product(NODES, NODES, NODES, (False, True)):
        route = scene.route(first=first, target=target)
        may = first == scene.first and target in (scene.first, scene.target)
        may = may and node == (target if back else first)
        other = first if back else target
        piece, taken = LaunchData(route, back, 1, "out", b"x"), LaunchAck(route, back, 1)
        assert scene.receive(node, piece) == ([(other, piece)] if may else [])
        assert scene.receive(node, taken) == ([(other, taken)] if may else [])
        over = LaunchesEnded(route, back, RemoteUsage() if back else None)
        assert scene.receive(node, over) == ([(other, over)] if may else [])


@pytest.mark.parametrize(
    "changed",
    [{"job": JobId(99)}, {"task": 0}, {"task": 2}, {"instance": 2}, {"attempt": 2}, {"target": "elsewhere"}],
    ids=str,
)
def test_a_launch_that_may_not_pass_is_answered_with_the_reason(changed: dict[str, object]) -> None:
    scene = Scene()
    ((node, answer),) = scene.receive(scene.first, launch(scene.route(**changed)))
    assert node == scene.first
    assert isinstance(answer, LaunchData)
    assert (answer.kind, answer.from_target) == ("failed", True)


def test_no_node_launches_for_the_task_of_another() -> None:
    scene = Scene()
    for node, first in (
        (scene.target, scene.first),
        (scene.foreign, scene.first),
        (scene.target, scene.target),
    ):
        found = scene.receive(node, launch(scene.route(first=first)))
        assert [(to, message.kind) for to, message in found if isinstance(message, LaunchData)] == [
            (node, "failed")
        ]


def test_the_end_of_a_task_ends_what_it_launched_where_it_did_and_once() -> None:
    scene = Scene()
    scene.receive(scene.first, launch(scene.route()))
    scene.end()
    assert scene.sent == [(scene.target, KillLaunches(scene.job, 1, 1, 1))]
    scene.sent.clear()
    scene.relay.end_what_is_over(
        (InstancesEnded(at=scene.world.clock.now(), job=scene.job, ended=()),), scene.world.cluster
    )
    assert scene.sent == []


def test_what_a_node_launched_for_tasks_that_are_over_is_ended_when_it_says_hello() -> None:
    scene = Scene()
    live, over = ReportedAttempt(scene.job, 1, 1, 1, True), ReportedAttempt(scene.job, 1, 1, 7, True)
    scene.relay.greeted(scene.target, (live, over), scene.world.cluster)
    assert scene.sent == [(scene.target, KillLaunches(scene.job, 1, 1, 7))]
    scene.end()  # a head that has just started knows of it by now
    assert scene.sent == [(scene.target, KillLaunches(scene.job, 1, 1, 1))]
