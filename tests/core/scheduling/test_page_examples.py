"""The scenes on the page "How scheduling works" come out as the page says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER
from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import DEFAULT_POLICY, POLICIES
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing import gang, limited, part

from .scenes import INF, MINUTE, NOW, asks, node, runs, scene, started

PAGE = Path(__file__).parents[3] / "docs" / "how-scheduling-works.md"
SCENES = re.findall(r"```scene\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def lines(text: str, word: str) -> Iterator[str]:
    """Yield what stands behind the word."""
    return (line.split(None, 1)[1] for line in text.splitlines() if line.split()[0] == word)


def numbers(text: str) -> list[int]:
    """Return the numbers in a text."""
    return [int(found) for found in re.findall(r"\d+", text)]


def view_of(text: str) -> View:
    """Read a scene."""
    count, size = numbers(next(lines(text, "nodes")))
    nodes = [node(f"n{number}", size) for number in range(1, count + 1)]
    running = [_running(line, size, text) for line in lines(text, "running")]
    queue = [_queued(line) for line in lines(text, "queue")]
    owned = [
        (job, _of_user(wants, line, text))
        for (job, wants), line in zip(queue, lines(text, "queue"), strict=True)
    ]
    return scene(nodes, running, owned)


def _of_user(request: JobRequest, line: str, text: str) -> JobRequest:
    """Read whose job it is, and what the user may have: `limits ann 1 job, 8 processors`."""
    user = re.search(r", of ([a-z]+)$", line)
    found = next((each for each in lines(text, "limits") if user and each.split()[0] == user[1]), None)
    if user is None or found is None:
        return request
    return limited(
        request,
        user[1],
        **{f"{word}s": int(most) for most, word in re.findall(r"(\d+) ([a-z]+?)s?\b", found)},
    )


def _queued(line: str) -> tuple[int, JobRequest]:
    if " together " in line:
        parts = [part(int(size), int(times)) for times, size in re.findall(r"(\d+) of (\d+)", line)]
        return numbers(line)[0], gang(*parts, minutes=numbers(line)[-1])
    own, *others = line.split(", or ")
    job, *wants = numbers(own)
    return job, _asked(wants, alternatives=tuple(_asked(numbers(other)) for other in others))


def _asked(wants: list[int], **more: object) -> JobRequest:
    return asks(wants[0], minutes=wants[1] if len(wants) > 1 else INF, **more)


def _running(line: str, size: int, text: str) -> RunningJob:
    job, first, last, *minutes = numbers(line)
    held = [(f"n{number}", size) for number in range(first, last + 1)]
    wants = _of_user(asks(size, exclusive=True), line, text)
    return runs(job, wants, *held, minutes_left=minutes[0] if minutes else INF)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("text", SCENES)
def test_a_scene_of_the_page_comes_out_as_it_says(text: str, policy: str) -> None:
    output = next(lines(text, policy))
    starts, promises = output.split(", promises ")
    plan = POLICIES[policy](view_of(text))
    assert started(plan) == numbers(starts)
    found = [(each.job, each.at) for each in plan.reservations]
    assert found == [promise(one) for one in promises.split(", ") if one != "none"]


def promise(text: str) -> tuple[int, float]:
    """Read `2 in 15 minutes`, or `2 some day`."""
    job, *minutes = numbers(text)
    return job, NOW + minutes[0] * MINUTE if minutes else NEVER


def test_the_page_has_scenes_and_names_every_policy_and_every_reason_a_pass_gives() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(SCENES) == 7
    assert all(f"`{policy}`" in page for policy in POLICIES)
    assert f"`{DEFAULT_POLICY}`, the default" in page
    elsewhere = {Why.DEPENDENCY, Why.HOLD, Why.RESOURCE, Why.STAGING}  # such jobs are not in the line yet
    assert all(f"`{why}`" in page for why in Why if why not in elsewhere)
