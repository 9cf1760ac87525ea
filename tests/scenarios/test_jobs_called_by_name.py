"""SSS jobs that wait for jobs of the cluster by their name, or by the Id they were submitted with."""

import json
import re
from pathlib import Path

import pytest
from cli_scripted_head import hn

SOLVE = """<Job><Id>solve-1</Id><Name>solve</Name><Executable>/bin/true</Executable>
<Dependency {}>{}</Dependency></Job>"""


def job_file(directory: Path, text: str) -> str:
    path = directory / "job.xml"
    path.write_text(text)
    return str(path)


def ids(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"ID: (\d+)", text)]


def submit(state: Path, tmp_path: Path, name: str, identifier: str, *options: str) -> int:
    text = f"<Job><Id>{identifier}</Id><Name>{name}</Name><Executable>/bin/true</Executable></Job>"
    result = hn("job", "submit", *options, job_file(tmp_path, text), state=state)
    assert result.returncode == 0, result.stderr
    (job,) = ids(result.stdout)
    return job


@pytest.mark.parametrize(
    ("attributes", "called"),
    [("designator='JobName'", "mesh of {}"), ("condition='OnSuccess' designator='JobId'", "mesh/{}&amp;1")],
)
def test_a_job_waits_for_the_newest_job_of_its_owner_that_is_called_so(
    state: Path, tmp_path: Path, attributes: str, called: str
) -> None:
    called = called.format(tmp_path.name)
    name, identifier = (called, "1") if "Name" in attributes else ("any", called)
    submit(state, tmp_path, name, identifier, "--wait")
    newest = submit(state, tmp_path, name, identifier, "/holds:later")
    result = hn("job", "submit", job_file(tmp_path, SOLVE.format(attributes, called)), state=state)
    (child,) = ids(result.stdout)
    shown = json.loads(hn("job", "view", str(child), "--json", state=state).stdout)
    assert [one["job"] for one in shown["dependencies"]] == [newest]
    assert shown["state"] == "Queued"


def test_a_job_that_has_ended_counts_when_it_is_the_newest(state: Path, tmp_path: Path) -> None:
    called = f"over {tmp_path.name}"
    parent = submit(state, tmp_path, called, "1", "--wait")
    text = SOLVE.format("designator='JobName'", called)
    result = hn("job", "submit", "--wait", job_file(tmp_path, text), state=state)
    (child,) = ids(result.stdout)
    shown = json.loads(hn("job", "view", str(child), "--json", state=state).stdout)
    assert ([one["job"] for one in shown["dependencies"]], shown["state"]) == ([parent], "Finished")


@pytest.mark.parametrize("policy", ["Reject", "Warn", "Ignore"])
@pytest.mark.parametrize("verb", [("submit",), ("submit", "--dry-run"), ("new",)])
@pytest.mark.parametrize("attributes", ["designator='JobName'", "designator='JobId'"])
def test_a_job_that_waits_for_nobody_is_refused_under_every_policy(
    state: Path, tmp_path: Path, attributes: str, verb: tuple[str, ...], policy: str
) -> None:
    text = SOLVE.format(attributes, "nobody").replace("<Job>", f"<Job awarenessPolicy='{policy}'>")
    result = hn("job", *verb, job_file(tmp_path, text), state=state)
    assert result.returncode != 0
    assert "'nobody'" in result.stderr


@pytest.mark.parametrize(
    "asked", ["<Queue>nightly</Queue>", "<Resource name='License' type='none'>1</Resource>"]
)
@pytest.mark.parametrize(("policy", "code"), [("Reject", 2), ("Warn", 0)])
def test_what_the_cluster_lacks_is_refused_by_a_file_that_says_reject(
    state: Path, tmp_path: Path, asked: str, policy: str, code: int
) -> None:
    text = f"<Job awarenessPolicy='{policy}'><Id>1</Id><Executable>/bin/true</Executable>{asked}</Job>"
    result = hn("job", "submit", "--dry-run", job_file(tmp_path, text), state=state)
    assert (result.returncode != 0) is (code != 0)
    assert "nightly" in result.stderr or "none" in result.stderr


def test_check_prints_what_lenient_reading_has_mended(state: Path, tmp_path: Path) -> None:
    text = "<Job><Executable>/bin/true</Executable><Processors Units='a'>1<Processors></Job>"
    result = hn("check", "--lenient", job_file(tmp_path, text), state=state)
    assert "repaired" in result.stdout + result.stderr
