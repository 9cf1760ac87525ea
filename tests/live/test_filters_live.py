"""Filters of a real head: jobs go through chains, and a head that is killed asks again."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from filter_packages import package

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, WrongState
from heads import RealHead, real_head, shared_head_fixture

EXAMPLES = Path(__file__).parents[2] / "examples" / "filters"
TIMEOUT = 30.0  # seconds for what must happen
ENDED = ("Finished", "Failed", "Canceled")
LOG = 'echo "$HEADNODE_FILTER_CALL {name} $(sed -n \'s/.* Project="\\([^"]*\\)".*/\\1/p\' "$1")" >> {log}\n'


class Site:
    """A head and a folder of filters, each of which notes its calls in one log.  `job`: its next one."""

    def __init__(self, tmp_path: Path, at: RealHead) -> None:
        self.folder, self.head = tmp_path, at
        self.log = tmp_path / "calls"
        self.job = at.ask("jobs")["total"] + 1
        self._set: set[str] = set()

    def filter(self, name: str, text: str) -> str:
        """Write a filter that notes the project it sees; return its path."""
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + LOG.format(name=name, log=self.log) + text)
        path.chmod(0o700)
        return str(path)

    def calls(self) -> list[str]:
        """Return the calls so far: kind, filter and project."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def set(self, **values: str) -> None:
        """Set cluster parameters."""
        self._set |= values.keys()
        self.head.ask("set_parameters", values=values)

    def leave(self) -> None:
        """Have no filters and no jobs that have not ended."""
        self.head.ask("set_parameters", values=dict.fromkeys(self._set))
        for job in range(self.job, self.head.ask("jobs")["total"] + 1):
            with suppress(WrongState):  # it has ended
                self.head.ask("cancel_job", job=job, force=True)
            until(lambda job=job: self.state(job) in ENDED)

    def state(self, job: int) -> str:
        """Return the word for where a job is."""
        found: str = self.head.ask("job", job=job)["job"]["state"]
        return found


head = shared_head_fixture(processors=2)


@pytest.fixture
def here(head: RealHead, tmp_path: Path) -> Iterator[Site]:
    """Filters of one test, at the head of all."""
    made = Site(tmp_path, head)
    yield made
    made.leave()


@contextmanager
def site(tmp_path: Path) -> Iterator[Site]:
    """Run a head of its own."""
    with real_head(tmp_path / "head", processors=2) as running:
        yield Site(tmp_path, running)


def until(true: Callable[[], bool]) -> None:
    """Wait for something that must come true."""
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def submit(here: Site) -> int:
    """Submit a job on a connection of its own."""
    client = Client(str(here.head.state))
    try:
        job: int = client.ask("submit_job", tasks=[{"command": "true"}])["job"]
        return job
    finally:
        client.close()


def submit_in_vain(here: Site) -> None:
    """Submit a job to a head that does not live to answer."""
    with pytest.raises(HeadnodeError):
        submit(here)


def changes_to(project: str) -> str:
    return f'sed -i \'s/Project="[^"]*"/Project="{project}"/\' "$1"; exit 1\n'


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_chain_goes_as_far_as_it_is_let_and_is_undone_in_reverse_with_the_job_each_saw(
    here: Site, place: int
) -> None:
    texts = [changes_to(name) for name in ("one", "two", "three")]
    if place < 3:
        texts[place] = "echo not today; exit 9\n"
    chain = [here.filter(f"f{number}", text) for number, text in enumerate(texts)]
    here.set(SubmissionFilterProgram=";".join(chain))
    seen = ["start", "one", "two"]
    if place == 3:
        job = here.head.submit("true", terms={"projectname": "start"})
        assert here.head.ask("job", job=job)["job"]["project"] == "three"
        assert here.calls() == [f"submission f{n} {seen[n]}" for n in range(3)]
        return
    with pytest.raises(HeadnodeError, match="not today") as refused:
        here.head.submit("true", terms={"projectname": "start"})
    assert f"'f{place}'" in refused.value.what
    until(lambda: len(here.calls()) == 2 * (place + 1))
    forth = [f"submission f{n} {seen[n]}" for n in range(place + 1)]
    back = [f"revert-submission f{n} {seen[n]}" for n in reversed(range(place + 1))]
    assert here.calls() == forth + back
    assert here.state(here.job) == "Failed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('sed -i \'s/CommandLine="[^"]*"/CommandLine="rm"/\' "$1"; exit 1\n', "task 1 is not the same"),
        ("echo '<Job' > \"$1\"; exit 1\n", "created an invalid job"),
        ('rm "$1"; exit 1\n', "removed the job file"),
        ('sed -i \'s/MinCores="1" MaxCores="1" //\' "$1"; echo > "$1"; exit 1\n', "created an invalid job"),
        ("kill -9 $$\n", "a signal ended it"),
        ("sleep 1000\n", "timed out"),
    ],
)
def test_a_filter_that_does_wrong_fails_the_job_and_is_reported(here: Site, text: str, message: str) -> None:
    timeout = "1" if message == "timed out" else "600"
    here.set(SubmissionFilterProgram=here.filter("wrong", text), SubmissionFilterTimeout=timeout)
    with pytest.raises(HeadnodeError, match="submission-filter") as refused:
        here.head.submit("true")
    assert message in refused.value.what
    assert "'wrong'" in refused.value.what
    assert here.state(here.job) == "Failed"
    gone = here.filter("gone", "exit 0\n")
    here.set(SubmissionFilterProgram=gone)
    Path(gone).unlink()
    with pytest.raises(HeadnodeError, match="could not be run"):
        here.head.submit("true")


