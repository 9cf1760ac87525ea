"""The directories of an agent: one agent in each, and advice in the words of `hn agent`."""

import asyncio
from pathlib import Path

import pytest

from headnode.adapters.wire.messages import OpenJob
from headnode.apps.agent.places import KEPT_AFTER, Places
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import Instant, JobId


def test_a_second_agent_is_refused_with_the_option_that_hn_has(tmp_path: Path) -> None:
    first = Places(tmp_path / "agent")
    with pytest.raises(Unavailable, match="another agent uses the state directory") as refused:
        Places(tmp_path / "agent")
    assert refused.value.fix == "end it first, or name another directory: hn agent --directory DIRECTORY"
    assert first.run.is_dir()


def test_a_directory_that_cannot_be_used_is_refused_with_the_option_that_hn_has(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used") as refused:
        Places(tmp_path / "file" / "agent")
    assert "hn agent --directory DIRECTORY" in refused.value.fix


OPENED = OpenJob(
    job=JobId(7), owner="ann", uid=1, gid=1, spec=b"", allocation=(), deadline=Instant(float("inf"))
)


async def kept_after(places: Places, *, over: bool) -> list[OpenJob]:
    """Return what is in files when a job was to be kept soon, and was `over` before."""
    places.keep_soon(OPENED)
    assert list(places.kept()) == []
    if over:
        places.forget(OPENED.job)
    timed_out = asyncio.get_running_loop().time() + 20
    while asyncio.get_running_loop().time() < timed_out and not (found := list(places.kept())):
        if over and asyncio.get_running_loop().time() > timed_out - 20 + 2 * KEPT_AFTER:
            break
        await asyncio.sleep(0)
    return found


def test_a_job_is_in_a_file_soon_after_it_was_opened_and_no_more_when_it_is_over(tmp_path: Path) -> None:
    places = Places(tmp_path / "agent")
    assert asyncio.run(kept_after(places, over=False)) == [OPENED]
    places.forget(OPENED.job)
    assert list(places.jobs.iterdir()) == []


def test_a_job_that_is_over_at_once_never_has_a_file(tmp_path: Path) -> None:
    assert asyncio.run(kept_after(Places(tmp_path / "agent"), over=True)) == []


def test_an_agent_that_leaves_keeps_its_newest_jobs_for_the_next_one(tmp_path: Path) -> None:
    places = Places(tmp_path / "agent")

    async def scene() -> None:
        places.keep_soon(OPENED)
        places.keep_waiting()

    asyncio.run(scene())
    assert list(places.kept()) == [OPENED]


def test_a_file_that_an_earlier_agent_kept_is_removed_when_its_job_is_over(tmp_path: Path) -> None:
    places = Places(tmp_path / "agent")
    (places.jobs / "7.job").write_bytes(b"cannot be read")
    assert list(places.kept()) == []
    places.forget(JobId(7))
    assert list(places.jobs.iterdir()) == []
