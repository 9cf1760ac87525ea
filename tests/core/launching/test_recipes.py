"""A task instance becomes what to run."""

import pytest

from headnode.core.launching.environment import (
    INFINITE_RUN_TIME,
    OVERFLOW,
    LaunchContext,
    host_files,
    process_order,
    process_places,
)
from headnode.core.launching.expansion import expand_path, expand_percent
from headnode.core.launching.recipe import Recipe, RecipeBuilder, captured_name, captured_path, recipe
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.task import Distribution, TaskSpec, TaskType, argv_of
from headnode.core.state.job_events import NodeCores

HERE: NodeCores = (("n1", (2, 3)),)
BASE = {"HOME": "/home/ann", "USER": "ann", "PATH": "/usr/bin:/bin"}


def made(
    task: TaskSpec,
    *,
    spec: JobSpec | None = None,
    place: NodeCores = HERE,
    instance: int = 1,
    attempt: int = 1,
) -> Recipe:
    around = LaunchContext(
        job=JobId(7),
        spec=spec or JobSpec(name="weather"),
        node="n1",
        cluster="blue",
        scheduler="head",
        base=BASE,
        marker="abc",
        processors_per_socket=4,
    )
    return recipe(around, 3, task, place, instance, attempt)


def sweep(**more: object) -> TaskSpec:
    return TaskSpec(kind=TaskType.SWEEP, start=10, end=20, increment=5, **more)


def test_a_plain_command_line_runs_without_a_shell() -> None:
    assert made(TaskSpec(command="prog -x 'one two' \"three\"")).argv == ("prog", "-x", "one two", "three")


@pytest.mark.parametrize(
    "command",
    [
        "a | b",
        "a && b",
        "a > b",
        "echo $HOME",
        "echo `id`",
        "ls *.dat",
        "a; b",
        "a\nb",
        "NAME=value prog",
        "cd /tmp",
        "exit 3",
        "ls ~",
        "it's",
        "",
        "echo a\\ b",
    ],
)
def test_anything_a_shell_must_read_goes_to_the_shell_whole(command: str) -> None:
    assert argv_of(command) == ("/bin/sh", "-c", command)


def test_the_swept_value_goes_into_command_and_paths() -> None:
    task = sweep(
        command="prog ** ^*",
        standard_input="in.*",
        standard_output="out.***.txt",
        standard_error="/logs/*.err",
        work_directory="run*",
    )
    ours = made(task, instance=3)
    assert ours.argv == ("/bin/sh", "-c", "prog 20 *")
    assert ours.work_directory == "/home/ann/run20"
    assert (ours.stdin, ours.stdout) == ("/home/ann/run20/in.20", "/home/ann/run20/out.020.txt")
    assert ours.stderr == "/logs/20.err"
    assert ours.environment["HEADNODE_VALUE"] == "20"
    assert ours.environment["CCP_TASKINSTANCEID"] == "3"


def test_an_asterisk_of_a_basic_task_stays() -> None:
    ours = made(TaskSpec(command="ls *", standard_output="*.txt"))
    assert ours.argv[2] == "ls *"
    assert ours.stdout == "/home/ann/*.txt"
    assert "HEADNODE_VALUE" not in ours.environment
    assert ours.environment["CCP_TASKINSTANCEID"] == "0"


def test_variables_go_into_the_command_by_percent_and_into_paths_by_dollar_too() -> None:
    task = TaskSpec(
        command="prog %ccp_jobid% %CCP_WORKDIR% %nobody%",
        work_directory="%USERPROFILE%/w",
        standard_output="$CCP_JOBID/${DATA}.%CCP_TASKID%",
        environment={"DATA": "d"},
    )
    ours = made(task)
    assert ours.argv == ("prog", "7", "/home/ann/w", "%nobody%")
    assert ours.stdout == "/home/ann/w/7/d.3"


def test_without_a_work_directory_it_is_home_and_a_relative_one_is_below_it() -> None:
    assert made(TaskSpec(command="x")).work_directory == "/home/ann"
    assert made(TaskSpec(command="x", work_directory="a/../b")).work_directory == "/home/ann/b"
    assert made(TaskSpec(command="x", work_directory="/abs")).work_directory == "/abs"


def test_what_is_not_redirected_is_empty() -> None:
    ours = made(TaskSpec(command="x"))
    assert (ours.stdin, ours.stdout, ours.stderr) == ("", "", "")


def test_task_wins_over_job_over_base_and_reserved_names_win_over_all() -> None:
    spec = JobSpec(environment={"A": "job", "B": "job", "USER": "other", "CCP_JOBID": "99"})
    task = TaskSpec(command="x", environment={"B": "task", "HEADNODE_TASK": "fake", "CCP_NODES": "fake"})
    environment = made(task, spec=spec).environment
    expected = {
        "A": "job",
        "B": "task",
        "USER": "other",
        "HOME": "/home/ann",
        "CCP_JOBID": "7",
        "CCP_NODES": "1 n1 2",
        "HEADNODE_TASK": "7.3.1.1",
    }
    assert {name: environment[name] for name in expected} == expected
    assert environment["CCP_ENVLIST"].split(",") == sorted({*spec.environment, *task.environment})


