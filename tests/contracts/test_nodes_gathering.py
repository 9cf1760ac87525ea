"""What a task used on its other nodes is in its result, as far as those nodes can be reached."""

import asyncio
from collections.abc import Callable

import pytest

from headnode.adapters.wire.agent_messages import AttemptResult, LaunchesEnded, Route
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.launch_client import UsageGathering, with_remote_usage
from headnode.core.model.outcome import AttemptOutcome, RemoteUsage, ResourceUsage
from headnode.core.model.quantities import JobId

JOB, KEY = JobId(7), (1, 2, 3)
THERE = RemoteUsage(ResourceUsage(2.0, 0.5, 3000, 1000, 10, 20))
HERE = AttemptResult(1, 2, 3, AttemptOutcome("exited", 0, usage=ResourceUsage(1.0, 0.25, 500, 400, 1, 2)))


def gather(*targets: str, deaf: int = 0, away: str = "", timeout: float = 60.0) -> dict[str, RemoteUsage]:
    """Ask these nodes, of which each misses the first `deaf` questions, and one never answers."""
    asked: dict[str, int] = {}

    def send(message: FromAgent) -> None:
        assert isinstance(message, LaunchesEnded)
        target = message.route.target
        asked[target] = asked.get(target, 0) + 1
        if target != away and asked[target] > deaf:
            answer = LaunchesEnded(message.route, True, THERE)
            for _ in range(2):  # it arrives twice
                asyncio.get_running_loop().call_soon(gathering.receive, answer)

    gathering = UsageGathering("first", send, repeat=0.01, timeout=timeout)
    for target in targets:
        gathering.launches(JOB, KEY, target)

    async def ask(find: Callable[[], frozenset[str]]) -> dict[str, RemoteUsage]:
        return await gathering.used(JOB, KEY, find())

    found = asyncio.run(ask(lambda: gathering.targets(JOB, KEY)))
    assert gathering.targets(JOB, KEY) == frozenset()  # nobody asks a second time
    return found


@pytest.mark.parametrize("deaf", [0, 1, 3])
def test_all_nodes_are_asked_until_each_has_answered(deaf: int) -> None:
    assert gather("a", "b", deaf=deaf) == {"a": THERE, "b": THERE}


def test_a_node_that_is_away_holds_up_no_result_for_ever() -> None:
    assert gather("a", "b", away="b", timeout=0.1) == {"a": THERE}


def test_an_answer_that_nobody_waits_for_is_passed_over() -> None:
    gathering = UsageGathering("first", lambda _: None)
    gathering.receive(LaunchesEnded(Route(JOB, *KEY, "", "first", "a"), True, THERE))
    assert gathering.targets(JOB, KEY) == frozenset()


def test_a_result_adds_up_what_was_used_everywhere() -> None:
    whole = with_remote_usage(HERE, {"a": THERE, "b": THERE}).outcome
    assert whole.usage == ResourceUsage(5.0, 1.25, 6500, 2400, 21, 42)
    assert whole.message == ""
    assert with_remote_usage(HERE, {}) == HERE


@pytest.mark.parametrize(
    ("kind", "code", "own", "text"),
    [
        ("exited", 1, "", "on node a: too much"),
        ("exited", 0, "", ""),  # it could do without what was killed
        ("exited", 1, "too much here", "too much here"),
        ("stopped", None, "", ""),
    ],
)
def test_a_failed_task_says_on_which_node_it_wanted_for_memory(
    kind: str, code: int | None, own: str, text: str
) -> None:
    here = AttemptResult(1, 2, 3, AttemptOutcome(kind, code, message=own))
    short = RemoteUsage(message="too much")
    assert with_remote_usage(here, {"b": THERE, "a": short}).outcome.message == text