def test_what_a_template_refuses_behind_filters_is_not_blamed_on_a_filter(tmp_path: Path) -> None:
    with site(tmp_path) as here:  # templates stay
        here.head.ask("set_template", text='name = "short"\n[run_time]\nmost = "1h"\n')
        here.set(SubmissionFilterProgram=here.filter("passes", "exit 0\n"))
        with pytest.raises(HeadnodeError, match="job template 'short' does not allow it") as refused:
            here.head.submit("true", terms={"jobtemplate": "short", "runtime": "2h"})
        assert refused.value.fix == f"change that, and submit a copy: hn job clone {here.job}"


def test_a_head_that_is_killed_while_a_filter_runs_has_the_job_and_asks_again(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        wait = f"[ -e {tmp_path}/go ] || sleep 1000\nexit 0\n"
        here.set(SubmissionFilterProgram=here.filter("slow", wait), SubmissionFilterTimeout="600")
        submitting = threading.Thread(target=submit_in_vain, args=(here,))
        submitting.start()
        until(lambda: here.calls() == ["submission slow "])
        here.head.kill()
        submitting.join()
        (tmp_path / "go").touch()
        here.head.start_again()
        until(lambda: here.state(here.job) == "Finished")
        assert here.calls()[:2] == ["submission slow ", "submission slow "]


def test_a_submission_that_waits_does_not_keep_others_from_the_head(here: Site, tmp_path: Path) -> None:
    wait = f"[ -e {tmp_path}/go ] || {{ while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; }}\n"
    here.set(SubmissionFilterProgram=here.filter("slow", wait), SubmissionFilterTimeout="600")
    submitting = threading.Thread(target=submit, args=(here,))
    submitting.start()
    until(lambda: len(here.calls()) == 1)
    assert here.head.ask("explain_job", job=here.job)["reasons"][0]["kind"] == "filter"
    assert "'slow'" in here.head.ask("job", job=here.job)["job"]["pending_reason"]
    (tmp_path / "go").touch()
    submitting.join()
    until(lambda: here.state(here.job) == "Finished")


def test_a_job_starts_when_its_activation_filter_lets_it_and_explain_names_it_before(
    here: Site, tmp_path: Path
) -> None:
    lines = (
        f"[ $HEADNODE_FILTER_CALL = activation ] && cd {tmp_path} || exit 0",
        "[ -e first ] && { mv first asked; echo no licence is free; exit 2; }",
        "while [ ! -e go ]; do sleep 0.01; done\n",  # it takes its time when it is asked again
    )
    (tmp_path / "first").touch()
    here.set(
        ActivationFilterProgram="template=asked " + here.filter("pool", "\n".join(lines)),
        ActivationFilterInterval="1",
        ActivationFilterTimeout="600",
    )
    job = here.head.submit("true", terms={"jobtemplate": "asked"})
    until(lambda: here.calls().count("activation pool ") == 2)
    until(lambda: "no licence is free" in here.head.ask("job", job=job)["job"]["pending_reason"])
    reason = here.head.ask("explain_job", job=job)["reasons"][0]
    assert (reason["kind"], reason["subject"]) == ("filter", "pool")
    other = here.head.submit("true", terms={"numprocessors": "2"})
    answer = here.head.ask("explain_job", job=other)
    kept = f"1 processor is kept for job {job} until the activation filter 'pool' accepts it"
    assert kept in [each["text"] for each in answer["reasons"]]
    assert answer["would_start"] == []
    assert "'pool'" in here.head.ask("job", job=job)["job"]["expected"]["reason"]
    (tmp_path / "go").touch()
    until(lambda: here.state(other) == "Finished")
    until(lambda: here.state(job) == "Finished")
    answer = [each["text"] for each in here.head.ask("job_history", job=job)["history"]]
    assert any("'pool'" in each and "no licence is free" in each for each in answer)


def test_a_change_to_a_submitted_job_passes_the_filters_or_does_not_happen(here: Site) -> None:
    text = 'echo "change=$HEADNODE_FILTER_CHANGE"; grep -q Project=.bad "$1" && exit 5; exit 0\n'
    here.set(SubmissionFilterProgram=here.filter("names", text))
    running = here.head.submit("sleep 1000", terms={"numprocessors": "2"})
    until(lambda: here.state(running) == "Running")
    queued = here.head.submit("true", terms={"projectname": "good"})
    for job in (running, queued):
        with pytest.raises(HeadnodeError, match=r"stays as it was.*change=1"):
            here.head.ask("modify_job", job=job, terms={"projectname": "bad"})
        assert here.head.ask("job", job=job)["job"]["project"] != "bad"
        here.head.ask("modify_job", job=job, terms={"projectname": "better"})
        assert here.head.ask("job", job=job)["job"]["project"] == "better"
    here.head.ask("cancel_job", job=running, force=True)


def test_tasks_that_are_added_to_a_submitted_job_pass_the_filters(here: Site) -> None:
    text = 'grep -q "CommandLine=.forbidden" "$1" && { echo not this; exit 5; }; exit 0\n'
    here.set(SubmissionFilterProgram=here.filter("commands", text))
    running = here.head.submit("sleep 1000", terms={"numprocessors": "2"})
    until(lambda: here.state(running) == "Running")
    queued = here.head.submit("true")
    for job in (running, queued):
        with pytest.raises(HeadnodeError, match="not this"):
            here.head.ask("add_tasks", job=job, tasks=[{"command": "forbidden"}])
        assert here.head.ask("add_tasks", job=job, tasks=[{"command": "true"}])["tasks"] == [2]
    made = here.head.ask("create_job", tasks=[{"command": "true"}])["job"]
    here.head.ask("add_tasks", job=made, tasks=[{"command": "forbidden"}])  # it has yet to be submitted
    with pytest.raises(HeadnodeError, match="not this"):
        here.head.ask("submit_job", job=made)
    here.head.ask("cancel_job", job=running, force=True)


def test_a_change_that_the_filters_pass_and_the_head_refuses_is_undone(here: Site) -> None:
    here.set(SubmissionFilterProgram=here.filter("names", "exit 0\n"))
    running = here.head.submit("sleep 1000", terms={"projectname": "own"})
    until(lambda: here.state(running) == "Running")
    with pytest.raises(HeadnodeError, match="cannot change while it is running"):
        here.head.ask("modify_job", job=running, terms={"exclusive": "true", "projectname": "new"})
    assert here.calls()[1:] == ["submission names new", "revert-submission names new"]
    assert here.head.ask("job", job=running)["job"]["project"] == "own"
    here.head.ask("cancel_job", job=running, force=True)


def test_a_chain_of_activation_filters_ends_at_the_first_that_is_not_zero_and_is_undone_in_reverse(
    here: Site,
    tmp_path: Path,
) -> None:
    codes = [tmp_path / f"code{number}" for number in range(3)]
    chain = [here.filter(f"f{n}", f"exit $(cat {code})\n") for n, code in enumerate(codes)]
    here.set(ActivationFilterProgram=";".join(chain))
    for place in range(4):
        before = len(here.calls())
        for number, code in enumerate(codes):
            code.write_text("4" if number == place else "0")
        job = here.head.submit("true", terms={"projectname": f"p{place}"})
        forth = [f"activation f{n} p{place}" for n in range(3) if n <= place]
        back = [f"revert-activation f{n} p{place}" for n in reversed(range(3)) if n <= place < 3]
        until(lambda place=place, job=job: here.state(job) == ("Finished", "Failed")[place < 3])
        assert here.calls()[before:] == forth + back


GROWTH = {
    "exit 0": (2, ""),
    "exit 1": (1, "exit code 1: 1 more"),
    "exit 2": (1, "exit code 2: 1 more"),
    "exit 3": (1, "exit code 3: 1 more"),
    "exit 4": (1, "exit code 4: 1 more"),
    "exit 9": (1, "exit code 9: 1 more"),
    "kill -9 $$": (1, "a signal ended it"),
    "sleep 1000": (1, "no answer within 3 s"),
}


def test_a_running_job_grows_on_nothing_but_zero_and_goes_on_whatever_its_filter_says(tmp_path: Path) -> None:
    with real_head(tmp_path / "head", processors=2 * len(GROWTH)) as running:
        here = Site(tmp_path, running)
        text = 'grep -q State=.Running "$1" || exit 0\necho $5 more\n'
        text += 'eval "$(sed -n \'s/.* Project="\\([^"]*\\)".*/\\1/p\' "$1")"\n'
        pool = here.filter("pool", text)
        here.set(ActivationFilterProgram=f"template=asked {pool}", ActivationFilterTimeout="3")
        jobs = {
            what: here.head.submit(
                "sleep 1000", terms={"numprocessors": "1-2", "projectname": what, "jobtemplate": "asked"}
            )
            for what in GROWTH
        }
        until(lambda: all(held_by(here, job) == (1, "Running") for job in jobs.values()))
        for job in jobs.values():
            here.head.ask("add_tasks", job=job, tasks=[{"command": "sleep 1000"}])
        for what, (size, expected) in GROWTH.items():
            until(lambda job=jobs[what], expected=expected: expected in answered(here, job))
            until(lambda job=jobs[what], size=size: held_by(here, job) == (size, "Running"))
        for job in jobs.values():
            here.head.ask("cancel_job", job=job, force=True)


def answered(here: Site, job: int) -> str:
    """Return all that the history of a job says of its filters."""
    answer = [each["text"] for each in here.head.ask("job_history", job=job)["history"]]
    return "; ".join(each for each in answer if "filter" in each)


def held_by(here: Site, job: int) -> tuple[int, str]:
    """Return how many processors a job holds, and its state."""
    found = here.head.ask("job", job=job)["job"]
    return sum(len(each["processors"]) for each in found["allocation"]), found["state"]


def test_a_filter_is_tried_without_the_queue(here: Site) -> None:
    path = here.filter("names", changes_to("physics"))
    text = 'name = "a"\nproject = "x"\n[[tasks]]\ncommand = "true"\n'
    found = here.head.ask("test_filter", filter=path, jobfile=text)
    assert (found["exit_code"], found["reverted"]) == (1, True)
    assert found["changes"] == [{"name": "project", "before": "x", "after": "physics"}]
    here.set(ActivationFilterProgram=here.filter("pool", "echo busy; exit 1\n"))
    found = here.head.ask("test_filter", filter="pool", jobfile=text, resources=4)
    assert found["outcome"] == "the job waits, and so do all of its priority and below"
    assert here.head.ask("jobs")["total"] == here.job - 1
    assert [each["name"] for each in here.head.ask("filters")["filters"]] == ["pool"]


def test_the_examples_do_what_their_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (EXAMPLES / "plug-in" / "src" / "site_rules.py").read_text()
    (tmp_path / "packages").mkdir()
    installed = package(tmp_path / "packages", "site-rules", rules, ":SiteRules")
    monkeypatch.setenv("PYTHONPATH", installed["PYTHONPATH"])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    projects = tmp_path / "projects"
    projects.write_text("# name, largest, owners\nlattice 1 root,ada\n")
    with site(tmp_path) as here:
        here.set(
            SubmissionFilterProgram=f"{EXAMPLES}/name-policy.sh; "
            f"dialect=native-json {EXAMPLES}/project-quota.py {projects}; plugin:site-rules",
            ActivationFilterProgram=f"{EXAMPLES}/licence-pool.py solver:1; plugin:site-rules",
            ActivationFilterInterval="1",
        )
        job = here.head.submit("sleep 1000", terms={"license": "solver:1"})
        found = here.head.ask("job", job=job)["job"]
        assert (found["name"], found["project"], found["run_time"]) == ("misc-unnamed", "lattice", 86400)
        until(lambda: here.state(job) == "Running")
        with pytest.raises(HeadnodeError, match="GROUP-WORK"):
            here.head.submit("true", terms={"jobname": "Nothing At All"})
        with pytest.raises(HeadnodeError, match="at most 1 processors"):
            here.head.submit("true", terms={"numprocessors": "2"})
        other = here.head.submit("true", terms={"license": "solver:1", "jobname": "phys-a"})
        until(lambda: "not enough licences" in here.head.ask("job", job=other)["job"]["pending_reason"])
        here.head.ask("cancel_job", job=job, force=True)
        until(lambda: here.state(job) == "Canceled")
        until(lambda: here.state(other) == "Finished")


HPC_FILTER = """
import sys
from xml.dom import minidom

document = minidom.parse(sys.argv[1])
job = document.documentElement


def attribute(node, name):
    if not node.hasAttribute(name):
        sys.exit(f"no attribute {name}")
    return node.getAttribute(name)


def log(text):
    with open(LOG, "a") as file:
        file.write(text + "\\n")


template, unit = attribute(job, "JobTemplate"), {"Core": "Cores"}[attribute(job, "UnitType")]
most, phase = int(attribute(job, "Max" + unit)), attribute(job, "State")
for name in ("OrderBy", "AutoRequeueCount", "PendingReason", "Progress", "ProgressMessage", "NotifyOnStart"):
    attribute(job, name)
tasks = document.getElementsByTagName("Task")
groups = {attribute(task, "GroupId") for task in tasks}
last = max(int(attribute(task, "EndValue")) for task in tasks)
if len(sys.argv) == 2:
    log(f"submission {phase} {template} {most} {last} {len(groups)}")
    if template != "Default" or attribute(job, "Name"):
        sys.exit(2)
    job.setAttribute("Name", "renamed")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        document.writexml(file)
    sys.exit(1)
log(f"activation {phase} {template} {attribute(job, 'Name')} " + " ".join(sys.argv[3:]))
"""


def test_a_filter_that_reads_the_attributes_of_hpc_pack_by_name_works_unchanged(
    here: Site, tmp_path: Path
) -> None:
    program, log = tmp_path / "filter.py", tmp_path / "log"
    program.write_text(f"#!{sys.executable}\nLOG = {str(log)!r}\n{HPC_FILTER}")
    program.chmod(0o700)
    here.set(SubmissionFilterProgram=f"revert=no {program}", ActivationFilterProgram=f"revert=no {program}")
    task = {"command": "true", "parametric": "1-3"}
    job = here.head.ask("submit_job", tasks=[task])["job"]
    until(lambda: here.state(job) == "Finished")
    assert here.head.ask("job", job=job)["job"]["name"] == "renamed"
    assert log.read_text().splitlines() == [
        "submission Validating Default 3 3 1",
        "activation Queued Default renamed 1 false 2",
    ]


def test_each_of_many_submissions_goes_through_the_chain_and_is_answered_by_itself(here: Site) -> None:
    here.set(SubmissionFilterProgram=here.filter("rule", 'grep -q \'Project="good\' "$1" || exit 3\n'))
    described = [
        {"terms": {"project": project}, "tasks": [{"command": "true"}]}
        for project in ("good", "bad", "good2")
    ]
    request = {"submissions": described, "idempotency": "k"}
    answer, again = (here.head.ask("submit_jobs", **request) for _ in range(2))
    for reply in (answer, again):
        first, second, third = reply["submissions"]
        assert "refused" not in first | third
        assert (second["refused"]["code"], second["refused"]["path"]) == (
            "submission-filter",
            ["submissions", 1],
        )
        assert here.state(second["job"]) == "Failed"
    assert again["jobs"] == answer["jobs"]
    asked = [call.split()[-1] for call in here.calls() if call.startswith("submission")]
    assert sorted(asked) == ["bad", "good", "good2"]


def test_a_hold_that_an_activation_filter_set_is_lifted_or_moved_by_the_owner(here: Site) -> None:
    """HPC Pack, "Activation filters": exit code 3 holds a job; its HoldUntil may be changed."""
    gate = here.folder / "open"
    here.set(ActivationFilterProgram=here.filter("gate", f"test -e {gate} || exit 3\n"))
    job = submit(here)

    def hold() -> float | None:
        until_when: float | None = here.head.ask("job", job=job)["job"]["hold_until"]
        return until_when

    until(lambda: hold() is not None)
    first = hold()
    assert first is not None
    assert first > time.time() + 600, "DefaultHoldDuration"
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(first + 3600))
    changed = here.head.ask("modify_job", job=job, terms={"holduntil": later})["changed"]
    assert changed == ["hold_until"]
    assert hold() == pytest.approx(first + 3600, abs=1)
    here.head.ask("modify_job", job=job, terms={"holduntil": ""})
    until(lambda: hold() is not None)
    assert len(here.calls()) == 4, "it is called again when the hold is gone, and undone again"
    gate.touch()
    assert here.head.ask("modify_job", job=job, terms={"holduntil": ""})["changed"] == ["hold_until"]
    until(lambda: here.state(job) == "Finished")
