"""Prologs, epilogs and node filters, run by a real agent: when, how often, and what they do to tasks."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_scene import JOB, Scene, alive

from headnode.adapters import process_tree
from headnode.adapters.wire import messages as m
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec

LONG = Seconds(600.0)
UNTIL_GO = "until [ -e go ]; do sleep 0.01; done"


class Site:
    """Programs of a site that write into one log, and the scene they are for."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene, self.head, self.folder = scene, scene.head, folder
        self.log = folder / "log"
        self.filters = folder / "filters"
        self.filters.mkdir()

    def script(self, name: str, *lines: str) -> str:
        path = self.folder / name
        path.write_text("\n".join(("#!/bin/sh", f"cd {self.scene.work}", *lines, "")))
        path.chmod(0o755)
        return str(path)

    def hook(self, name: str, *lines: str) -> str:
        """Return a program that notes that it runs, and for which job."""
        return self.script(name, f"echo {name} $HEADNODE_JOB >> {self.log}", *lines)

    def filter(self, name: str, program: str) -> None:
        """Register a filter in Python: `asked` is what it is asked, and what it answers."""
        path = self.filters / f"{name}.sh"
        noted = f"open({str(self.log)!r}, 'a').write({name!r} + chr(10))"
        lines = (f"#!{sys.executable}", "import json, sys", noted, "asked = json.load(sys.stdin)", program)
        path.write_text("\n".join((*lines, "json.dump(asked, sys.stdout)", "")))
        path.chmod(0o755)

    def open(self, *commands: str, **hooks: Any) -> None:
        tasks = tuple(TaskSpec(command=each, work_directory=str(self.scene.work)) for each in commands)
        times = {f"{name}_timeout": LONG for name in ("prolog", "epilog", "filter")}
        self.head.open(JobSpec(name="a name", tasks=tasks), hooks=m.Hooks(**{**times, **hooks}))

    def noted(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def until_ready(self) -> None:
        self.head.until(lambda: JOB in self.head.ready)

    def go(self) -> None:
        (self.scene.work / "go").touch()

    def close(self) -> None:
        self.head.close_job()
        assert list((self.scene.state / "jobs").iterdir()) == []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Scene(tmp_path) as scene:
        yield Site(scene, tmp_path)


def test_a_prolog_ends_before_anything_of_the_user_and_an_epilog_begins_after_all_of_it(site: Site) -> None:
    prolog = site.hook("prolog", UNTIL_GO, f"env > {site.folder}/env")
    epilog = site.hook("epilog", f"if kill -0 $(cat stray); then echo alive; fi >> {site.log}")
    task = f"echo task >> {site.log}; setsid sleep 300 & echo $! > stray.new; mv stray.new stray; wait"
    site.open(task, prolog=prolog, epilog=epilog)
    site.head.until(lambda: site.noted() == ["prolog 7"])
    assert site.scene.shepherds() == []
    site.open(task, prolog=prolog, epilog=epilog)  # said again
    site.go()
    site.until_ready()
    site.head.run(1, (1, 1))
    site.head.until(lambda: (site.scene.work / "stray").exists())
    stray = int((site.scene.work / "stray").read_text())
    site.close()
    assert site.noted() == ["prolog 7", "task", "epilog 7"]
    assert not alive(stray)
    output = dict(line.split("=", 1) for line in (site.folder / "env").read_text().splitlines())
    assert (output["HEADNODE_HOOK"], output["CCP_JOBNAME"], output["CCP_JOBID"]) == ("prolog", "a name", "7")
    assert (output["HEADNODE_UID"], output["HEADNODE_PROCESSORS"]) == (str(os.getuid()), "2")
    assert output["HEADNODE_WORK_DIRECTORY"] == str(site.scene.work)


def test_an_agent_that_is_killed_changes_nothing_about_how_often_a_hook_runs(site: Site) -> None:
    prolog, epilog = (
        site.hook("prolog", UNTIL_GO),
        site.hook("epilog", "until [ -e done ]; do sleep 0.01; done"),
    )
    site.open("exit 5", prolog=prolog, epilog=epilog)
    site.head.until(lambda: site.noted() == ["prolog 7"])
    site.scene.kill_agent()
    site.go()
    site.scene.start()
    site.until_ready()
    site.head.run(1, (1, 1))
    assert site.head.result(1).exit_code == 5
    site.head.send(m.CloseJob(JOB))
    site.head.until(lambda: site.noted() == ["prolog 7", "epilog 7"])
    site.scene.kill_agent()
    site.scene.start()
    assert site.head.hellos[-1].open_jobs == (JOB,)
    (site.scene.work / "done").touch()
    site.head.until(lambda: JOB in site.head.closed)
    assert site.noted() == ["prolog 7", "epilog 7"]


def test_a_hook_of_which_nobody_knows_how_it_ended_runs_again(site: Site) -> None:
    site.open("exit 5", prolog=site.hook("prolog", UNTIL_GO))
    site.head.until(lambda: site.noted() == ["prolog 7"])
    (keeper,) = (
        number
        for number in process_tree.picture()
        if b"processes.hook_runner" in _command(number) and _holds(number, site.scene.state)
    )
    os.kill(keeper, signal.SIGKILL)
    site.head.until(lambda: site.noted() == ["prolog 7", "prolog 7"])
    site.go()
    site.until_ready()
    site.close()


def _command(number: int) -> bytes:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def _holds(number: int, folder: Path) -> bool:
    with contextlib.suppress(OSError):  # somebody else's, that ends
        links = Path(f"/proc/{number}/fd").iterdir()
        return any(str(link.readlink()).startswith(str(folder)) for link in links)
    return False


@pytest.mark.parametrize(("lines", "timeout", "why"), [
    (("echo no disk; exit 3",), LONG, "ended with exit code 3: no disk"),
    (("sleep 300",), Seconds(0.2), "did not end within 0.2 s"),
])  # fmt: skip
def test_a_prolog_that_fails_is_told_until_it_is_heard_and_nothing_runs(
    site: Site, lines: tuple[str, ...], timeout: Seconds, why: str
) -> None:
    prolog, epilog = site.hook("prolog", *lines), site.hook("epilog", "echo $HEADNODE_PROLOG >> ../log")
    site.open("exit 5", prolog=prolog, prolog_timeout=timeout, epilog=epilog)
    site.head.until(lambda: site.head.failed)
    assert (site.head.failed[0].job, site.head.failed[0].hook) == (JOB, "prolog")
    assert site.head.failed[0].message == f"the prolog {prolog!r} {why}"
    site.head.run(1, (1, 1))
    assert site.head.result(1).kind == "never-ran"
    before = len(site.head.failed)
    site.scene.kill_agent()
    site.scene.start()
    site.head.until(lambda: len(site.head.failed) > before)
    site.head.send(m.HookFailureAck(JOB, "prolog"))
    site.close()
    assert site.noted() == ["prolog 7", "epilog 7", "failed"]
    assert site.head.ready == []


def test_what_failed_is_reported_by_its_name_also_when_the_job_leaves_before_it_is_heard(site: Site) -> None:
    prolog = site.hook("prolog", "exit 3")
    site.open("exit 5", prolog=prolog, epilog=site.hook("epilog", UNTIL_GO, "exit 4"))
    site.head.until(lambda: site.head.failed)
    site.head.send(m.CloseJob(JOB))
    site.head.until(lambda: site.noted() == ["prolog 7", "epilog 7"])
    site.scene.kill_agent()
    before = len(site.head.failed)
    site.scene.start()
    site.head.until(lambda: len(site.head.failed) > before)
    site.head.send(m.HookFailureAck(JOB, "prolog"))
    site.go()
    site.head.until(lambda: JOB in site.head.closed)
    assert {failed.hook: failed.message[-1] for failed in site.head.failed} == {"prolog": "3", "epilog": "4"}
    site.head.send(m.HookFailureAck(JOB, "epilog"))
    site.head.until(lambda: not list((site.scene.state / "jobs").iterdir()))


def test_an_epilog_that_fails_is_told_until_it_is_heard_though_the_job_is_closed(site: Site) -> None:
    site.open("exit 5", epilog=site.hook("epilog", "echo cannot remove it >&2; exit 1"))
    site.until_ready()
    site.head.close_job()
    site.scene.kill_agent()
    before = len(site.head.failed)
    site.scene.start()
    site.head.until(lambda: len(site.head.failed) > before)
    assert site.head.failed[-1].hook == "epilog"
    assert site.head.failed[-1].message.endswith("ended with exit code 1: cannot remove it")
    site.head.send(m.HookFailureAck(JOB, "epilog"))
    site.head.until(lambda: not list((site.scene.state / "jobs").iterdir()))
    assert site.noted() == ["epilog 7"]


def test_the_first_task_and_later_ones_and_the_end_have_each_their_filter(site: Site) -> None:
    for name in ("OnJobTaskStart", "OnTaskStart", "OnJobEnd"):
        site.filter(name, f"open({str(site.folder)!r} + '/{name}', 'w').write(json.dumps(asked))")
    site.open("exit 5", "exit 6", filters=str(site.filters))
    site.until_ready()
    site.head.run(1, (1, 1))
    assert site.head.result(1).exit_code == 5
    site.head.run(2, (1, 1), (2, 3))
    assert [site.head.result(2, *who).exit_code for who in ((1, 1), (2, 3))] == [6, 6]
    site.scene.kill_agent()  # between the last task and the end
    site.scene.start()
    site.close()
    assert site.noted() == ["OnJobTaskStart", "OnTaskStart", "OnTaskStart", "OnJobEnd"]
    asked = json.loads((site.folder / "OnTaskStart").read_text())
    assert asked["m_Item1"] == {"JobId": 7, "TaskId": 2, "ResIds": [0]}
    start = asked["m_Item2"]
    assert (start["commandLine"], start["taskRequeueCount"]) == ("exit 6", 2)
    assert start["environmentVariables"]["CCP_TASKINSTANCEID"] == "0"
    at_end = json.loads((site.folder / "OnJobEnd").read_text())
    assert at_end["m_Item1"]["JobId"] == 7
    assert asked["m_Item3"] == at_end["m_Item3"] != ""


def test_a_filter_changes_how_a_task_runs_and_by_what_it_is_known_stays(site: Site) -> None:
    other = site.folder / "other"
    other.mkdir()
    site.filter(
        "OnJobTaskStart",
        f"""start = asked["m_Item2"]
start["commandLine"] = "echo $SEEN $HEADNODE_TASK; pwd; cat; " + start["commandLine"]
start["environmentVariables"] = {{"SEEN": "by the filter", "PATH": "/usr/bin:/bin"}}
start["workingDirectory"] = {str(other)!r}
start["stdin"], start["stdout"] = "in", "out"
start["affinity"] = []""",
    )
    (other / "in").write_text("input\n")
    site.open("exit 5", filters=str(site.filters))
    site.until_ready()
    site.head.run(1, (1, 1))
    assert site.head.result(1).exit_code == 5
    assert (other / "out").read_text() == f"by the filter 7.1.1.1\n{other}\ninput\n"


WRONG = {
    "sys.exit(191)": "ended with exit code 191: the download of its input files failed",
    "sys.exit(192)": "ended with exit code 192: the upload of its output files failed",
    "print('no room', file=sys.stderr); sys.exit(1)": "ended with exit code 1; no room",
    "print('what?'); sys.exit(0)": "writes text that is not JSON: ",
    "asked['m_Item3'] = 'root2'": "changes the user from ",
    "asked['m_Item2'] = 5": "writes JSON without the object m_Item2",
    "import time; time.sleep(300)": "did not end within 2 s",
}


@pytest.mark.parametrize("program", list(WRONG))
def test_a_task_does_not_start_whose_filter_fails_and_the_next_one_may(site: Site, program: str) -> None:
    site.filter("OnJobTaskStart", f"if asked['m_Item1']['TaskId'] == 1:\n    {program}")
    timeout = Seconds(2.0) if "sleep" in program else LONG
    site.open("touch ran", "exit 6", filters=str(site.filters), filter_timeout=timeout)
    site.until_ready()
    site.head.run(1, (1, 1))
    result = site.head.result(1)
    assert (result.kind, WRONG[program] in result.message) == ("not-started", True), result.message
    assert result.message.startswith("the node filter '")
    site.head.run(2, (1, 1))
    assert site.head.result(2).exit_code == 6
    assert site.noted() == ["OnJobTaskStart", "OnJobTaskStart"]
    assert not (site.scene.work / "ran").exists()


def test_what_waits_for_its_filter_is_known_is_not_run_twice_and_can_be_taken_back(site: Site) -> None:
    site.filter("OnJobTaskStart", "import time\nwhile True: time.sleep(0.01)")
    site.open("touch ran", filters=str(site.filters))
    site.until_ready()
    site.head.run(1, (1, 1), (2, 1))
    site.head.run(1, (1, 1), (2, 1))
    site.head.until(lambda: site.noted() == ["OnJobTaskStart"])
    site.head.send(m.Stop(JOB, ((1, 2, 1),)))
    assert site.head.result(1, 2).kind == "never-ran"
    site.close()
    assert site.head.result(1, 1).kind == "never-ran"
    assert site.noted() == ["OnJobTaskStart"]


def test_filters_that_are_taken_away_are_asked_no_more_also_about_a_job_that_runs(site: Site) -> None:
    site.filter("OnJobTaskStart", "")
    site.filter("OnTaskStart", "sys.exit(1)")
    site.open("exit 5", "exit 6", filters=str(site.filters))
    site.until_ready()
    site.head.run(1, (1, 1))
    assert site.head.result(1).exit_code == 5
    site.head.open(site.head.spec, hooks=None)
    site.head.run(2, (1, 1))
    assert site.head.result(2).exit_code == 6
    site.close()
    assert site.noted() == ["OnJobTaskStart"]


def test_filters_that_others_could_have_written_are_not_run_and_the_node_is_no_place_for_jobs(
    site: Site,
) -> None:
    site.filter("OnTaskStart", "")
    (site.filters / "OnTaskStart.sh").chmod(0o777)
    site.open("touch ran", filters=str(site.filters))
    site.head.until(lambda: site.head.failed)
    assert "OnTaskStart.sh' can be changed by " in site.head.failed[0].message
    site.head.send(m.HookFailureAck(JOB, "prolog"))
    site.close()


def test_no_task_runs_unseen_because_a_filter_became_one_that_others_could_have_written(site: Site) -> None:
    site.filter("OnTaskStart", "")
    site.open("touch ran", filters=str(site.filters))
    site.until_ready()
    (site.filters / "OnTaskStart.sh").chmod(0o777)
    site.scene.kill_agent()
    site.scene.start()
    site.head.run(1, (1, 1))
    result = site.head.result(1)
    assert (result.kind, "can be changed by " in result.message) == ("not-started", True)
    site.close()
    assert not (site.scene.work / "ran").exists()


def test_a_job_without_hooks_is_as_it_was(site: Site) -> None:
    site.scene.job("exit 5")
    site.head.run(1, (1, 1))
    assert site.head.result(1).exit_code == 5
    assert site.head.ready == []
    site.head.close_job()
