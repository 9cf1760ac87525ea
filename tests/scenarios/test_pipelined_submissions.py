"""Submissions that a client sends without waiting: carried out together, in their order, each as if alone."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run
from test_who_may import entries

from headnode.adapters.wire.frame_codec import frame
from headnode.apps.server.api.verbs import submits_new_job
from headnode.apps.server.doors.conversation import MAX_TOGETHER
from headnode.core.model.bounds import SMALL_REQUEST

GOOD = {"verb": "submit_job", "tasks": [{"command": "true"}]}
WRONG = {"verb": "submit_job", "tasks": [{"command": "true", "numprocesors": "2"}]}


async def answers(peer: Peer, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send all requests at once; return the answers."""
    peer.writer.write(b"".join(frame(json.dumps(each).encode()) for each in requests))
    return [await peer.receive() for _ in requests]


def appended(scene: Scene) -> int:
    return sum(scene.engine.commits.counts)


def test_submissions_that_have_arrived_are_one_batch_and_are_answered_in_their_order(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            before = appended(scene)
            found = await answers(peer, [GOOD] * MAX_TOGETHER)
            assert [each["job"] for each in found] == list(range(1, MAX_TOGETHER + 1))
            assert appended(scene) - before <= 2  # the first may have been read alone
            logged = [each["job"] for each in entries(scene) if each["verb"] == "submit_job"]
            assert logged == list(range(1, MAX_TOGETHER + 1))

    run(tmp_path, story)


def test_a_refused_submission_has_its_answer_in_its_place_and_keeps_no_other(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            found = await answers(peer, [GOOD, WRONG, GOOD, {**GOOD, "unknown": 1}, GOOD])
            assert [each.get("code", "") for each in found] == ["", "unknown-option", "", "field", ""]
            assert [found[place]["job"] for place in (0, 2, 4)] == [1, 2, 3]

    run(tmp_path, story)


def test_a_request_between_sees_what_those_before_it_did_and_no_more(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            held = {**GOOD, "terms": {"hold": "true"}}
            shows = {"verb": "jobs", "states": ["Queued"]}
            cancels = {"verb": "cancel_job", "job": 2}
            found = await answers(peer, [held, held, shows, held, cancels, {"verb": "job", "job": 2}, held])
            assert [job["id"] for job in found[2]["jobs"]] == [2, 1]
            assert found[4]["ok"], found[4]
            assert (found[3]["job"], found[5]["job"]["state"], found[6]["job"]) == (3, "Canceled", 4)

    run(tmp_path, story)


def test_a_file_that_names_the_job_before_it_finds_that(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        first = {**GOOD, "terms": {"jobname": "mesh", "hold": "true"}}
        wish = {"command": "true", "named_parents": [{"name": "mesh", "condition": "OnSuccess"}]}
        second = {"verb": "submit_job", "jobfile": json.dumps(wish), "dialect": "native-json"}
        async with scene.peer() as peer:
            found = await answers(peer, [first, first, second])
            assert found[2]["ok"], found[2]
            assert list(scene.engine.cluster.jobs[3].waits_for) == [2]

    run(tmp_path, story)


def test_one_key_twice_among_them_makes_one_job(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            once = {**GOOD, "idempotency": "once"}
            found = await answers(peer, [GOOD, once, once, GOOD])
            assert [each["job"] for each in found] == [1, 2, 2, 3]
            assert [each.get("repeated") for each in found] == [None, None, True, None]

    run(tmp_path, story)


def test_together_they_are_no_larger_than_one_small_request(tmp_path: Path) -> None:
    """What is read is not counted up to that size, so that many connections could fill the memory."""

    async def story(scene: Scene) -> None:
        large = {**GOOD, "terms": {"jobname": "n"}, "tasks": [{"command": f"echo {'x' * 20_000}"}]}
        async with scene.peer() as peer:
            before = appended(scene)
            found = await answers(peer, [large] * 12)
            assert [each["job"] for each in found] == list(range(1, 13))
            most = SMALL_REQUEST.most // len(json.dumps(large))
            assert appended(scene) - before >= 12 // most

    run(tmp_path, story)


def test_who_hangs_up_in_the_middle_costs_nobody_else(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer, scene.peer() as other:
            peer.writer.write(b"".join([frame(json.dumps(GOOD).encode())] * 30) + b"\0\0")
            peer.writer.transport.abort()
            assert (await other.done(**GOOD))["job"] <= 31
            assert len(scene.engine.cluster.jobs) <= 31

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "may"),
    [
        (GOOD, True),
        ({**GOOD, "idempotency": "k"}, True),
        ({"verb": "submit_job", "job": 4}, False),
        ({"verb": "submit_job", "jobfile": "{}"}, False),
        ({**GOOD, "if_match": {"verb": "job", "tags": ["*"]}}, False),
        ({"verb": "submit_jobs", "submissions": [{"terms": {"jobname": "submit_job"}}]}, False),
        ({"verb": "job", "job": 1, "note": "submit_job"}, False),
    ],
)
def test_only_submissions_that_read_nothing_of_others_go_together(asked: dict[str, Any], may: bool) -> None:
    assert submits_new_job(json.dumps(asked).encode()) is may


@pytest.mark.parametrize("data", [b'"submit_job"', b'{"verb":"submit_job"', b'["submit_job"]', b"[" * 5000])
def test_what_is_no_request_is_left_to_its_refusal(data: bytes) -> None:
    assert not submits_new_job(data)


def test_random_pieces_of_a_stream_give_the_same_answers(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        data = b"".join(frame(json.dumps({**GOOD, "terms": {"hold": "true"}}).encode()) for _ in range(50))
        async with scene.peer() as peer:
            at = 0
            while at < len(data):
                size = 1 + os.urandom(1)[0]
                peer.writer.write(data[at : at + size])
                at += size
                await asyncio.sleep(0)
            assert [(await peer.receive())["job"] for _ in range(50)] == list(range(1, 51))

    run(tmp_path, story)
