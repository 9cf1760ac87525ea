"""GPUs of batch scripts are counted as their schedulers count them, and come back from what is written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.formats.batch import BatchSystem, read_script, write_script
from headnode.core.formats.fidelity import Fidelity, lossy_items
from headnode.core.launching.environment import process_places
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.task import Distribution, ScriptOrigin, TaskSpec, TaskType, asked_processes
from headnode.core.state.task_layout import groups_of

PER_NODE = Distribution(per_node=2)
MODEL = ("a100",)


def read(text: str, **shell: str) -> tuple[JobSpec, list[str]]:
    """Return the job of a script, and what is told of options that are approximated or have no effect."""
    origin = ScriptOrigin(words=("run.sh",), directory="/w", environment=shell)
    spec, report = read_script(f"#!/bin/sh\n{text}\ntrue\n", origin)
    check_job(spec)
    check_runnable(spec)
    found = [item for item in report if item.kind in (Fidelity.APPROXIMATED, Fidelity.NOT_SUPPORTED)]
    return spec, [f"{item.where}: {item.what}" for item in found]


@pytest.mark.parametrize(
    ("options", "gpus", "processors", "fields"),
    [
        ("-G 2 -c 4", 2, 2, {"single_node": True}),
        ("--gpus=a100:2 -c 4", 2, 2, {"features": (MODEL,)}),
        ("--gres=gpu -c 8", 1, 8, {"single_node": True}),
        ("--gres=gpu:a100 -c 8", 1, 8, {"features": (MODEL,)}),
        (
            "--gres=gpu:a100:2 -C big -N 2 -n 4",
            4,
            1,
            {"features": (("big",), MODEL), "distribution": PER_NODE},
        ),
        ("--gpus-per-node=2 -N 3 -n 12", 6, 2, {"distribution": PER_NODE, "processes": 12}),
        ("--gpus-per-node=2 --ntasks-per-node=2 -N 3", 6, 1, {"distribution": PER_NODE, "processes": 6}),
        ("--gpus-per-node=2 --ntasks-per-node=2 -n 6", 6, 1, {"distribution": PER_NODE}),
        ("--gpus-per-node=2 --gpus=4 -n 4", 4, 1, {"distribution": PER_NODE}),
        ("--gpus-per-task=1 -n 4 -c 8", 4, 8, {"distribution": None, "single_node": False}),
        ("--gpus-per-task=2 -n 3 -N 3 -c 8", 6, 4, {"distribution": Distribution(nodes=3)}),
        ("--gpus=4 --gpus-per-task=2 -c 2 -N 1", 4, 1, {"processes": 2}),
        ("--gpus=4 -N 2 -n 4", 4, 1, {"distribution": Distribution(nodes=2)}),
        ("--gpus=2 --cpus-per-gpu=6 --mem-per-gpu=12G", 2, 6, {"process_memory": 2048, "processes": 1}),
        ("--ntasks-per-gpu=2 --gpus=3", 3, 2, {"processes": 6}),
        ("--ntasks-per-gpu=2 -n 6", 3, 2, {"processes": 6}),
        ("--gres=none --gpus=1", 1, 1, {}),
        ("--gres=gpu:2 --gres=gpu:1", 1, 1, {}),
    ],
)
def test_gpus_of_slurm_are_counted_in_all_with_their_processors(
    options: str, gpus: int, processors: int, fields: dict[str, Any]
) -> None:
    spec, shown = read(f"#SBATCH {options}")
    task = spec.tasks[0]
    assert (spec.unit, task.minimum, task.maximum) == (UnitType.GPU, gpus, gpus)
    assert spec.processors_per_gpu == processors
    found = {
        "features": spec.needs.features,
        "single_node": spec.single_node,
        "distribution": task.distribution,
        "processes": asked_processes(task, "slurm"),
        "process_memory": spec.process_memory,
    }
    assert {name: found[name] for name in fields} == fields
    assert shown == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--gres=gpu:3 -c 4", "--gres: the job has 6 processors, not 4: 2 for each GPU"),
        (
            "--gpus-per-node=2 -n 4",
            "the job has 1 node, because no number of nodes is given",
        ),
        ("--gpus=3 -n 2 -c 3", "--gpus: 2 processes share 3 GPUs, so the job has 1 node"),
        ("--gpus=4 -n 2 -c 2", "--gpus: the GPUs of one process may be on several nodes; write --nodes"),
        ("--gres=gpu:2,ssd -c 2", "--gres: nodes with the features 'ssd', which are not counted"),
        (
            "--gpus=1 --cpus-per-gpu=3 --mem-per-gpu=100M",
            "34 MB for each of the 3 processors of a GPU",
        ),
        ("--cpus-per-gpu=3", "--cpus-per-gpu: the job asks for no GPUs"),
    ],
)
def test_what_a_job_does_not_have_as_it_was_asked_for_is_reported(options: str, text: str) -> None:
    (found,) = read(f"#SBATCH {options}")[1]
    assert found.endswith(text)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("#SBATCH --gpus=2 --gpus-per-node=4", "2 GPUs in all cannot be 4 on each node"),
        ("#SBATCH --gpus=2 -N 2 --gpus-per-node=4", "the job has 2"),
        ("#SBATCH --gpus=2 -N 3", "2 GPUs cannot be on 3 nodes"),
        ("#SBATCH --gpus=3 --gpus-per-task=1 -n 2", "1 GPU for each process, 2 times: the job has 3"),
        ("#SBATCH --gres=gpu:2 --gpus-per-node=1", "different numbers of GPUs on each node"),
        ("#SBATCH --gpus=a100:1 --gpus-per-task=v100:1", "several models"),
        ("#SBATCH --gpus=a100:1,v100:1", "several models"),
        ("#SBATCH --gres=gpu:a100:1,gpu:v100:1", "GPUs twice"),
        ("#SBATCH --gpus=2 -c 2 --cpus-per-gpu=2", "processors of a process are given"),
        ("#SBATCH --gpus=1 -n 3 --cpus-per-gpu=2", "more than 2 processors"),
        ("#SBATCH --mem-per-gpu=4G", "no GPUs"),
        ("#SBATCH --gpus=1 --mem-per-gpu=4G --mem=4G", "in another way"),
        ("#SBATCH --gpus=4 -n 3 --ntasks-per-gpu=1", "do not use 4 GPUs"),
        ("#SBATCH --ntasks-per-gpu=2", "needs a number of GPUs"),
        ("#SBATCH --gpus-per-socket=1", "write --gpus-per-node"),
        ("#SBATCH --gpus=two:many", "not a number"),
        ("#PBS -l select=2:ncpus=4:ngpus=a", "not a number"),
        ("#BSUB -gpu num=1:gmem=4G", "'gmem' is not supported"),
        ("#BSUB -gpu num=1/core", "'core' is not supported"),
    ],
)
def test_options_that_contradict_each_other_are_refused_with_their_place(line: str, text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read(line)
    assert text in str(refused.value)
    assert refused.value.place is not None
    assert (refused.value.place[0], bool(refused.value.fix)) == (2, True)


@pytest.mark.parametrize("options", ["--gpus=0", "--gres=gpu:0", "--gres=none", "--gpus=2 --gpus=0", "-n 1"])
def test_no_gpus_are_no_gpus(options: str) -> None:
    spec, found = read(f"#SBATCH {options}")
    assert (spec.unit, spec.tasks[0].minimum, found) == (UnitType.PROCESSOR, 1, [])


def test_variables_of_the_shell_count_gpus_too() -> None:
    spec, _ = read("#SBATCH --gpus=1 -c 4", SBATCH_GPUS="2")
    assert (spec.tasks[0].minimum, spec.processors_per_gpu) == (2, 2)
    assert spec.tasks[0].environment["SLURM_GPUS"] == "2"


@pytest.mark.parametrize(
    ("text", "gpus", "processors", "single", "layout"),
    [
        ("#PBS -l select=2:ncpus=8:ngpus=2", 4, 4, False, Distribution(nodes=2)),
        ("#PBS -l select=2:ncpus=8:ngpus=2\n#PBS -l place=pack", 4, 4, True, None),
        ("#PBS -l nodes=1:ppn=8:gpus=2", 2, 4, True, None),
        ("#PBS -l nodes=2:ppn=8:gpus=2:exclusive_process", 4, 4, False, PER_NODE),
        ("#PBS -l ncpus=6,ngpus=1", 1, 6, True, None),
        ("#BSUB -n 4 -R span[hosts=1] -gpu num=2:mode=exclusive_process", 2, 2, True, None),
        ("#BSUB -n 8 -R span[ptile=4] -gpu num=2", 4, 2, False, PER_NODE),
        ("#BSUB -n 3 -gpu num=1/task", 3, 1, False, None),
        ("#BSUB -gpu -", 1, 1, True, None),
        ("#BSUB -n 4 -R 'rusage[ngpus_excl_p=1] span[hosts=1]'", 1, 4, True, None),
    ],
)
def test_gpus_of_other_schedulers_are_counted_in_all(
    text: str, gpus: int, processors: int, single: bool, layout: Distribution | None
) -> None:
    spec, found = read(text)
    assert (spec.unit, spec.tasks[0].minimum, spec.processors_per_gpu) == (UnitType.GPU, gpus, processors)
    assert (spec.single_node, spec.tasks[0].distribution) == (single, layout)
    assert found == []


def test_grid_engine_counts_gpus_for_each_slot_and_it_is_reported() -> None:
    spec, found = read("#$ -pe smp 4 -l gpu=1")
    assert (spec.unit, spec.tasks[0].minimum, spec.processors_per_gpu) == (UnitType.GPU, 4, 1)
    assert found == ["-l gpu: this many GPUs for each slot, also where a site counts them for the job"]


def test_an_array_with_one_gpu_is_a_sweep_and_with_several_a_task_for_each_number() -> None:
    one, _ = read("#SBATCH -a 1-8%2 --gres=gpu:1 -c 4")
    (task,) = one.tasks
    assert (task.kind, task.minimum, one.unit, one.processors_per_gpu) == (TaskType.SWEEP, 1, UnitType.GPU, 4)
    assert (one.minimum, one.maximum) == (1, 2)
    several, _ = read("#SBATCH -a 1-3%2 --gres=gpu:2 -c 4")
    assert [task.minimum for task in several.tasks] == [2, 2, 2]
    assert {task.distribution for task in several.tasks} == {Distribution(nodes=1)}
    assert (several.minimum, several.maximum) == (2, 4)


NUMBERS = st.integers(1, 12)
LAYOUTS = st.sampled_from([None, Distribution(nodes=2), Distribution(per_node=2)])


@given(
    gpus=st.integers(1, 16),
    processors=st.integers(1, 9),
    single=st.booleans(),
    layout=LAYOUTS,
    array=st.booleans(),
)
def test_gpus_that_are_written_for_slurm_are_read_as_the_same(
    gpus: int, processors: int, single: bool, layout: Distribution | None, array: bool
) -> None:
    if array:
        gpus, single, layout = 1, False, None
    if gpus < 3 or single:  # two on each node of two are those of one node
        layout = None
    task = TaskSpec(command="true", rerunnable=True, minimum=gpus, maximum=gpus, distribution=layout)
    if array:
        task = TaskSpec(
            command="true", rerunnable=True, kind=TaskType.SWEEP, start=1, end=9, minimum=1, maximum=1
        )
    spec = JobSpec(
        name="j", unit=UnitType.GPU, processors_per_gpu=processors, single_node=single, tasks=(task,)
    )
    text, report = write_script(spec, BatchSystem.SLURM)
    again = read_script(text)[0]
    check_runnable(again)
    assert (again.unit, again.processors_per_gpu) == (UnitType.GPU, processors)
    assert (again.tasks[0].minimum, again.tasks[0].maximum) == (gpus, gpus)
    if not array:
        assert again.single_node is (single or gpus == 1)
    if layout is not None and layout.per_node and gpus % layout.per_node:
        assert lossy_items(report)
    else:
        assert again.tasks[0].distribution == layout
        assert lossy_items(report) == ()


@given(
    tasks=st.integers(1, 12),
    each=st.integers(1, 4),
    nodes=st.none() | st.integers(1, 4),
    cores=st.integers(1, 9),
)
def test_a_script_of_slurm_that_is_written_anew_has_the_same_gpus(
    tasks: int, each: int, nodes: int | None, cores: int
) -> None:
    layout = f"-N {nodes}" if nodes and nodes <= tasks else ""
    spec, _ = read(f"#SBATCH -n {tasks} --gpus-per-task={each} -c {cores} {layout}")
    again = read_script(write_script(spec, BatchSystem.SLURM)[0])[0]
    for name in ("unit", "processors_per_gpu", "single_node"):
        assert getattr(again, name) == getattr(spec, name)
    for name in ("minimum", "maximum", "distribution"):
        assert getattr(again.tasks[0], name) == getattr(spec.tasks[0], name)
    assert asked_processes(again.tasks[0], "slurm") == tasks


@pytest.mark.parametrize("system", BatchSystem)
@pytest.mark.parametrize("layout", [None, Distribution(nodes=2), Distribution(per_node=2)])
@pytest.mark.parametrize(("gpus", "processors"), [(4, 1), (4, 3), (5, 1)])
def test_gpus_come_back_from_every_script_or_what_is_lost_is_reported(
    system: BatchSystem, layout: Distribution | None, gpus: int, processors: int
) -> None:
    task = TaskSpec(command="true", rerunnable=True, minimum=gpus, maximum=gpus, distribution=layout)
    spec = JobSpec(
        name="j", unit=UnitType.GPU, processors_per_gpu=processors, single_node=layout is None, tasks=(task,)
    )
    text, report = write_script(spec, system)
    again = read_script(text)[0]
    same = (again.unit, again.tasks[0].minimum, again.processors_per_gpu) == (UnitType.GPU, gpus, processors)
    assert same or lossy_items(report)


ONE_TO_FOUR = ("1", "2", "3", "4")
WORDS = [
    *(f"--gpus{of}={number}" for of in ("", "-per-node", "-per-task") for number in ONE_TO_FOUR),
    *(f"--{name}={number}" for name in ("cpus-per-gpu", "ntasks-per-gpu", "mem-per-gpu") for number in "13"),
    *(f"-{letter} {number}" for letter in "nNc" for number in ONE_TO_FOUR),
    *("--ntasks-per-node=1", "--ntasks-per-node=2", "--gres=gpu:a100:2", "--gres=gpu:2", "--gpus=0"),
    *("-a 1-3", "--mem=1G", "-m cyclic"),
]


@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6, unique=True))
def test_any_options_are_refused_with_their_line_or_make_a_job_whose_processes_fit(words: list[str]) -> None:
    lines = "".join(f"#SBATCH {word}\n" for word in words)
    refused: BadRequest | None = None
    try:
        spec, _ = read_script(f"#!/bin/sh\n{lines}true\n")
    except BadRequest as no:
        refused = no
    if refused is not None:
        assert refused.place is not None
        assert 2 <= refused.place[0] <= len(words) + 1
        return
    if spec.unit is not UnitType.GPU:
        return
    check_job(spec)
    check_runnable(spec)
    task, each = spec.tasks[0], spec.processors_per_gpu
    processes = asked_processes(task, "slurm")
    assert processes is not None
    groups = groups_of(task.distribution, task.minimum) or ((task.minimum, 1),)
    sizes = [gpus * each for gpus, times in groups for _ in range(times)]
    place = tuple((f"n{number}", tuple(range(size))) for number, size in enumerate(sizes))
    ranks = [len(taken) for _, taken in process_places(spec, task, place)]
    assert sum(ranks) == processes
    assert all(count <= size for count, size in zip(ranks, sizes, strict=True))
