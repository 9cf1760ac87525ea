"""Filters as processes: how they end, what they say, what they leave behind, and what they do to the job."""

import asyncio
import os
import signal
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from filter_packages import alive

from headnode.adapters.filters.programs import Programs
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

TIMEOUT = 10.0  # seconds for what must happen
LONG = 60.0  # seconds; no test waits so long
PAPER = b"<Job Name='a'/>\n"


def program(folder: Path, text: str, name: str = "filter.sh") -> str:
    """Write a program; return its path."""
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o700)
    return str(path)


@asynccontextmanager
async def programs(tmp_path: Path) -> AsyncIterator[Programs]:
    """Return what runs programs, and end it."""
    environment = dict(os.environ) | {"CCP_SCHEDULER": "test"}
    running = Programs(tmp_path / "papers", tmp_path / "data", environment)
    running.prepare()
    try:
        yield running
    finally:
        await running.close()


def called(
    tmp_path: Path,
    text: str,
    *,
    kind: FilterKind = "submission",
    seconds: float = LONG,
    dialect: FilterDialect = "hpcpack",
    offered: FilterOffer | None = None,
) -> FilterReturn:
    """Call one filter."""

    async def run() -> FilterReturn:
        async with programs(tmp_path) as running:
            each = Filter(program=(program(tmp_path, text),), dialect=dialect)
            return await running.call(FilterRequest(each, kind, 7, PAPER, seconds, offered))

    return asyncio.run(run())


def until(true: Callable[[], bool]) -> None:
    """Wait for something that must come true."""
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("code", [0, 2, 3, 4, 200, 255])
def test_an_exit_code_comes_back_with_the_last_words(tmp_path: Path, code: int) -> None:
    found = called(tmp_path, f"echo first; echo last words >&2; exit {code}")
    assert (found.answer.how, found.answer.exit_code) == (CallOutcome.ANSWERED, code)
    assert found.answer.words == "last words"


def test_a_filter_that_a_signal_ends_answers_255(tmp_path: Path) -> None:
    found = called(tmp_path, "kill -9 $$")
    assert (found.answer.how, found.answer.exit_code) == (CallOutcome.SIGNALLED, BY_SIGNAL)


def test_a_filter_that_is_not_there_or_cannot_be_run_is_missing(tmp_path: Path) -> None:
    async def run(path: str) -> FilterReturn:
        async with programs(tmp_path) as running:
            return await running.call(FilterRequest(Filter(program=(path,)), "submission", 7, PAPER, LONG))

    plain = tmp_path / "plain"
    plain.write_text("no program")
    plain.chmod(0o700)
    for path in (str(tmp_path / "nowhere"), str(tmp_path), str(plain)):
        found = asyncio.run(run(path))
        assert found.answer.how is CallOutcome.MISSING
        assert path in found.answer.words


def test_a_filter_that_takes_too_long_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    text = f"setsid sleep 1000 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/own; sleep 1000"
    found = called(tmp_path, text, seconds=1.0)
    assert found.answer.how is CallOutcome.TIMED_OUT
    for name in ("own", "child"):
        until(lambda name=name: not alive(int((tmp_path / name).read_text())))


def test_what_a_filter_leaves_behind_is_killed_and_nobody_waits_for_it(tmp_path: Path) -> None:
    async def run() -> tuple[FilterReturn, int]:
        async with programs(tmp_path) as running:
            text = f"(setsid sh -c 'echo $$ > {tmp_path}/left; exec sleep 1000' &) ; "
            text += f"while [ ! -s {tmp_path}/left ]; do :; done; exit 0"
            each = Filter(program=(program(tmp_path, text),))
            found = await running.call(FilterRequest(each, "submission", 7, PAPER, LONG))
            left = int((tmp_path / "left").read_text())
            await asyncio.to_thread(until, lambda: not alive(left))  # the runner lives still
            return found, left

    found, _ = asyncio.run(run())
    assert found.answer.exit_code == 0


def test_one_that_runs_does_not_lose_its_children_when_another_ends(tmp_path: Path) -> None:
    async def run() -> tuple[FilterReturn, FilterReturn]:
        async with programs(tmp_path) as running:
            slow = f"(setsid sh -c 'echo $$ > {tmp_path}/child; exec sleep 1000' &) ; "
            slow += f"while [ ! -e {tmp_path}/go ]; do :; done; kill -0 $(cat {tmp_path}/child)"
            first = Filter(program=(program(tmp_path, slow, "slow.sh"),))
            quick = Filter(program=(program(tmp_path, "exit 0", "quick.sh"),))
            task = asyncio.create_task(running.call(FilterRequest(first, "submission", 1, PAPER, LONG)))
            await asyncio.to_thread(until, lambda: (tmp_path / "child").exists())
            other = await running.call(FilterRequest(quick, "submission", 2, PAPER, LONG))
            (tmp_path / "go").touch()
            return await task, other

    first, other = asyncio.run(run())
    assert (first.answer.exit_code, other.answer.exit_code) == (0, 0)


