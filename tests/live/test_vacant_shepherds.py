"""A shepherd serves one job of its user after the other; nothing of a job is left for the next one."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_scene import Scene, alive

from headnode.adapters.wire.messages import Hooks
from headnode.core.launching.recipe import captured_path
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec

NOBODY = 65534
LONG = Seconds(60.0)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks of other users")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path) as scene, tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:
        scene.work = Path(open_to_all)
        scene.work.chmod(0o777)
        yield scene


def begin(scene: Scene, number: int, command: str = "", **more: object) -> None:
    """Open a job whose task writes the process of its shepherd, and run it."""
    line = f"echo $PPID > {number}; {command or 'true'}"
    spec = JobSpec(name="test", tasks=(TaskSpec(command=line, work_directory=str(scene.work)),))
    scene.head.results.clear()
    scene.head.open(spec, JobId(number), **more)
    scene.head.run(1, (1, 1), job=JobId(number))


def served(scene: Scene, number: int, command: str = "", **more: object) -> tuple[int, AttemptOutcome]:
    """Run a job and close it; return the shepherd that served it, and how its task ended."""
    begin(scene, number, command, **more)
    result = scene.head.result(1)
    scene.head.close_job(JobId(number))
    return scene.number(str(number)), result


def test_one_shepherd_serves_one_job_of_its_user_after_the_other(scene: Scene) -> None:
    assert len({served(scene, number)[0] for number in range(1, 6)}) == 1


def test_the_next_job_has_its_own_output_variables_and_deadline(scene: Scene) -> None:
    send = 'echo "$HEADNODE_JOB $HEADNODE_SHEPHERD"'
    first, _ = served(scene, 1, send)
    second, _ = served(scene, 2, send)
    assert first == second
    found = [
        Path(captured_path(str(scene.state / "output"), JobId(n), 1, 1)).read_text().split() for n in (1, 2)
    ]
    assert [job for job, _ in found] == ["1", "2"]
    assert found[0][1] != found[1][1]
    third, result = served(scene, 3, "sleep 300", deadline=Instant(time.time() + 1.0))
    assert (third, result.kind) == (first, "timed-out")
    fourth, result = served(scene, 4, "exit 5")
    assert (fourth, result.exit_code) == (first, 5)


def test_nothing_that_a_job_left_running_lives_when_the_next_begins(scene: Scene) -> None:
    left = "trap '' TERM; setsid sh -c 'echo $$ > left; exec sleep 300' & while [ ! -s left ]; do :; done"
    first, _ = served(scene, 1, left)
    ran = scene.number("left")
    second, _ = served(scene, 2, f"kill -0 {ran} && echo alive > found; true")
    assert first == second
    assert not alive(ran)
    assert scene.written("found") == ""


def test_results_that_the_head_acknowledges_late_keep_no_shepherd_from_the_next_job(scene: Scene) -> None:
    begin(scene, 1)
    scene.head.acknowledges = False
    scene.head.result(1)
    scene.head.send_closed(JobId(1))
    begin(scene, 2)
    assert scene.number("2") == scene.number("1")
    scene.head.acknowledge()
    scene.head.until(lambda: 1 in scene.head.closed)
    scene.head.close_job(JobId(2))


def test_a_job_that_is_canceled_ends_with_all_it_has_and_its_shepherd(scene: Scene) -> None:
    begin(scene, 1, "sleep 300")
    first = scene.number("1")
    scene.head.close_job(JobId(1))
    scene.head.until(lambda: not alive(first))
    assert served(scene, 2)[0] != first


@as_root
@pytest.mark.root
def test_a_shepherd_serves_no_other_user(scene: Scene) -> None:
    mine, _ = served(scene, 1)
    theirs, _ = served(scene, 2, "id -u > who", uid=NOBODY)
    assert mine != theirs
    assert scene.written("who") == f"{NOBODY}\n"
    assert served(scene, 3)[0] == mine
    assert served(scene, 4, uid=NOBODY)[0] == theirs
    assert (scene.state / "output" / "4").stat().st_uid == NOBODY


def test_jobs_around_which_the_site_does_something_have_shepherds_of_their_own(scene: Scene) -> None:
    hooks = Hooks(prolog="/bin/true", prolog_timeout=LONG)
    first, _ = served(scene, 1)
    spec = JobSpec(name="test", tasks=(TaskSpec(command="echo $PPID > 2", work_directory=str(scene.work)),))
    scene.head.results.clear()
    scene.head.open(spec, JobId(2), hooks=hooks)
    scene.head.until(lambda: 2 in scene.head.ready)
    scene.head.run(1, (1, 1), job=JobId(2))
    scene.head.result(1)
    scene.head.close_job(JobId(2))
    assert scene.number("2") != first
    scene.head.until(lambda: not alive(scene.number("2")))


def test_limits_of_a_job_on_its_processes_need_a_shepherd_of_its_own(scene: Scene) -> None:
    first, _ = served(scene, 1)
    limited, _ = served(scene, 2, max_processes=1000)
    assert limited != first
    assert served(scene, 3)[0] == first


def test_a_shepherd_that_was_killed_without_a_job_is_replaced(scene: Scene) -> None:
    first, _ = served(scene, 1)
    os.kill(first, signal.SIGKILL)
    begin(scene, 2)
    if scene.head.result(1).kind == "never-ran":  # its death was not known yet: the head runs the task again
        begin(scene, 3)
    assert scene.head.result(1).exit_code == 0


def test_a_shepherd_that_stands_still_between_two_jobs_holds_no_job_up(scene: Scene) -> None:
    begin(scene, 1)
    scene.head.result(1)
    first = scene.number("1")
    os.kill(first, signal.SIGSTOP)
    scene.head.send_closed(JobId(1))
    second, result = served(scene, 2)
    assert second != first
    assert result.exit_code == 0
    os.kill(first, signal.SIGCONT)


def test_a_shepherd_without_a_job_ends_with_its_agent_and_leaves_nothing(scene: Scene) -> None:
    first, _ = served(scene, 1)
    scene.head.until(lambda: list((scene.state / "jobs").glob("*.vacant")))
    scene.kill_agent()
    scene.head.until(lambda: not alive(first))
    scene.start()
    assert list((scene.state / "jobs").iterdir()) == []
    assert served(scene, 2)[0] != first


def test_an_agent_that_is_killed_with_the_second_job_of_a_shepherd_finds_it_again(scene: Scene) -> None:
    first, _ = served(scene, 1)
    begin(scene, 2, "while [ ! -e go ]; do sleep 0.02; done; exit 4")
    assert scene.number("2") == first
    scene.kill_agent()
    scene.start()
    assert any(job == 2 for job in scene.head.hellos[-1].open_jobs)
    (scene.work / "go").touch()
    assert scene.head.result(1).exit_code == 4


def test_an_agent_that_is_killed_before_its_shepherd_has_read_the_next_job_finds_it_again(
    scene: Scene,
) -> None:
    first, _ = served(scene, 1)
    scene.head.until(lambda: list((scene.state / "jobs").glob("*.vacant")))
    os.kill(first, signal.SIGSTOP)
    begin(scene, 2, "echo ran >> runs; exit 4")
    scene.head.open(scene.head.spec, JobId(3), hooks=Hooks(prolog="/bin/true", prolog_timeout=LONG))
    scene.head.until(lambda: 3 in scene.head.ready)  # all that was said before it is on its way
    scene.kill_agent()
    os.kill(first, signal.SIGCONT)
    scene.start()
    assert any(job == 2 for job in scene.head.hellos[-1].open_jobs)
    scene.head.run(1, (1, 1), job=JobId(2))  # as a head that has not heard of it
    assert scene.head.result(1).exit_code == 4
    assert scene.written("runs") == "ran\n"
    assert scene.number("2") == first


def test_a_shepherd_that_is_killed_in_its_second_job_loses_that_job_only(scene: Scene) -> None:
    first, _ = served(scene, 1)
    begin(scene, 2, "sleep 300")
    assert scene.number("2") == first
    scene.head.until(lambda: scene.head.started)
    os.kill(first, signal.SIGKILL)
    assert scene.head.result(1).kind == "lost"
    scene.head.close_job(JobId(2))
    assert served(scene, 3)[1].exit_code == 0


def test_a_shepherd_without_a_job_ends_after_a_while(scene: Scene) -> None:
    first, _ = served(scene, 1)
    scene.head.until(lambda: not alive(first))
    scene.head.until(
        lambda: not list((scene.state / "jobs").iterdir())
    )  # its agent hears of it a moment later