def test_an_empty_value_takes_a_name_away() -> None:
    spec = JobSpec(environment={"A": "job", "USER": ""})
    environment = made(TaskSpec(command="x", environment={"A": ""}), spec=spec).environment
    assert "A" not in environment
    assert "USER" not in environment


def test_a_value_the_user_gave_as_a_switch_stays() -> None:
    task = TaskSpec(command="x", environment={"CCP_MPI_HOSTFILE_FORMAT": "2"})
    assert made(task).environment["CCP_MPI_HOSTFILE_FORMAT"] == "2"


@pytest.mark.parametrize(
    ("unit", "nodes"),
    [
        (UnitType.PROCESSOR, "2 n1 8 n2 4"),
        (UnitType.SOCKET, "2 n1 2 n2 1"),
        (UnitType.NODE, "2 n1 1 n2 1"),
    ],
)
def test_nodes_are_counted_in_the_unit_of_the_job(unit: UnitType, nodes: str) -> None:
    place: NodeCores = (("n1", tuple(range(8))), ("n2", tuple(range(4))))
    environment = made(TaskSpec(command="x"), spec=JobSpec(unit=unit), place=place).environment
    assert environment["CCP_NODES"] == nodes
    assert environment["CCP_NODES_CORES"] == "2 n1 8 n2 4"
    assert environment["CCP_NUMCPUS"] == "12"
    assert environment["CCP_COREIDS"] == "0 1 2 3 4 5 6 7"


@pytest.mark.parametrize(
    ("distribution", "hosts"),
    [
        (None, "n1 n1 n1 n2 n2"),
        (Distribution(round_robin=True), "n1 n2 n1 n2 n1"),
        (Distribution(per_node=2), "n1 n1 n2 n2"),
        (Distribution(geometry=((1, 5), (2, 3, 4))), "n2 n1 n1 n1 n2"),
    ],
)
def test_the_list_of_hosts_has_one_word_for_each_process_as_they_are_distributed(
    distribution: Distribution | None, hosts: str
) -> None:
    place: NodeCores = (("n1", (0, 1, 2)), ("n2", (0, 1)))
    task = TaskSpec(command="x", minimum=5, maximum=5, distribution=distribution)
    assert made(task, place=place).environment["HEADNODE_HOSTS"] == hosts
    nodes = made(task, spec=JobSpec(unit=UnitType.NODE), place=place)
    assert len(nodes.environment["HEADNODE_HOSTS"].split()) == 2


def test_a_list_of_hosts_that_is_too_long_says_overflow() -> None:
    def listed(last: str) -> str:
        place: NodeCores = (("n" * 63, tuple(range(1023))), (last, (0,)))
        return made(TaskSpec(command="x"), place=place).environment["HEADNODE_HOSTS"]

    assert len(listed("n" * 64)) == 65536
    assert listed("n" * 65) == OVERFLOW


def test_a_node_list_that_is_too_long_says_overflow_and_one_that_just_fits_does_not() -> None:
    def listed(last: str) -> str:
        place: NodeCores = (*((f"node{number:04}", (0,)) for number in range(185)), (last, (0,)))
        return made(TaskSpec(command="x"), place=place).environment["CCP_NODES"]

    fits = listed("n" * 7)
    room = 2048 - len(fits)
    assert len(listed("n" * (7 + room))) == 2048
    assert listed("n" * (8 + room)) == OVERFLOW


def test_truth_and_limits_are_written_as_scripts_expect() -> None:
    plain = made(TaskSpec(command="x")).environment
    assert (plain["CCP_EXCLUSIVE"], plain["CCP_RERUNNABLE"]) == ("False", "False")
    assert plain["CCP_RUNTIME"] == str(INFINITE_RUN_TIME) == "2147483647"
    task = TaskSpec(command="x", exclusive=True, rerunnable=True, run_time=Seconds(90.0))
    environment = made(task).environment
    assert (environment["CCP_EXCLUSIVE"], environment["CCP_RERUNNABLE"]) == ("True", "True")
    assert environment["CCP_RUNTIME"] == "90"


def test_attempts_are_counted_from_none() -> None:
    assert made(TaskSpec(command="x"), attempt=1).environment["CCP_RETRY_COUNT"] == "0"
    assert made(TaskSpec(command="x"), attempt=3).environment["CCP_RETRY_COUNT"] == "2"


