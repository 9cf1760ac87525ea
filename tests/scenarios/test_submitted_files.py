"""The file that a job was read from stays with it: as it was sent, with what became of its words."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run
from test_who_may import ADMINISTRATOR, OWNER, asking

from headnode.core.formats.dialects import SUBMITTED
from headnode.core.model.bounds import JOB_FILE
from headnode.core.model.user import User

XML = """<?xml version="1.0"?>
<!-- ours -->
<Job Name="pi" MinCores="1" MaxCores="1" Colour="red">
  <Tasks><Task CommandLine="echo 3"/></Tasks>
</Job>
"""
SCRIPT = "#!/bin/sh\n#SBATCH --job-name=s --time=5\necho hello\n"
TWO = json.dumps({"jobs": [{"name": "a", "command": "true"}, {"name": "b", "command": "true"}]})


DAEMON = User(name="daemon", uid=1, gid=1)
OF_TWO = json.dumps(
    {
        "jobs": [
            {"command": "true", "run_as": owner, "environment": {"KEY": owner}} for owner in ("daemon", "bin")
        ]
    }
)


async def submitted(peer: Peer, job: int) -> dict[str, Any]:
    return await peer.done(verb="export_job", job=job, dialect=SUBMITTED)


def test_a_file_is_shown_as_it_was_sent_with_the_line_of_each_finding(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            job = (await peer.done(verb="submit_job", jobfile=XML))["job"]
            shown = await submitted(peer, job)
            assert shown["text"] == XML
            assert [(item["kind"], item["line"]) for item in shown["report"]] == [("not-supported", 3)]
            await peer.done(verb="modify_job", job=job, terms={"priority": "Lowest"})
            differs = (await submitted(peer, job))["report"][-1]["what"]
            assert "differs from this file in priority" in differs
            await peer.done(verb="cancel_job", job=job)
            assert (await submitted(peer, job))["text"] == XML

    run(tmp_path, story)


def test_a_script_is_shown_and_kept_once(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            job = (await peer.done(verb="submit_job", jobfile=SCRIPT, script=["s.sh"]))["job"]
            assert (await submitted(peer, job))["text"] == SCRIPT
            (_, made), *_ = scene.context.lookups.archive.job_events(job, 0, 1)
            assert made.source == b""  # type: ignore[attr-defined]

    run(tmp_path, story)


def test_jobs_of_one_file_share_its_text(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            jobs = (await peer.done(verb="create_job", jobfile=TWO))["jobs"]
            assert [(await submitted(peer, job))["text"] for job in jobs] == [TWO, TWO]
            kept = [scene.context.lookups.archive.job_events(job, 0, 1)[0][1] for job in jobs]
            assert [bool(event.source) for event in kept] == [True, False]  # type: ignore[attr-defined]

    run(tmp_path, story)


@pytest.mark.parametrize("more", [0, 1])
def test_a_file_above_the_bound_is_not_kept(tmp_path: Path, more: int) -> None:
    padding = "#" * (JOB_FILE.most - len('command = "true"\n') + more)
    file = f'command = "true"\n{padding}'

    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            job = (await peer.done(verb="create_job", jobfile=file))["job"]
            asked = {"verb": "export_job", "job": job, "dialect": SUBMITTED}
            if more:
                assert await peer.refused(**asked) == "no-job-file"
            else:
                assert (await peer.done(**asked))["text"] == file

    run(tmp_path, story)


def test_a_job_of_options_or_a_copy_has_no_file_and_says_what_to_do(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            job = (await peer.done(verb="create_job", tasks=[{"command": "true"}]))["job"]
            of_file = (await peer.done(verb="create_job", jobfile=XML))["job"]
            copy = (await peer.done(verb="clone_job", job=of_file))["job"]
            for one in (job, copy):
                answer = await peer.ask(verb="export_job", job=one, dialect=SUBMITTED)
                assert (answer["code"], "hn job export" in answer["fix"]) == ("no-job-file", True)

    run(tmp_path, story)


def test_a_file_with_jobs_of_several_owners_is_shown_to_none_of_them(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, ADMINISTRATOR) as root, asking(scene, DAEMON) as peer:
            job, *_ = (await root.done(verb="create_job", jobfile=OF_TWO))["jobs"]
            assert await peer.refused(verb="export_job", job=job, dialect=SUBMITTED) == "no-job-file"

    run(tmp_path, story)


def test_a_job_that_is_given_away_leaves_the_file_of_its_group_behind(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, ADMINISTRATOR) as root, asking(scene, DAEMON) as peer:
            jobs = (await root.done(verb="create_job", jobfile=TWO))["jobs"]
            for job in jobs:
                await root.done(verb="modify_job", job=job, terms={"user": "daemon"})
                assert await peer.refused(verb="export_job", job=job, dialect=SUBMITTED) == "no-job-file"
                assert (await submitted(root, job))["text"] == TWO

    run(tmp_path, story)
