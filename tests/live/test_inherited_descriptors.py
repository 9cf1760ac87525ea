"""A program that Headnode starts has standard input, output and error, and no other open file.

A program of a user must not inherit what a process of root has open.  A program that can write to the list of
processes of a control group can put any process into it, and the group is killed when the task ends.
Run with control groups (of version 2 alone in a guest: `make test-cgroup2`), without, as root and as a user.
"""

import asyncio
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_scene import JOB, Scene
from test_filter_programs import called
from test_node_limits import (  # noqa: F401 - fixtures
    NOBODY,
    ROOT,
    folder,
    grouped,
    printed_words,
    python,
    run,
    scene,
    submit,
    with_groups,
)

from headnode.adapters.processes.program_start import receive_files
from headnode.adapters.processes.site_programs import ask_site_program, run_site_program
from headnode.adapters.wire import messages as m
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec

LIST = "ls /proc/$$/fd; :"  # not the last command, which the shell would become
STANDARD = ["0", "1", "2"]


def test_a_task_has_only_the_standard_streams(scene: Scene) -> None:  # noqa: F811
    run(scene, f"/bin/sh -c '{LIST}'")
    assert printed_words(scene) == STANDARD


def test_a_task_with_limits_has_only_the_standard_streams(scene: Scene) -> None:  # noqa: F811
    more = {} if scene.user else {"memory_limited": True}
    submit(scene, f"/bin/sh -c '{LIST}'", bound=True, max_processes=9, **more)
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    assert printed_words(scene) == STANDARD


@with_groups
@pytest.mark.skipif(not ROOT, reason="only root runs tasks of others")
def test_no_task_puts_a_process_of_somebody_else_into_a_group_that_is_killed(grouped: Scene) -> None:  # noqa: F811
    """The task writes the number of a process of root to each of its descriptors."""
    grouped.work.chmod(0o777)
    with subprocess.Popen(["sleep", "600"]) as victim:
        try:
            program = python(
                grouped,
                "writes.py",
                "import os\n"
                "for descriptor in range(3, 1024):\n"
                f"    try: print(os.write(descriptor, b'{victim.pid}'))\n"
                "    except OSError: pass\n",
            )
            before = Path(f"/proc/{victim.pid}/cgroup").read_text()
            result = run(grouped, program, uid=NOBODY, memory_limited=True, bound=True)
            assert result.exit_code == 0
            assert printed_words(grouped) == []
            assert Path(f"/proc/{victim.pid}/cgroup").read_text() == before
            grouped.head.close_job()
            assert victim.poll() is None
        finally:
            victim.kill()


def test_prologs_epilogs_and_node_filters_have_only_the_standard_streams(scene: Scene) -> None:  # noqa: F811
    work = scene.work

    def script(name: str, last: str = "") -> str:
        path = scene.folder / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n/bin/sh -c '{LIST}' > {work}/{name}\n{last}\n")
        path.chmod(0o755)
        return str(path)

    filters = scene.folder / "filters"
    filters.mkdir()
    for name in ("OnJobTaskStart", "OnTaskStart", "OnJobEnd"):
        (filters / f"{name}.sh").write_text(Path(script(name, "cat")).read_text())
        (filters / f"{name}.sh").chmod(0o755)
    if scene.user is not None:
        for path in (filters, *filters.iterdir(), *scene.folder.glob("*.sh")):
            os.chown(path, scene.user, scene.user)
    times = {f"{name}_timeout": Seconds(600.0) for name in ("prolog", "epilog", "filter")}
    hooks = m.Hooks(prolog=script("prolog"), epilog=script("epilog"), filters=str(filters), **times)
    spec = JobSpec(tasks=(TaskSpec(command="true", work_directory=str(work)),) * 2)
    scene.head.open(spec, uid=scene.user, hooks=hooks)
    scene.head.until(lambda: JOB in scene.head.ready or scene.head.failed)
    for task in (1, 2):
        scene.head.run(task, (1, 1))
        assert scene.head.result(task).exit_code == 0
    scene.head.close_job()
    seen = {each.name: each.read_text().split() for each in work.iterdir()}
    assert seen == dict.fromkeys(("prolog", "epilog", "OnJobTaskStart", "OnTaskStart", "OnJobEnd"), STANDARD)


def test_submission_and_activation_filters_have_only_the_standard_streams(tmp_path: Path) -> None:
    for kind in ("submission", "activation"):
        called(tmp_path, f"/bin/sh -c '{LIST}' > {tmp_path}/{kind}", kind=kind)
        assert (tmp_path / kind).read_text().split() == STANDARD


def test_programs_of_the_site_have_only_the_standard_streams(tmp_path: Path) -> None:
    """Health checks and licence counters."""
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n/bin/sh -c '{LIST}'\n")
    path.chmod(0o755)

    async def both() -> list[Any]:
        return [
            await run_site_program(str(path), "the program", {}, 60.0, 1000),
            await ask_site_program(str(path), "the program", {}, 60.0, 1000, b"a question"),
        ]

    for ran in asyncio.run(both()):
        assert ran.output.decode().split() == STANDARD


def test_received_files_are_closed_on_exec_and_too_many_are_refused() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(theirs, [b"three"], [0, 1, 2])
        data, files = receive_files(ours, 100, 3)
        assert (data, len(files)) == (b"three", 3)
        assert [os.get_inheritable(file) for file in files] == [False] * 3
        for file in files:
            os.close(file)
        before = len(list(Path("/proc/self/fd").iterdir()))
        socket.send_fds(theirs, [b"many"], [0, 1, 2])
        with pytest.raises(OSError, match="more than 1"):
            receive_files(ours, 100, 1)
        assert len(list(Path("/proc/self/fd").iterdir())) == before
