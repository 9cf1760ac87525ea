"""A head and its users speak of jobs that would do with several requests."""

from pathlib import Path
from typing import Any

from test_local_socket import Peer, Scene, run

from headnode.apps.cli.screens.explain import explanation_page
from headnode.apps.cli.screens.job import view

NATIVE = """
name = "fluid"
command = "x"
processors = {first}
run_time = "2h"

[[alternatives]]
processors = {second}
run_time = "4h"

[[alternatives]]
processors = 9
"""


async def submit(peer: Peer, first: int, second: int) -> int:
    text = NATIVE.format(first=first, second=second)
    answer = await peer.done(verb="submit_job", jobfile=text, terms={}, tasks=[])
    return int(answer["job"])


async def busy(peer: Peer, processors: int) -> int:
    terms = {"numprocessors": str(processors), "runtime": "60"}
    answer = await peer.done(verb="submit_job", tasks=[{"command": "x", **terms}], terms=terms)
    return int(answer["job"])


async def shown(peer: Peer, job: int) -> dict[str, Any]:
    answer: dict[str, Any] = (await peer.done(verb="job", job=job))["job"]
    return answer


def test_a_running_job_shows_which_alternative_it_was_given(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await busy(peer, 1)
            answer = await shown(peer, await submit(peer, 2, 1))
            assert (answer["state"], answer["alternatives"], answer["alternative"]) == ("Running", 2, 1)
            assert (answer["minimum"], answer["run_time"]) == (1, 4 * 3600)
            assert answer["spec"]["run_time"] == 7200, "what its owner wrote"
            assert view(answer)["Alternative"] == "1 of 2"
            explained = await peer.done(verb="explain_job", job=answer["id"])
            text = explanation_page(explained, answer, now=answer["started"] + 60)
            assert "with alternative 1 of 2 of its request" in text.replace("\n", " ")

    run(tmp_path, story)


def test_a_job_that_has_what_it_wants_most_says_so_and_others_say_nothing(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            plain = await shown(peer, await busy(peer, 1))
            assert "Alternative" not in view(plain)
            answer = await shown(peer, await submit(peer, 1, 1))
            assert (answer["alternative"], view(answer)["Alternative"]) == (
                0,
                "none: it has its first request",
            )
            waits = await shown(peer, await submit(peer, 2, 2))
            assert (waits["state"], waits["alternative"]) == ("Queued", None)
            assert "Alternative" not in view(waits)

    run(tmp_path, story)


def test_a_waiting_job_is_told_why_no_alternative_helps_and_what_would(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await busy(peer, 1)
            first = await busy(peer, 2)
            job = await submit(peer, 2, 1)
            answer = await peer.done(verb="explain_job", job=job)
            lines = [reason["text"] for reason in answer["reasons"] if reason["kind"] == "alternative"]
            late = f"could delay job {first}, which has the reservation"
            assert lines[0] == f"alternative 1: the job fits now, but {late}"
            assert lines[1].startswith("alternative 2: needs 9 processors")
            assert answer["changes"], "the job could ask for less"
            for change in answer["changes"]:
                assert change["command"].startswith(f"hn job modify {job} /")
            text = explanation_page(answer, await shown(peer, job), now=answer["jobs_ahead"][0]["job"])
            assert "alternative 1: the job fits now" in text

    run(tmp_path, story)


def test_submitting_is_refused_only_if_no_alternative_ever_fits(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            assert await submit(peer, 8, 2) > 0
            text = NATIVE.format(first=8, second=7)
            refused = await peer.ask(verb="submit_job", jobfile=text, terms={}, tasks=[])
            assert refused["code"] == "never-fits"
            assert "alternative 1: needs 7 processors" in refused["what"]

    run(tmp_path, story)


def test_a_copy_has_the_alternatives_too(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await busy(peer, 1)
            job = await submit(peer, 2, 1)
            copy = int((await peer.done(verb="clone_job", job=job))["job"])
            answer = await shown(peer, copy)
            assert (answer["state"], answer["minimum"], answer["alternatives"]) == ("Configuring", 2, 2)
            assert answer["spec"]["alternatives"] == (await shown(peer, job))["spec"]["alternatives"]

    run(tmp_path, story)
