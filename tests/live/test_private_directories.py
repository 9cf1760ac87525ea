"""A task with a private directory starts in a new and empty one, which is gone when it is over."""

from agent_scene import Scene, scene_fixture

from headnode.core.model.task import TaskType

scene = scene_fixture()


def left(scene: Scene) -> list[str]:
    return sorted(each.name for each in scene.work.iterdir())


def test_each_instance_has_a_directory_of_its_own_for_itself_alone(scene: Scene) -> None:
    show = "ls -A; stat -c %a .; pwd; echo data > here; mkdir -p deep/er; chmod 0 deep; cat here"
    scene.job(show, private_directory=True, kind=TaskType.SWEEP, start=1, end=2)
    scene.head.run(1, (1, 1), (2, 1))
    places = []
    for instance in (1, 2):
        assert scene.head.result(1, instance).exit_code == 0
        mode, place, found = scene.captured(1, instance).read_text().split()
        assert (mode, found) == ("700", "data")
        assert place.startswith(f"{scene.work}/headnode-7.1.{instance}.1-")
        places.append(place)
    assert len(set(places)) == 2
    scene.head.close_job()
    assert left(scene) == []


def test_files_of_the_task_lie_there_unless_their_paths_are_absolute(scene: Scene) -> None:
    kept = scene.work / "kept"
    scene.job(f"ls > {kept}; echo mine", private_directory=True, standard_output="out", standard_error="err")
    scene.head.run(1, (1, 1))
    assert scene.head.result(1).exit_code == 0
    scene.head.close_job()
    assert kept.read_text().split() == ["err", "out"]
    assert left(scene) == ["kept"]


def test_without_a_work_directory_it_is_where_temporary_files_go(scene: Scene) -> None:
    scratch = scene.folder / "scratch"
    scratch.mkdir()
    scene.job("pwd", private_directory=True, work_directory="", environment={"TMPDIR": str(scratch)})
    scene.head.run(1, (1, 1))
    assert scene.head.result(1).exit_code == 0
    assert scene.captured(1).read_text().startswith(f"{scratch}/headnode-7.1.1.1-")
    scene.head.close_job()
    assert list(scratch.iterdir()) == []


def test_one_that_cannot_be_made_fails_the_task_with_a_reason(scene: Scene) -> None:
    scene.job("pwd", private_directory=True, work_directory="/nothing-such")
    scene.head.run(1, (1, 1))
    ended = scene.head.result(1)
    assert ended.kind == "not-started"
    assert "the private directory '/nothing-such/headnode-7.1.1.1-" in ended.message
    assert "no such file or directory" in ended.message


def test_nothing_is_left_of_a_task_that_cannot_start_or_is_killed(scene: Scene) -> None:
    scene.job("nothing-such > x", "nothing-such", "echo x > x; sleep 100", private_directory=True)
    for task in (1, 2, 3):
        scene.head.run(task, (1, 1), processor=task)
    assert scene.head.result(2).kind == "not-started"
    scene.head.until(lambda: any("headnode-7.3" in name for name in left(scene)))
    scene.head.close_job()
    assert left(scene) == []