def test_one_preparation_makes_the_same_recipes_as_many() -> None:
    task = sweep(command="prog * %HEADNODE_VALUE%", standard_output="*")
    around = LaunchContext(
        job=JobId(7),
        spec=JobSpec(name="weather"),
        node="n1",
        cluster="blue",
        scheduler="head",
        base=BASE,
        marker="abc",
        processors_per_socket=4,
    )
    together = RecipeBuilder(around, 3, task, HERE)
    for instance in (1, 2, 3, 1):
        assert together.recipe(instance, 1) == made(task, instance=instance)


@pytest.mark.parametrize(
    ("unit", "minimum", "part", "hosts"),
    [
        (UnitType.PROCESSOR, 1, (("n1", (0, 1)), ("n2", (4,))), "n1 n1 n2"),
        (UnitType.PROCESSOR, 2, (("n1", (0, 1, 2, 3)), ("n2", (4, 5))), "n1 n1 n2"),
        (UnitType.SOCKET, 1, (("n1", (0, 1, 2, 3)), ("n2", (0, 1))), "n1 n1 n2"),
        (UnitType.NODE, 1, (("n1", (0, 1, 2, 3)), ("n2", (0,)), ("n3", (0,))), "n1 n2 n3"),
    ],
)
def test_an_instance_of_a_sweep_that_starts_together_is_told_the_hosts_of_all(
    unit: UnitType, minimum: int, part: NodeCores, hosts: str
) -> None:
    task = sweep(command="prog", minimum=minimum, maximum=minimum)
    around = LaunchContext(
        job=JobId(7),
        spec=JobSpec(together=True, unit=unit, tasks=(task,)),
        node="n1",
        cluster="blue",
        scheduler="head",
        base=BASE,
        processors_per_socket=2,
        parts=(part,),
    )
    environment = RecipeBuilder(around, 1, task, (("n1", (0,)),)).recipe(1, 1).environment
    assert environment["HEADNODE_HOSTS"] == hosts
    assert environment["CCP_NODES_CORES"] == "1 n1 1"


def test_unknown_names_and_lone_percents_stay() -> None:
    assert expand_percent("50% of %x% %%", {"HOME": "h"}) == "50% of %x% %%"
    assert expand_path("$unknown ${unknown} $ %", {}) == "$unknown ${unknown} $ %"


def test_captured_files_of_a_million_instances_never_share_and_never_crowd() -> None:
    names = [captured_name(1, instance) for instance in range(1, 1_000_001, 7)]
    assert len(set(names)) == len(names)
    folders: dict[str, int] = {}
    for instance in range(1, 20_001):
        folder = captured_name(1, instance).rpartition("/")[0]
        folders[folder] = folders.get(folder, 0) + 1
    assert max(folders.values()) <= 1000
    assert captured_path("/o", 7, 1, 999) == "/o/7/1.999.out"
    assert captured_path("/o", 7, 1, 1000) == "/o/7/1/1/1000.out"


@pytest.mark.parametrize(
    ("tasks", "dialect", "place", "counted", "hosts"),
    [
        ("1", "slurm", (("n1", (0, 1, 2, 3)),), "1", "n1"),
        ("2", "slurm", (("n1", (0, 1, 2, 3)),), "2", "n1 n1"),
        ("4", "slurm", (("n1", (0, 1)), ("n2", (0, 1))), "2(x2)", "n1 n1 n2 n2"),
        ("3", "slurm", (("n1", (0, 1, 2, 3)), ("n2", (0, 1))), "2,1", "n1 n1 n2"),
        ("", "", (("n1", (0, 1, 2, 3)), ("n2", (0, 1))), None, "n1 n1 n2"),
    ],
)
def test_a_job_with_gpus_has_the_processes_that_its_script_asks_for_or_one_for_each_gpu(
    tasks: str, dialect: str, place: NodeCores, counted: str | None, hosts: str
) -> None:
    spec = JobSpec(unit=UnitType.GPU, processors_per_gpu=2, dialect=dialect)
    layout = Distribution(per_node=1) if tasks == "4" else None
    task = TaskSpec(command="x", minimum=2, environment={"SLURM_NTASKS": tasks}, distribution=layout)
    variables = made(task, spec=spec, place=place).environment
    assert variables.get("SLURM_TASKS_PER_NODE") == counted
    assert variables["HEADNODE_HOSTS"] == hosts
    ranks, order = process_places(spec, task, place), process_order(spec, task)
    assert host_files(ranks, order)[2].split() == hosts.split()


def test_the_processes_of_other_schedulers_are_those_of_their_scripts() -> None:
    place: NodeCores = (("n1", (0, 1, 2, 3)),)
    for dialect, name in (("pbs", "PBS_NP"), ("gridengine", "NSLOTS"), ("lsf", "LSB_DJOB_NUMPROC")):
        spec = JobSpec(unit=UnitType.GPU, processors_per_gpu=2, dialect=dialect)
        task = TaskSpec(command="x", minimum=2, environment={name: "3"})
        assert made(task, spec=spec, place=place).environment[name] == "3"
