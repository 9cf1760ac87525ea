"""Batch scripts are read as their schedulers read them, and what is written into one comes back."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headnode.core.formats.batch import BatchSystem, read_script, system_of, write_script
from headnode.core.formats.batch.lsf_options import BSUB_OPTIONS
from headnode.core.formats.batch.qsub_options import (
    GRID_ENGINE_OPTIONS,
    GRID_ENGINE_RESOURCES,
    PBS_OPTIONS,
    PBS_RESOURCES,
)
from headnode.core.formats.batch.slurm_options import OPTIONS
from headnode.core.formats.fidelity import Fidelity, lossy_items
from headnode.core.model import bounds
from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import NOTHING_HELD, HeldAmounts, JobSpec, Licence
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, ScriptOrigin, TaskSpec, TaskType

ON_START = Condition.ON_START
ELEMENT, LATER = JobDependency(3, element=7), JobDependency(5, ON_START, delay=Seconds(600.0))
PAGE = (Path(__file__).parents[3] / "docs/batch-scripts.md").read_text()
ORIGIN = ScriptOrigin(words=("./run.sh", "a b"), directory="/home/ada/w", environment={"SHELL_SAYS": "1"})


def slurm(*lines: str) -> JobSpec:
    return read_script("\n".join(["#!/bin/bash", *lines, "true", ""]), ORIGIN)[0]


def refused(text: str) -> BadRequest:
    with pytest.raises(BadRequest) as no:
        read_script(text, ORIGIN)
    assert no.value.place is not None
    assert no.value.fix
    return no.value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(
            ("5", 300),
            ("5:30", 360),
            ("1:02:03", 3780),
            ("1-0", 86400),
            ("1-2:03", 93780),
            ("1-2:3:4", 93840),
        ),
        *((word, FOREVER) for word in ("0", "-1", "UNLIMITED")),
    ],
)
def test_a_time_of_slurm_is_rounded_up_to_minutes(text: str, seconds: float) -> None:
    assert slurm(f"#SBATCH -t {text}").run_time == seconds


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["#SBATCH -J one", "#SBATCH -J two"], "two"),
        (["##SBATCH -J two", "# SBATCH -J spaced", " #SBATCH -J indented", "#SBATCH -J right"], "right"),
        (["#SBATCH -Jglued -n2"], "glued"),
        (["#SBATCH --job-name=tc   # a comment", "#SBATCH -t 5 # five"], "tc"),
        (['#SBATCH --job-name="two words" --comment=\'a "b" c\''], "two words"),
        (["# note", "", "#SBATCH --job=abbr"], "abbr"),
        (["#SBATCH -J first", "echo hi", "#SBATCH -J second"], "first"),
        (["#SBATCH -n 1", "#PBS -N pbsname", "#PBS -l walltime=0:10:00"], "pbsname"),
    ],
)
def test_the_lines_of_slurm_are_found_as_sbatch_finds_them(lines: list[str], name: str) -> None:
    assert slurm(*lines).name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("#$ -N first\necho hi\n#$ -N second\n", "second"),
        ("##$ -N two\n# $ -N spaced\n #$ -N indented\n#$ -N right\n#$-N glued\n", "glued"),
        ("#$ -N tc # comment\n", "tc"),
        ("#$ -N crlf\r\ntrue\r\n", "crlf"),
    ],
)
def test_the_lines_of_grid_engine_are_found_as_qsub_finds_them(text: str, name: str) -> None:
    assert read_script(f"#!/bin/sh\n{text}")[0].name == name


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("#SBATCH --nosuch=2", "--nosuch"),
        ("#SBATCH --ti=3", "ambiguous"),
        ("#SBATCH --job-name = x", "'x'"),
        ("#SBATCH -t 90s", "90s"),
        ("#SBATCH --mem=0.5G", "0.5G"),
        ("#SBATCH -J 'open", "is not closed"),
        ("#SBATCH --dependency=expand:1", "expand"),
        ("#SBATCH --array=3-1", "empty range"),
        ("#SBATCH --array=1-99999999", "99,999,999"),
        ("#SBATCH --clusters=other", "this cluster"),
        ("#SBATCH -n", "no value"),
        ("#SBATCH --nice=x", "'x' is not a number"),
        ("#SBATCH --signal=R:USR1@60", "reservation"),
        ("#SBATCH --signal=NOSUCH@60", "is not a signal"),
        ("#SBATCH --signal=USR1@1h", "USR1@1h"),
        ("#PBS -l colour=red", "colour"),
        ("#PBS -l select=1:ncpus=1+2:ncpus=2", "several kinds"),
        ("#PBS -W stagein=x", "stagein"),
        ("#$ -l h_rt=5:30", "5:30"),
        ("#$ -t 0-3", "invalid task id"),
        ("#$ -nosuch 3", "-nosuch"),
        ("#$ -soft", "are not supported"),
        ("#BSUB -nosuch 3", "-nosuch"),
    ],
)
def test_what_would_be_lost_or_is_wrong_is_refused_with_its_line(line: str, text: str) -> None:
    found = refused(f"#!/bin/sh\n{line}\ntrue\n")
    assert text in str(found)
    assert found.place is not None
    assert found.place[0] == 2


@pytest.mark.parametrize("mark", ["#SBATCH -J", "#PBS -N", "#$ -N", "#BSUB -J"])
def test_options_that_would_take_long_to_read_are_refused(mark: str) -> None:
    assert "65,536 characters" in str(refused(f"#!/bin/sh\n{mark} {'x' * 70_000}\n"))
    assert "65,536 characters" in str(refused("#!/bin/sh\n" + f"{mark} x\n" * 9000))
    read_script("#!/bin/sh\n" + f"{mark} x\n" * 5000 + "true\n" * 50_000, ORIGIN)
    with pytest.raises(BadRequest, match="65,536"):
        submitted_with("slurm", f"--comment={'x' * 70_000}")


def test_lines_that_end_as_in_windows_are_refused_by_slurm() -> None:
    assert "dos2unix" in refused("#!/bin/sh\r\n#SBATCH -n 1\r\n").fix


@pytest.mark.parametrize(
    ("lines", "fields", "task"),
    [
        (["-n 4 -c 2"], {}, {"minimum": 8, "maximum": 8}),
        (["-c 4"], {"single_node": True}, {"minimum": 4}),
        (["-N 2 --ntasks-per-node=3"], {}, {"minimum": 6, "distribution": Distribution(nodes=2)}),
        (["-n 6 --tasks-per-node=3 -c 2"], {}, {"minimum": 12, "distribution": Distribution(per_node=6)}),
        (["-N 1 -n 3"], {"single_node": True}, {"minimum": 3, "distribution": None}),
        (["--mem=2G"], {"held": HeldAmounts(memory=2048)}, {}),
        (["--mem-per-cpu=500"], {"process_memory": 500}, {}),
        (["-p big -A lab -q night"], {"node_groups": ("big",), "project": "lab", "template": "night"}, {}),
        (["-w n[1-2] -x n9"], {"excluded_nodes": ("n9",)}, {"required_nodes": ("n1", "n2")}),
        (["-d afterok:3:4,afterany:5"], {"parents": (3, 4), "after_exit": (5,)}, {}),
        (["-d aftercorr:3:4"], {"after_corresponding": (3, 4)}, {}),
        (["-d afterok:3_7:4,after:5+10"], {"parents": (4,), "dependencies": (ELEMENT, LATER)}, {}),
        (
            ["-d afterok:3_7?afternotok:4:5?afterany:6_*"],
            {"any_dependency": True, "dependencies": (ELEMENT,), "after_failure": (4, 5), "after_exit": (6,)},
            {},
        ),
        (["-t 10 --signal=B:USR1@120"], {"signal": "B:USR1@120"}, {}),
        (["-t 10 --signal=SIGTERM"], {"signal": "S:TERM@60"}, {}),
        (["-t 10 --signal=b:10@300"], {"signal": "B:USR1@300"}, {}),
        (["-L matlab:2"], {"licences": (Licence("matlab", 2),)}, {}),
        (["--exclusive --hold"], {"exclusive": True, "holds": ("user",)}, {}),
        (["--no-requeue"], {}, {"rerunnable": False}),
        (["--mail-type=END,FAIL --mail-user=a@b.c"], {"notify_on_completion": True, "email": "a@b.c"}, {}),
        (["-D sub"], {}, {"work_directory": "/home/ada/w/sub"}),
        (["-D /scratch"], {}, {"work_directory": "/scratch"}),
        (["-o out-%x-%j.txt -J sim"], {}, {"standard_output": "out-sim-%CCP_JOBID%.txt"}),
    ],
)
def test_options_of_slurm_are_fields_of_the_job(
    lines: list[str], fields: dict[str, Any], task: dict[str, Any]
) -> None:
    spec = slurm(*(f"#SBATCH {line}" for line in lines))
    assert {name: getattr(spec, name) for name in fields} == fields
    assert {name: getattr(spec.tasks[0], name) for name in task} == task
    check_job(spec)
    check_runnable(spec)


@pytest.mark.parametrize(
    ("text", "fields", "task"),
    [
        ("#PBS -l select=2:ncpus=4:mem=1gb", {"held": HeldAmounts(memory=1024)}, {"minimum": 8}),
        (
            "#PBS -l select=1:ncpus=4\n#PBS -l place=excl",
            {"exclusive": True, "single_node": True},
            {"minimum": 4},
        ),
        ("#PBS -l nodes=2:ppn=8", {}, {"minimum": 16, "distribution": Distribution(nodes=2)}),
        ("#PBS -l walltime=90 -q long", {"run_time": 90.0, "template": "long"}, {}),
        ("#PBS -W depend=afterok:12.server", {"parents": (12,)}, {}),
        ("#$ -pe smp 4", {"single_node": True}, {"minimum": 4}),
        ("#$ -pe mpi 4 -l h_vmem=1.5G", {"single_node": False, "process_memory": 1536}, {"minimum": 4}),
        ("#$ -l s_rt=1:00:00,h_rt=1:10:00", {"run_time": 4200.0, "signal": "USR1@600"}, {}),
        ("#$ -l s_rt=3600", {"signal": ""}, {}),
        ("#$ -l h_rt=60 -l s_rt=60", {"signal": ""}, {}),
        ("#$ -notify -l h_rt=1:00:00", {"signal": "USR2@60"}, {}),
        ("#$ -notify -l h_rt=60", {"signal": ""}, {}),
        ("#$ -notify", {"signal": ""}, {}),
        ("#$ -notify -l s_rt=3600,h_rt=4200", {"signal": "USR1@600"}, {}),
        ("#$ -notify -l s_rt=3600,h_rt=3600", {"signal": "USR2@60"}, {}),
        ("#BSUB -W 60\n#BSUB -wa 'USR2' -wt 10", {"signal": "USR2@600"}, {}),
        ("#BSUB -W 60\n#BSUB -wt 0:5 -wa URG", {"signal": "URG@300"}, {}),
        ("#BSUB -W 60\n#BSUB -wa CHKPNT -wt 10", {"signal": ""}, {}),
        ("#BSUB -W 60 -wa USR1", {"signal": ""}, {}),
        ("#$ -hold_jid 3,other", {"after_exit": (3,)}, {}),
        (
            "#$ -hold_jid 3.7,4",
            {"dependencies": (JobDependency(3, Condition.ON_EXIT, 7),), "after_exit": (4,)},
            {},
        ),
        ("#PBS -W depend=afterok:3[7].server:4", {"dependencies": (ELEMENT,), "parents": (4,)}, {}),
        ("#$ -hold_jid_ad 3,4", {"after_corresponding": (3, 4)}, {}),
        ("#PBS -W depend=afterokarray:3[],afterany:4[]", {"parents": (3,), "after_exit": (4,)}, {}),
        ("#$ -S /bin/bash", {}, {"script": "#!/bin/bash\n#$ -S /bin/bash\ntrue\n"}),
    ],
)
def test_options_of_qsub_are_fields_of_the_job(
    text: str, fields: dict[str, Any], task: dict[str, Any]
) -> None:
    spec = read_script(f"#!/bin/sh\n{text}\ntrue\n", ORIGIN)[0]
    assert {name: getattr(spec, name) for name in fields} == fields
    assert {name: getattr(spec.tasks[0], name) for name in task} == task
    if "other" in text:
        assert [parent.name for parent in spec.named_parents] == ["other"]
        assert isinstance(spec.named_parents[0], NamedParent)
    check_job(spec)


def test_an_array_is_a_sweep_whose_instances_have_their_own_files() -> None:
    spec = slurm("#SBATCH -a 1,3-7:2,9%2")
    (task,) = spec.tasks
    assert (task.kind, task.start, task.end, task.increment) == (TaskType.SWEEP, 1, 9, 2)
    assert task.standard_output == "slurm-%CCP_JOBID%_*.out"
    assert (spec.minimum, spec.maximum) == (1, 2)
    assert task.command == "run.sh 'a b'"


def test_an_element_with_several_processors_of_one_node_is_a_task_of_its_own() -> None:
    spec = slurm("#SBATCH -a 2-3 -c 4 -t 5")
    assert [task.name for task in spec.tasks] == ["2", "3"]
    for task in spec.tasks:
        assert task.distribution == Distribution(nodes=1)
        assert task.environment["SLURM_ARRAY_TASK_ID"] == task.name
        assert task.standard_output == f"slurm-%CCP_JOBID%_{task.name}.out"
        assert task.run_time == Seconds(300.0)
    check_job(spec)


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        ("#SBATCH -a 1-3 --mem=1G", 1024),
        ("#SBATCH -a 1-3 -c 3 --mem=1000", 334),
        ("#SBATCH -a 1-3 -N 2 --ntasks-per-node=2 --mem=1000", 500),
        ("#SBATCH -a 1-3 -N 1 --gpus=2 --cpus-per-gpu=4 --mem=8G", 1024),
        ("#SBATCH -a 1-3 -n 4 --ntasks-per-node=2 --mem=1000", 500),
        ("#SBATCH -a 1-3 -n 5 --ntasks-per-node=2 --mem=1000", 1000),
        ("#PBS -J 1-3\n#PBS -l select=1:ncpus=4:mem=1gb", 256),
        ("#PBS -J 1-3\n#PBS -l select=2:ncpus=4:mem=1gb", 256),
        ("#PBS -J 1-3\n#PBS -l select=2:ncpus=4:mem=1gb\n#PBS -l place=scatter", 256),
        ("#BSUB -J x[1-3]\n#BSUB -n 4\n#BSUB -R 'span[ptile=2] rusage[mem=1000MB]'", 500),
        ("#BSUB -J x[1-3]\n#BSUB -n 2\n#BSUB -R rusage[mem=1000MB]", 500),
    ],
)
def test_each_element_of_an_array_reserves_the_memory_of_a_node_for_itself(options: str, memory: int) -> None:
    spec = read_script(f"#!/bin/sh\n{options}\ntrue\n", ORIGIN)[0]
    assert (spec.process_memory, spec.held) == (memory, NOTHING_HELD)
    check_job(spec)


def test_the_variables_of_the_shell_come_where_the_scheduler_takes_them() -> None:
    assert slurm("#SBATCH -n 1").tasks[0].environment["SHELL_SAYS"] == "1"
    assert "SHELL_SAYS" not in slurm("#SBATCH --export=NONE").tasks[0].environment
    for mark, takes in (
        *(("#PBS -N x", False), ("#PBS -V", True), ("#$ -N x", False), ("#$ -V", True)),
        *(("#BSUB -J x", True), ("#BSUB -env none", False), ("#BSUB -env SHELL_SAYS", True)),
        ("#BSUB -env 'all, MORE=2'", True),
    ):
        spec = read_script(f"#!/bin/sh\n{mark}\n", ORIGIN)[0]
        assert ("SHELL_SAYS" in spec.tasks[0].environment) is takes


def test_a_variable_of_sbatch_counts_more_than_the_script() -> None:
    origin = ScriptOrigin(words=("x",), environment={"SBATCH_TIMELIMIT": "8", "SBATCH_JOB_NAME": "fromenv"})
    spec, _ = read_script("#!/bin/sh\n#SBATCH -t 9 -J script\n", origin)
    assert (spec.name, spec.run_time) == ("fromenv", 480.0)


def test_a_program_without_options_for_a_scheduler_is_no_batch_script() -> None:
    for text in ("#!/bin/sh\ntrue\n#SBATCH -n 1\n", "#!/bin/sh\n#$HOME\n", "#!/bin/sh\n# PBS -N x\n"):
        assert system_of(text) is None


FIELDS: dict[str, Any] = {
    "name": "sim", "project": "lab", "template": "long", "run_time": Seconds(600.0), "exclusive": True,
    "held": HeldAmounts(memory=100), "process_memory": 7, "parents": (3,), "after_failure": (4,),
    "after_exit": (5,), "after_start": (6,), "after_corresponding": (8,),
    "dependencies": (ELEMENT, LATER),
    "holds": ("user",), "email": "a@b.c", "notify_on_start": True,
    "notify_on_completion": True, "node_groups": ("big",), "excluded_nodes": ("n1",),
    "licences": (Licence("matlab", 2),), "reservation": "night", "description": "what for",
    "named_parents": (NamedParent("mesh", condition=ON_START),), "requested_nodes": ("n1", "n2"),
    "job_group": "g", "priority": 3000, "end_by": 2e9, "hold_until": 2e9, "minimum_memory": 5,
    "suspendable": True, "singleton": True, "switches": 2, "switches_wait": Seconds(600.0),
    "minimum_run_time": Seconds(60.0), "contiguous": True,
    "minimum_processors_per_node": 4,
}  # fmt: skip
TASK: dict[str, Any] = {
    "rerunnable": False, "run_time": Seconds(600.0), "standard_output": "/o", "standard_error": "/e",
    "standard_input": "/i", "work_directory": "/w", "exclusive": True, "private_directory": True,
    "temporary_directory": True,
    "distribution": Distribution(nodes=2), "required_nodes": ("n1",), "valid_exit_codes": ((0, 3),),
    "resource_limits": (ResourceLimit("core", soft=0),),
}  # fmt: skip


@pytest.mark.parametrize("system", BatchSystem)
@pytest.mark.parametrize(("field", "of_task"), [*((n, False) for n in FIELDS), *((n, True) for n in TASK)])
def test_a_field_comes_back_from_a_script_or_its_loss_is_reported(
    system: BatchSystem, field: str, of_task: bool
) -> None:
    base = TaskSpec(command="true", rerunnable=True, minimum=2, maximum=2)
    plain = JobSpec(name="j", tasks=(base,))
    spec = plain
    if of_task:
        spec = replace(plain, tasks=(replace(base, **{field: TASK[field]}),))
    else:
        spec = replace(plain, **{field: FIELDS[field]})
    text, report = write_script(spec, system)
    _, usual = write_script(plain, system)
    back, _ = read_script(text)
    one, other = (spec.tasks[0], back.tasks[0]) if of_task else (spec, back)
    if field == "run_time" and of_task:
        one, other = spec.tasks[0], back  # a script has one limit
    assert getattr(one, field) == getattr(other, field) or {*report} - {*usual}


@pytest.mark.parametrize("system", BatchSystem)
def test_a_script_that_enters_its_temporary_directory_loses_it_where_jobs_have_none(
    system: BatchSystem,
) -> None:
    spec = read_script("#!/bin/sh\n#PBS -N a\ncd $TMPDIR\n")[0]
    found = " ".join(item.what for item in write_script(spec, system)[1])
    assert ("$TMPDIR is no directory of the job" in found) == (system.value in ("slurm", "lsf"))


def test_a_variable_that_the_other_scheduler_does_not_set_is_reported_as_lost() -> None:
    text = "#!/bin/sh\n#SBATCH -a 1-3\n# $SLURM_NTASKS\necho ${SLURM_ARRAY_TASK_ID} $SLURM_JOB_ID $HOME\n"
    spec = read_script(text)[0]
    found = {item.what for item in write_script(spec, BatchSystem.LSF)[1] if item.where == "script"}
    assert found == {
        "$SLURM_ARRAY_TASK_ID is not set there; write $LSB_JOBINDEX",
        "$SLURM_JOB_ID is not set there",
    }
    assert not [item for item in write_script(spec, BatchSystem.SLURM)[1] if item.where == "script"]


@given(
    processors=st.integers(1, 64),
    nodes=st.none() | st.integers(1, 8),
    minutes=st.none() | st.integers(1, 10_000),
    array=st.none() | st.tuples(st.integers(0, 5), st.integers(6, 90), st.integers(1, 3)),
)
def test_a_script_of_slurm_that_is_written_anew_is_the_same_job(
    processors: int, nodes: int | None, minutes: int | None, array: tuple[int, int, int] | None
) -> None:
    lines = [f"#SBATCH -n {processors}"]
    lines += [f"#SBATCH -N {nodes}"] if nodes and not array else []
    lines += [f"#SBATCH -t {minutes}"] if minutes else []
    lines += [f"#SBATCH -a {array[0]}-{array[1]}:{array[2]}"] if array and processors == 1 else []
    first = read_script("\n".join(["#!/bin/sh", *lines, "echo $1", ""]))[0]
    again = read_script(write_script(first, BatchSystem.SLURM)[0])[0]
    for name in ("run_time", "single_node", "minimum", "maximum", "name"):
        assert getattr(again, name) == getattr(first, name)
    for old, new in zip(first.tasks, again.tasks, strict=True):
        for name in ("minimum", "maximum", "kind", "start", "end", "increment", "distribution", "run_time"):
            assert getattr(new, name) == getattr(old, name), name
        assert new.script.splitlines()[-1] == old.script.splitlines()[-1]


@given(
    system=st.sampled_from(BatchSystem),
    letter=st.sampled_from(["", "B:", "S:"]),
    name=st.sampled_from(["USR1", "USR2", "INT", "URG"]),
    before=st.integers(1, 7200),
    minutes=st.none() | st.integers(1, 100),
)
def test_a_signal_that_is_written_is_read_again_or_its_loss_is_reported(
    system: BatchSystem, letter: str, name: str, before: int, minutes: int | None
) -> None:
    limit = Seconds(60.0 * minutes) if minutes else FOREVER
    spec = JobSpec(tasks=(TaskSpec(command="true"),), run_time=limit, signal=f"{letter}{name}@{before}")
    text, report = write_script(spec, system)
    found = [item for item in report if item.what.startswith("signal: ")]
    assert found or read_script(text)[0].signal == spec.signal


@pytest.mark.parametrize("system", BatchSystem)
def test_the_last_second_there_is_is_written_where_the_year_10000_has_begun(
    monkeypatch: pytest.MonkeyPatch, system: BatchSystem
) -> None:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    last = Instant(bounds.TIME.most)
    text, report = write_script(JobSpec(tasks=(TaskSpec(command="true"),), hold_until=last), system)
    monkeypatch.undo()
    time.tzset()
    assert b"9999" in text or any(item.what.startswith("hold_until") for item in lossy_items(report))


def test_a_script_of_pbs_that_is_written_for_slurm_has_no_lines_that_slurm_reads_as_those_of_pbs() -> None:
    first = read_script("#!/bin/sh\n#PBS -l nodes=2:ppn=4:gpus=2\n#PBS -N x\ntrue\n")[0]
    text = write_script(first, BatchSystem.SLURM)[0]
    assert b"#PBS" not in text
    again = read_script(text)[0]
    assert (again.unit, again.tasks[0].minimum) == (first.unit, first.tasks[0].minimum)


def submitted_with(system: str, *options: str, lines: str = "", **shell: str) -> JobSpec:
    """Return the job of a script that is submitted with options."""
    origin = ScriptOrigin(
        words=("run.sh",), directory="/w", environment=shell, options=options, system=system
    )
    return read_script(f"#!/bin/sh\n{lines}true\n", origin)[0]


def test_options_of_the_command_line_count_more_than_the_shell_and_the_shell_more_than_the_script() -> None:
    lines = "#SBATCH -J script -t 1 -n 3\n"
    shell = {"SBATCH_JOB_NAME": "shell", "SBATCH_TIMELIMIT": "2"}
    spec = submitted_with("slurm", "--job-name=line", lines=lines, **shell)
    assert (spec.name, spec.run_time, spec.tasks[0].minimum) == ("line", 120.0, 3)
    assert submitted_with("pbs", "-N", "line", lines="#PBS -N script\n").name == "line"
    assert submitted_with("gridengine", "-N", "line", lines="#$ -N script\n").name == "line"


def test_a_script_without_options_has_the_files_and_variables_of_the_command_that_submits_it() -> None:
    names = [submitted_with(system).tasks[0].standard_output for system in BatchSystem]
    assert names == ["slurm-%CCP_JOBID%.out", "/w/run.sh.o%CCP_JOBID%", "run.sh.o%CCP_JOBID%", ""]


@pytest.mark.parametrize(
    ("system", "options", "code"),
    [
        ("slurm", ("--nosuch",), "option"),
        ("slurm", ("--time=90s",), "value"),
        ("slurm", ("--uid=3",), "not-supported"),
        ("slurm", ("--use-min-nodes",), "not-supported"),
        ("gridengine", ("-soft",), "not-supported"),
        ("gridengine", ("-l", "nosuch=1"), "resource"),
        ("pbs", ("-I",), "not-supported"),
        ("lsf", ("-R", "same[model]"), "not-supported"),
        ("lsf", ("-b", "12:30"), "value"),
    ],
)
def test_an_option_of_the_command_line_that_cannot_be_kept_is_refused_by_its_name(
    system: str, options: tuple[str, ...], code: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        submitted_with(system, *options)
    assert refused.value.code == code
    assert options[0].lstrip("-").partition("=")[0] in refused.value.what


def test_a_name_alone_in_export_takes_the_variable_of_the_shell() -> None:
    shell = {"MINE": "1", "OTHER": "2"}
    for system, option in (("slurm", "--export=MINE,SET=3"), ("pbs", "-vMINE,SET=3")):
        variables = submitted_with(system, option, **shell).tasks[0].environment
        assert (variables.get("MINE"), variables.get("SET"), variables.get("OTHER")) == ("1", "3", None)


def test_the_partition_of_all_nodes_is_no_node_group() -> None:
    assert submitted_with("slurm", "-pall").node_groups == ()
    assert submitted_with("slurm", "-pgpu").node_groups == ("gpu",)


def test_every_option_is_on_the_page() -> None:
    slurm_part, pbs_part, grid_engine_part, lsf_part = (
        PAGE.partition(f"## Options of {name}")[2].partition("\n## ")[0]
        for name in ("Slurm", "PBS", "Grid Engine", "LSF")
    )
    assert {*re.findall(r"`-(\w+)[ `]", lsf_part)} == {*BSUB_OPTIONS}
    assert {*re.findall(r"`([a-z][a-z0-9-]+)`", slurm_part)} >= {*OPTIONS}
    for part, options, resources in (
        (pbs_part, PBS_OPTIONS, PBS_RESOURCES),
        (grid_engine_part, GRID_ENGINE_OPTIONS, GRID_ENGINE_RESOURCES),
    ):
        named = {*re.findall(r"`-(\w+)`", part)} | {*re.findall(r"`-(l \w+)`", part)}
        assert named >= ({*options} - {"l"}) | {f"l {name}" for name in resources}


@given(st.text(alphabet="#SBATCH PBS$-nNtlRJwe=:,12ax[]()&|'\"\\\n", max_size=80))
def test_whatever_stands_in_a_directive_is_read_or_refused_with_its_place(text: str) -> None:
    places: list[object] = []
    for mark in ("#SBATCH", "#PBS", "#$", "#BSUB"):
        name = "-J" if mark == "#BSUB" else "-N"
        try:
            spec, report = read_script(f"#!/bin/sh\n{mark} {name} x\n{mark} {text}\n")
        except BadRequest as no:
            places.append(no.place)
            continue
        assert spec.tasks[0].script
        assert all(item.kind in Fidelity for item in lossy_items(report))
    assert None not in places


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("-d afterok:1,afterok:2?afterok:3", "all by '?'"),
        ("-d afterok:1?singleton", "singleton and aftercorr"),
        ("-d aftercorr:1?afterok:2", "singleton and aftercorr"),
        ("-d afterok:1+5", "from the start of a whole job"),
        ("-d after:1_2+5", "from the start of a whole job"),
        ("-d aftercorr:1_2", "aftercorr is for whole jobs"),
        ("-d afterok:1_x", "not the id of a job"),
    ],
)
def test_dependencies_that_cannot_be_combined_are_refused_with_what_is_possible(
    option: str, text: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        slurm(f"#SBATCH {option}")
    assert text in refused.value.what


def test_dependencies_come_back_from_slurm_and_lsf_and_what_others_lose_is_reported() -> None:
    spec = JobSpec(
        name="j",
        tasks=(TaskSpec(command="true"),),
        parents=(3, 4),
        dependencies=(ELEMENT, LATER, JobDependency(5, ON_START, delay=Seconds(90.0))),
        any_dependency=True,
    )
    found = {system: write_script(spec, system) for system in BatchSystem}
    assert b"afterok:3?afterok:4?afterok:3_7?after:5+10?after:5+2" in found[BatchSystem.SLURM][0]
    assert b"done(3) || done(4) || done(3[7]) || started(5)" in found[BatchSystem.LSF][0]
    assert b"afterok:3:4,afterok:3[7],after:5" in found[BatchSystem.PBS][0]
    assert b"-hold_jid 3,4,5\n" in found[BatchSystem.GRID_ENGINE][0]
    words = {system: str(report) for system, (_, report) in found.items()}
    assert "the delay of 90 s becomes 2 minutes" in words[BatchSystem.SLURM]
    assert "LSF has no delay" in words[BatchSystem.LSF]
    assert "PBS waits for all dependencies" in words[BatchSystem.PBS]
    assert "Grid Engine waits for the end of whole jobs" in words[BatchSystem.GRID_ENGINE]