def test_megabytes_of_output_cost_no_memory_and_the_last_line_is_kept(tmp_path: Path) -> None:
    found = called(tmp_path, "yes x | head -c 30000000; echo; echo that was much; exit 3")
    assert (found.answer.exit_code, found.answer.words) == (3, "that was much")


def test_an_edited_job_comes_back_and_is_private_meanwhile(tmp_path: Path) -> None:
    text = f'stat -c %a "$1" > {tmp_path}/mode; echo "<Job Name=\'b\'/>" > "$1"; exit 1'
    found = called(tmp_path, text)
    assert found.paper == b"<Job Name='b'/>\n"
    assert (tmp_path / "mode").read_text().strip() == "600"
    assert stat.S_IMODE((tmp_path / "papers").stat().st_mode) == 0o700
    assert list((tmp_path / "papers").iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        'rm "$1"; exit 1',
        'rm "$1"; ln -s /etc/passwd "$1"; exit 1',
        'rm "$1"; mkfifo "$1"; exit 1',
        'rm "$1"; mkdir "$1"; touch "$1/x"; exit 1',
        'head -c 17000000 /dev/zero > "$1"; exit 1',
    ],
)
def test_a_job_file_that_is_gone_or_no_plain_file_is_none(tmp_path: Path, text: str) -> None:
    assert called(tmp_path, text).paper is None


def test_an_activation_filter_gets_five_arguments_and_the_service_environment(tmp_path: Path) -> None:
    text = f'echo "$# $2 $3 $4 $5 $HEADNODE_FILTER_CALL $CCP_SCHEDULER $CCP_JOBID" > {tmp_path}/seen; '
    text += f'cat "$1" > {tmp_path}/paper; [ "$CCP_DATA" = "$PWD" ]'
    found = called(tmp_path, text, kind="activation", offered=FilterOffer(3, 2, True, 8))
    assert found.answer.exit_code == 0
    assert (tmp_path / "seen").read_text().split() == ["5", "3", "2", "true", "8", "activation", "test", "7"]
    assert (tmp_path / "paper").read_bytes() == PAPER


def test_a_script_that_wants_no_xml_reads_and_writes_json(tmp_path: Path) -> None:
    found = called(tmp_path, "cat; echo done >&2; exit 1", dialect="native-json")
    assert (found.paper, found.answer.words) == (PAPER, "done")
    assert called(tmp_path, 'echo "{}" > "$1"; exit 1', dialect="native-json").paper == b"{}\n"


def test_nothing_is_left_when_the_head_dies_in_the_middle(tmp_path: Path) -> None:
    text = f"(setsid sleep 1000 & echo $! > {tmp_path}/child); echo $$ > {tmp_path}/own; sleep 1000"
    path = program(tmp_path, text)

    async def run() -> None:
        running = Programs(tmp_path / "papers", tmp_path / "data", dict(os.environ))
        running.prepare()
        await running.call(FilterRequest(Filter(program=(path,)), "submission", 7, PAPER, LONG))

    head = os.fork()
    if not head:
        try:
            asyncio.run(run())
        finally:
            os._exit(1)
    until(lambda: (tmp_path / "own").exists() and (tmp_path / "own").read_text().strip() != "")
    os.kill(head, signal.SIGKILL)
    os.waitpid(head, 0)
    for name in ("own", "child"):
        until(lambda name=name: not alive(int((tmp_path / name).read_text())))


def test_a_runner_that_dies_fails_its_calls_and_the_next_call_has_another(tmp_path: Path) -> None:
    async def run() -> tuple[FilterReturn, FilterReturn]:
        async with programs(tmp_path) as running:
            each = Filter(program=(program(tmp_path, "kill -9 $PPID; sleep 1000", "bad.sh"),))
            good = Filter(program=(program(tmp_path, "exit 0"),))
            first = await running.call(FilterRequest(each, "submission", 7, PAPER, LONG))
            return first, await running.call(FilterRequest(good, "submission", 8, PAPER, LONG))

    began = time.monotonic()
    first, second = asyncio.run(run())
    assert time.monotonic() - began < LONG  # nobody waits until its time is over
    assert first.answer.how is CallOutcome.BROKEN
    assert second.answer.exit_code == 0
