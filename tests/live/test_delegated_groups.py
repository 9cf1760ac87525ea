"""An agent of an ordinary user uses the control groups that were delegated to it, as by Delegate=yes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_scene import Scene, a_python_for

from headnode.adapters.processes import cgroups
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

NOBODY = 65534
ROOT = Path("/sys/fs/cgroup")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can delegate a control group"),
    pytest.mark.skipif(not (ROOT / "cgroup.controllers").exists(), reason="version 2 is not alone here"),
]
ENTER = 'echo $$ > "$0/cgroup.procs"; exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"'


@pytest.fixture
def delegated() -> Iterator[Path]:
    """Return a group that belongs to nobody, with what systemd gives to the owner."""
    cgroups.switch_on()
    group = ROOT / "delegated.service"
    group.mkdir()
    for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(group / name, NOBODY, NOBODY)
    yield group
    cgroups.kill(group)
    assert cgroups.end("unknown", 5.0)
    while not cgroups.remove(group):
        pass


def test_a_user_with_a_group_of_its_own_is_served_as_root_is(delegated: Path) -> None:
    python = a_python_for(NOBODY)
    folder = Path("/tmp") / f"delegated-{os.getpid()}"  # where everybody may walk
    folder.mkdir()
    scene = Scene(folder)
    for place in (folder, scene.work):
        os.chown(place, NOBODY, NOBODY)
    scene.head.path.chmod(0o666)
    scene.python = python
    scene.before = ["/bin/sh", "-c", ENTER, str(delegated)]
    with scene:
        facts = scene.head.hellos[0].facts
        assert (facts.control_groups, set(facts.enforced)) == ("v2", {"memory", "processes", "processors"})
        hold = "/usr/bin/python3 -I -S -c 'x = b\"x\" * 300_000_000; import time; time.sleep(60)'"
        task = TaskSpec(command=hold, work_directory=str(scene.work))
        scene.head.open(JobSpec(tasks=(task,), process_memory=100), uid=NOBODY)
        scene.head.run(1, (1, 1))
        ended = scene.head.result(1)
        assert "needed more than the 100 MB" in ended.message
        assert list(delegated.glob("headnode-*/tasks"))
        assert (delegated / "agent" / "cgroup.procs").read_text()
        scene.kill_agent()  # another is started where that one was first: its group has groups in it by now
        scene.before = ["/bin/sh", "-c", ENTER, str(delegated / "agent")]
        scene.start()
        assert set(scene.head.hellos[-1].facts.enforced) == {"memory", "processes", "processors"}
        scene.head.close_job()
        assert not list(delegated.glob("headnode-*"))
