"""The history of a node in words."""

from headnode.apps.server.api.nodes import node_sentences
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.core.state import events as e

NOW = Instant(0.0)


def registered(**facts: object) -> e.NodeRegistered:
    return e.NodeRegistered(at=NOW, facts=NodeFacts(name="n1", **{"processors": 2, **facts}))


def test_each_event_of_a_node_has_its_words() -> None:
    events: list[tuple[e.Event, str]] = [
        (registered(boot_id="a"), "Registered with 2 processors, not yet approved"),
        (e.NodeApproved(at=NOW, node="n1", by="root"), "Approved by root"),
        (registered(boot_id="b"), "Its machine was rebooted"),
        (registered(boot_id="b", version="1"), ""),
        (registered(boot_id="b", version="2"), "Registered anew: version 1 to 2"),
        (registered(boot_id="c", version="2", processors=1), "Its machine was rebooted: processors 2 to 1"),
        (e.NodePaused(at=NOW, node="n1", by="ada"), "Paused by ada"),
        (e.NodeResumed(at=NOW, node="n1", by="ada"), "Resumed by ada"),
        (e.NodeDrained(at=NOW, node="n1", closes=NOW, by="ada", reason="new"), "Drained by ada: new"),
        (e.NodeDrained(at=NOW, node="n1", closes=NOW, by="ada", force=True), "Drained by ada, by force"),
        (
            e.NodeDrained(at=NOW, node="n1", closes=NOW, cause="fault", reason="no room"),
            "Drained by a fault of the node: no room",
        ),
        (e.NodeDrainLifted(at=NOW, node="n1", cause="fault", by="ada"), "Drain lifted by ada"),
        (e.NodeDrainLifted(at=NOW, node="n1", cause="health"), "Its health check succeeds again"),
        (e.NodeUnreachable(at=NOW, node="n1"), "Unreachable"),
        (e.NodeReachable(at=NOW, node="n1"), "Reachable again"),
        (e.NodeModified(at=NOW, node="n1", groups=("a",), by="ada"), "Set by ada: groups"),
        (e.NodeRemoved(at=NOW, node="n1", by="ada"), "Removed by ada"),
        (registered(processors=1), "Registered with 1 processor, not yet approved"),
    ]
    expected = [words for _, words in events if words]
    assert [text for _, text in node_sentences(event for event, _ in events)] == expected


def test_no_event_of_a_node_is_left_out() -> None:
    for kind in e.NodeEvent.__subclasses__():
        more = {"closes": NOW} if kind is e.NodeDrained else {"key": "k"} if kind is e.NodeKeyPinned else {}
        assert list(node_sentences([kind(at=NOW, node="n1", **more)])), kind
