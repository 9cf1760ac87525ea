"""Environments, scripts and signed URLs of jobs are for their owner and administrators: others see none."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run
from test_who_may import ABOUT, ADMINISTRATOR, OPERATOR, OTHER, OWNER, asking

from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind
from headnode.core.formats import dialects
from headnode.core.formats.dialects import SUBMITTED
from headnode.core.model.job import Alternative, JobSpec
from headnode.core.model.task import StagedFile, TaskSpec
from headnode.core.model.user import User
from headnode.core.state import submit as c

ANSWERING = [name for name, verb in VERBS.items() if verb.kind is VerbKind.ANSWER and name != "stop_head"]
SECRET, OF_TASK, OF_SCRIPT = "s3cr3t-of-the-job", "s3cr3t-of-the-task", "s3cr3t-of-the-script"
OF_FILE, OF_PROGRAM = "s3cr3t-of-the-file", "s3cr3t-of-the-program"


async def secret_job(scene: Scene, *, submit: bool = True) -> int:
    script = f"#!/bin/sh\n# {OF_SCRIPT}\n"
    task = TaskSpec(
        command=f"https://example.org/program?signature={OF_PROGRAM}",
        script=script,
        rerunnable=True,
        environment={"TOKEN": OF_TASK},
        stage_in=(StagedFile("data", f"https://example.org/data?signature={OF_FILE}"),),
        stage_out=(StagedFile("result", f"https://example.org/result?signature={OF_FILE}"),),
        standard_output=f"https://example.org/output?signature={OF_FILE}",
    )
    spec = JobSpec(
        tasks=(task,),
        environment={"PASSWORD": SECRET},
        alternatives=(Alternative(minimum=1, maximum=1),),
        job_group="g",
    )
    made = await scene.batcher.ask(c.CreateJob(by=OWNER, spec=spec, submit=submit))
    return int(made[0].job)  # type: ignore[attr-defined]


def tells(answer: dict[str, Any]) -> bool:
    text = json.dumps(answer)
    return any(secret in text for secret in (SECRET, OF_TASK, OF_SCRIPT, OF_FILE, OF_PROGRAM))


async def everything_about(peer: Peer, job: int, verb: str) -> list[dict[str, Any]]:
    """Ask a verb about a job, in each way in which it can be asked."""
    fields = {"job": job, "task": 1, "group": "g", "owner": OWNER.name, **ABOUT.get(verb, {})}
    every = [{"dialect": name} for name in (*dialects.DIALECTS, SUBMITTED)] if verb == "export_job" else [{}]
    ways = [*every, {"terms": {"priority": "Normal"}}]
    known = [{"verb": verb, **fields, **more} for more in ways]
    least = [{"verb": verb, "job": job, **more} for more in ways]
    return [await peer.ask(**question) for question in (*known, *least, {"verb": verb})]


@pytest.mark.parametrize("submit", [True, False], ids=["submitted", "configuring"])
@pytest.mark.parametrize("by", [OTHER, OPERATOR], ids=lambda user: user.name)
def test_no_verb_shows_others_a_value_of_an_environment(tmp_path: Path, by: User, submit: bool) -> None:
    async def story(scene: Scene) -> None:
        job = await secret_job(scene, submit=submit)
        async with asking(scene, by) as peer:
            for verb in ANSWERING:
                for answer in await everything_about(peer, job, verb):
                    assert not tells(answer), (verb, answer)

    run(tmp_path, story)


@pytest.mark.parametrize("by", [OWNER, ADMINISTRATOR], ids=lambda user: user.name)
def test_the_owner_and_administrators_see_the_environment(tmp_path: Path, by: User) -> None:
    async def story(scene: Scene) -> None:
        job = await secret_job(scene)
        async with asking(scene, by) as peer:
            shown = (await peer.done(verb="job", job=job))["job"]
            assert tells(shown)
            assert not shown["environment_hidden"]
            assert tells(await peer.done(verb="task", job=job, task=1))
            assert tells(await peer.done(verb="export_job", job=job, dialect="native"))

    run(tmp_path, story)


@pytest.mark.parametrize("by", [OTHER, OPERATOR, ADMINISTRATOR], ids=lambda user: user.name)
def test_a_copy_of_the_job_of_another_has_no_environment_and_says_so(tmp_path: Path, by: User) -> None:
    async def story(scene: Scene) -> None:
        job = await secret_job(scene)
        async with asking(scene, by) as peer:
            cloned = await peer.done(verb="clone_job", job=job)
            assert [item["what"] for item in cloned["report"]] == [
                f"the environment of job {job} is private to 'ada', and was left out",
                f"the script of job {job} is private to 'ada', and was left out",
                f"the query of a URL of job {job} is private to 'ada', and was left out",
            ]
            assert not tells(await peer.done(verb="job", job=cloned["job"]))
        async with asking(scene, OWNER) as peer:
            own = await peer.done(verb="clone_job", job=job)
            assert own["report"] == []
            assert tells(await peer.done(verb="job", job=own["job"]))

    run(tmp_path, story)


def test_only_the_owner_and_administrators_export_the_script(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await secret_job(scene)
        for by, found in ((OWNER, True), (ADMINISTRATOR, True), (OTHER, False)):
            async with asking(scene, by) as peer:
                text = (await peer.done(verb="export_job", job=job, dialect="slurm"))["text"]
                assert (OF_SCRIPT in text) is found

    run(tmp_path, story)


def test_the_file_of_a_job_is_for_its_owner_and_administrators_too(tmp_path: Path) -> None:
    file = f'[environment]\nPASSWORD = "{SECRET}"\n[[tasks]]\ncommand = "true"\n'

    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            job = (await peer.done(verb="create_job", jobfile=file))["job"]
        for by in (OWNER, ADMINISTRATOR):
            async with asking(scene, by) as peer:
                assert (await peer.done(verb="export_job", job=job, dialect=SUBMITTED))["text"] == file
        for by in (OPERATOR, OTHER):
            async with asking(scene, by) as peer:
                assert await peer.refused(verb="export_job", job=job, dialect=SUBMITTED) == "not-owner"
                for verb in ("events", *ANSWERING):
                    for answer in await everything_about(peer, job, verb):
                        assert not tells(answer), (verb, answer)

    run(tmp_path, story)


def test_what_was_left_out_is_said_where_it_would_stand(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await secret_job(scene)
        async with asking(scene, OTHER) as peer:
            assert (await peer.done(verb="job", job=job))["job"]["environment_hidden"]
            assert (await peer.done(verb="task", job=job, task=1))["task"]["environment_hidden"]
            report = (await peer.done(verb="export_job", job=job, dialect="native"))["report"]
            assert "was left out" in report[0]["what"]

    run(tmp_path, story)


def test_a_site_can_show_environments_to_all(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await secret_job(scene)
        async with asking(scene, ADMINISTRATOR) as peer:
            await peer.done(verb="set_parameters", values={"PrivateEnvironments": "no"})
        async with asking(scene, OTHER) as peer:
            assert tells(await peer.done(verb="job", job=job))
            copy = (await peer.done(verb="clone_job", job=job))["job"]
            assert tells(await peer.done(verb="job", job=copy))

    run(tmp_path, story)
