"""Plug-in filters in processes of their own: what they may do wrong costs one call, never the head."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from filter_packages import alive, package

from headnode.adapters.filters.plug_ins import PlugIn
from headnode.core.filtering import (
    BY_SIGNAL,
    CallOutcome,
    Filter,
    FilterDialect,
    FilterKind,
    FilterOffer,
    FilterRequest,
    FilterReturn,
)

LONG = 60.0  # seconds; no test waits so long
JOB = b'{"name": "a", "about": {"id": 7, "owner": "ada"}}'
LEAVES_BEHIND = """
import os
def filter_submission(job):
    os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
"""
OFFERED = FilterOffer(3, 2, True, 8, offer=5)


def calls(tmp_path: Path, text: str, *asked: FilterRequest) -> list[FilterReturn]:
    """Call a plug-in that is made of this text, one call after the other."""
    environment = package(tmp_path, "rules", text)

    async def run() -> list[FilterReturn]:
        plug_in = PlugIn("rules", tmp_path, environment)
        try:
            return [await plug_in.call(call) for call in asked]
        finally:
            await plug_in.close()

    return asyncio.run(run())


def asks(
    kind: FilterKind = "submission", seconds: float = LONG, dialect: FilterDialect = "native-json"
) -> FilterRequest:
    """Return a call of the plug-in."""
    offered = OFFERED if kind.endswith("activation") else None
    return FilterRequest(Filter(plug_in="rules", dialect=dialect), kind, 7, JOB, seconds, offered)


def test_a_module_with_functions_is_a_filter_and_what_it_prints_are_its_words(tmp_path: Path) -> None:
    text = "def filter_submission(job):\n    print('seen', job['about']['owner'])\n    return 3\n"
    (found,) = calls(tmp_path, text, asks())
    assert (found.answer.how, found.answer.exit_code, found.answer.words) == (
        CallOutcome.ANSWERED,
        3,
        "seen ada",
    )


def test_a_changed_job_comes_back(tmp_path: Path) -> None:
    text = "def filter_submission(job):\n    return 1, job | {'project': 'p'}\n"
    (found,) = calls(tmp_path, text, asks())
    assert found.answer.exit_code == 1
    assert found.paper is not None
    assert msgspec.json.decode(found.paper)["project"] == "p"


def test_a_job_that_was_changed_in_place_comes_back_too(tmp_path: Path) -> None:
    text = "def filter_submission(job):\n    job['project'] = 'p'\n    return 1\n"
    (found,) = calls(tmp_path, text, asks())
    assert found.paper is not None
    assert msgspec.json.decode(found.paper)["project"] == "p"


def test_a_plug_in_may_want_the_job_as_text(tmp_path: Path) -> None:
    text = "def filter_submission(job):\n    return 1, job.replace('\"a\"', '\"b\"')\n"
    (found,) = calls(tmp_path, text, asks(dialect="hpcpack"))
    assert found.paper == JOB.replace(b'"a"', b'"b"')


def test_an_activation_filter_is_reported_the_offer_and_remembers_between_calls(tmp_path: Path) -> None:
    text = """
calls = []
def filter_activation(job, scheduler_pass, job_index, backfill, resource_count):
    calls.append("asked")
    assert (scheduler_pass, job_index, backfill, resource_count) == (3, 2, True, 8)
    return len(calls) - 1
def revert_activation(job, scheduler_pass, job_index, backfill, resource_count):
    calls.append("undone")
"""
    asked = (asks("activation"), asks("revert-activation"), asks("activation"))
    found = calls(tmp_path, text, *asked)
    assert [each.answer.exit_code for each in found] == [0, 0, 2]


def test_a_method_that_is_not_there_has_nothing_against_a_job(tmp_path: Path) -> None:
    found = calls(tmp_path, "", asks(), asks("revert-submission"), asks("activation"))
    assert [each.answer.exit_code for each in found] == [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("def filter_submission(job):\n    raise OSError('the server is away')\n", CallOutcome.BROKEN),
        ("def filter_submission(job):\n    raise SystemExit(0)\n", CallOutcome.BROKEN),
        ("def filter_submission(job):\n    return 'yes'\n", CallOutcome.BROKEN),
        ("def filter_submission(job):\n    return 1, object()\n", CallOutcome.BROKEN),
        ("import os\ndef filter_submission(job):\n    os._exit(0)\n", CallOutcome.BROKEN),
        ("import os\ndef filter_submission(job):\n    os.kill(os.getpid(), 11)\n", CallOutcome.SIGNALLED),
        (LEAVES_BEHIND, CallOutcome.BROKEN),
        ("raise OSError('not loaded')\n", CallOutcome.MISSING),
        ("import os\nos._exit(3)\n", CallOutcome.MISSING),
    ],
)
def test_whatever_a_plug_in_does_wrong_is_a_failed_call(tmp_path: Path, text: str, how: CallOutcome) -> None:
    (found,) = calls(tmp_path, text, asks())
    assert found.answer.how is how
    assert found.answer.words
    assert (found.answer.exit_code == BY_SIGNAL) == (how is CallOutcome.SIGNALLED)


def test_one_that_hangs_is_killed_with_what_it_started_and_the_next_call_has_another(tmp_path: Path) -> None:
    text = """
import os, subprocess, time
def filter_submission(job):
    if os.path.exists("hung"):
        return 0
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    open("hung", "w").write(str(child.pid))
    time.sleep(1000)
"""
    found = calls(tmp_path, text, asks(seconds=3.0), asks())
    assert [each.answer.how for each in found] == [CallOutcome.TIMED_OUT, CallOutcome.ANSWERED]
    assert not alive(int((tmp_path / "hung").read_text()))


def test_a_name_that_nobody_has_installed_is_missing(tmp_path: Path) -> None:
    package(tmp_path, "rules", "")

    async def run() -> FilterReturn:
        plug_in = PlugIn("nobody", tmp_path, {})
        try:
            return await plug_in.call(asks())
        finally:
            await plug_in.close()

    found = asyncio.run(run())
    assert found.answer.how is CallOutcome.MISSING
    assert "'nobody'" in found.answer.words
