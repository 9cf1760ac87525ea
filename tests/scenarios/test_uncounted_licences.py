"""A licence that the cluster does not count, and a user that it does not have, are told of."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Scene, run
from test_who_may import ADMINISTRATOR, OTHER, asking

JOB = '<Job Name="n" SoftwareLicense="solver:1"><Tasks><Task CommandLine="true"/></Tasks></Job>'
OF_BOB = '<Job User="DOM\\ada"><Tasks><Task CommandLine="true"/></Tasks></Job>'


def licence_reports(answer: dict[str, Any]) -> list[str]:
    return [item["what"] for item in answer["report"] if item["where"] == "licence"]


@pytest.mark.parametrize("counted", [None, "mesher:2", "solver:2,mesher:1"])
def test_a_licence_that_is_not_counted_is_reported_at_submission(tmp_path: Path, counted: str | None) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, ADMINISTRATOR) as peer:
            if counted is not None:
                await peer.done(verb="set_parameters", values={"Licences": counted})
            found = licence_reports(await peer.done(verb="submit_job", jobfile=JOB))
        if counted and "solver" in counted:
            assert found == []
        else:
            there = "none" if counted is None else "mesher"
            assert [
                "does not wait for licence 'solver'" in what and f"the cluster counts {there} " in what
                for what in found
            ] == [True]

    run(tmp_path, story)


def test_a_licence_that_is_not_counted_is_refused_where_nothing_may_be_lost(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OTHER) as peer:
            assert await peer.refused(verb="submit_job", jobfile=JOB, awareness="reject") == "not-understood"

    run(tmp_path, story)


def test_a_job_file_of_another_user_can_be_submitted_as_ones_own(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OTHER) as peer:
            refused = await peer.ask(verb="submit_job", jobfile=OF_BOB)
            assert (refused["code"], "--user bob" in refused["fix"]) == ("run-as", True)
            job = (await peer.done(verb="submit_job", jobfile=OF_BOB, terms={"user": "bob"}))["job"]
            assert (await peer.done(verb="job", job=job))["job"]["owner"] == "bob"

    run(tmp_path, story)


def test_check_shows_what_only_the_cluster_knows(tmp_path: Path) -> None:
    (tmp_path / "job.xml").write_text(JOB.replace("<Job ", '<Job User="DOM\\ada" '))
    command = [sys.executable, "-m", "headnode.apps.cli", "check", "--json", str(tmp_path / "job.xml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    notes = {item["where"]: item["what"] for item in json.loads(done.stdout)["findings"]}
    assert "it requests solver" in notes["licences"]
    assert "it runs as 'ada'" in notes["user"]
