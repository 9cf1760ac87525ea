"""LSF job scripts are read as bsub reads them, and what is written into one comes back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headnode.core.formats.batch import BatchSystem, read_script, write_script
from headnode.core.formats.fidelity import lossy_items
from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import HeldAmounts, JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.task import Distribution, ResourceLimit, ScriptOrigin

ON_START = Condition.ON_START
ORIGIN = ScriptOrigin(words=("./run.sh",), directory="/home/ada/w")


def job(*options: str, command: str = "true") -> JobSpec:
    lines = [f"#BSUB {each}" for each in options]
    return read_script("\n".join(["#!/bin/bash", *lines, command, ""]), ORIGIN)[0]


@pytest.mark.parametrize(
    ("lines", "fields", "task"),
    [
        (["-n 4"], {"single_node": False}, {"minimum": 4, "maximum": 4, "rerunnable": False}),
        (["-n 4,8 -r"], {}, {"minimum": 4, "maximum": 8, "rerunnable": True}),
        (["-nnodes 2"], {"exclusive": True}, {"distribution": Distribution(nodes=2)}),
        (["-W 1:30"], {"run_time": 5400.0}, {}),
        (["-W 90/hostA"], {"run_time": 5400.0}, {}),
        (["-n 4 -R span[hosts=1]"], {"single_node": True}, {"minimum": 4, "distribution": None}),
        (["-n 4 -R 'span[ptile=2]'"], {}, {"distribution": Distribution(per_node=2)}),
        (["-R 'rusage[mem=500:duration=1h]'"], {"held": HeldAmounts(memory=500)}, {}),
        (["-R 'rusage[mem=2GB/task]'"], {"process_memory": 2048}, {}),
        (["-R 'select[intel && (big || huge)] rusage[mem=1G]'"], {"held": HeldAmounts(memory=1024)}, {}),
        (["-R select[hname!=n1]", "-R span[hosts=1]"], {"excluded_nodes": ("n1",)}, {}),
        (["-m 'n1 n2+3'"], {"requested_nodes": ("n1", "n2")}, {}),
        (["-q 'night day' -P lab"], {"template": "night", "project": "lab"}, {}),
        (["-g sweep1 -Jd 'what for' -U hall"], {"job_group": "sweep1", "description": "what for"}, {}),
        (["-w 'done(3[*]) && exit(4)'"], {"after_corresponding": (3,), "after_failure": (4,)}, {}),
        (
            ["-w '(done(3[7]) || exit(4)) || ((5))'"],
            {
                "dependencies": (JobDependency(3, element=7),),
                "after_failure": (4,),
                "parents": (5,),
                "any_dependency": True,
            },
            {},
        ),
        (
            ["-w '(done(3)) && (exit(4[2]))'"],
            {"parents": (3,), "dependencies": (JobDependency(4, Condition.ON_FAILURE, 2),)},
            {},
        ),
        (["-w 'done(3) && exit(4) && ended(5) && 6'"], {"parents": (3, 6), "after_exit": (5,)}, {}),
        (["-w 'started(\"mesh\")'"], {"named_parents": (NamedParent("mesh", condition=ON_START),)}, {}),
        (["-u a@b.c -B -H"], {"email": "a@b.c", "notify_on_start": True, "holds": ("user",)}, {}),
        (["-S 64M"], {"resource_limits": (ResourceLimit("stack", soft=64 * 1024**2),)}, {}),
        (["-F 3"], {"resource_limits": (ResourceLimit("fsize", soft=3 * 1024),)}, {}),
        (["-cwd sub"], {}, {"work_directory": "/home/ada/w/sub"}),
        (["-oo out.%J.%I"], {}, {"standard_output": "out.%CCP_JOBID%.0", "append_output": False}),
        (["-o all"], {}, {"standard_error": "all", "append_output": True, "append_error": True}),
        (["-oo logs/ -eo e"], {}, {"standard_output": "logs/%CCP_JOBID%.out", "standard_error": "e"}),
        (["-N"], {"notify_on_completion": True}, {"standard_output": "", "standard_error": ""}),
    ],
)
def test_options_of_bsub_are_fields_of_the_job(
    lines: list[str], fields: dict[str, Any], task: dict[str, Any]
) -> None:
    spec = job(*lines)
    assert spec.dialect == "lsf"
    assert {name: getattr(spec, name) for name in fields} == fields
    assert {name: getattr(spec.tasks[0], name) for name in task} == task
    check_job(spec)


def test_conditions_of_lsf_are_needs_of_every_node() -> None:
    needs = job("-R 'intel && (big || huge) && maxmem>4G && ncpus>3 order[ut]' -gpu num=2:gmodel=A100").needs
    assert needs.features == (("intel",), ("big", "huge"), ("A100",))
    assert (needs.minimum_memory, needs.minimum_processors) == (4096, 4)
    needs = job("-R 'select[nprocs>=2 && ncores>7 && nthreads>=2]'").needs
    assert needs == NodeNeeds(minimum_sockets=2, minimum_cores_per_socket=8, minimum_threads_per_core=2)


def test_an_array_of_lsf_has_its_numbers_in_its_name_and_files() -> None:
    spec = job("-J 'sim[1-9:2,20]%3' -o %J/%I.txt", command="true\n#BSUB -W 7")
    assert (spec.name, spec.maximum) == ("sim", 3)
    assert [(task.start, task.end, task.increment) for task in spec.tasks] == [(1, 9, 2), (20, 20, 1)]
    assert {task.standard_output for task in spec.tasks} == {"%CCP_JOBID%/*.txt"}
    assert {task.run_time for task in spec.tasks} == {420.0}
    (first, second) = job("-J sim[1-2] -n 4").tasks
    assert (first.environment["LSB_JOBINDEX"], second.environment["LSB_JOBINDEX"]) == ("1", "2")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("-nosuch 3", "-nosuch"),
        ("-n", "no value"),
        ("-n 4,2", "at least 4"),
        ("-W 1:2:3", "not a time"),
        ("-W soon", "not a time"),
        ("-W 0", "at least 1 minute"),
        ("-J x[0-3]", "begins with 1"),
        ("-J x[1-3", "not a name"),
        ("-R rusage[licence=1]", "licence"),
        ("-R 'rusage[mem=1||mem=2]'", "not an amount"),
        ("-R '2*{select[a]}+1*{select[b]}'", "several requirement strings"),
        ("-R same[model]", "no equivalent"),
        ("-R span[stripe]", "stripe"),
        ("-R select[ut<0.5]", "ut<0.5"),
        ("-R select[mem>4", "not a section"),
        ("-m others", "others"),
        ("-w 'done(3) || done(4) && 5'", "&& and ||"),
        ("-w '(done(3) || done(4)'", "parentheses do not match"),
        ("-w 'done(3)) || (done(4)'", "parentheses do not match"),
        ("-w 'done(\"mesh[3]\")'", "mesh[3]"),
        ("-w 'exit(3[*])'", "exit(3[*])"),
        ("-w 'done(3[*]) || done(4)'", "done(3[*])"),
        ("-w '!done(3)'", "!done(3)"),
        ("-w 'done(a*)'", "done(a*)"),
        ("-b 5:30", "with a year"),
        ("-env all,~HOME", "left out"),
        ("-Is", "interactive"),
    ],
)
def test_what_cannot_be_said_or_is_wrong_is_refused_with_its_line(options: str, text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        job("-J x", options)
    assert text in str(refused.value)
    assert refused.value.place is not None
    assert (refused.value.place[0], bool(refused.value.fix)) == (3, True)


@given(
    processors=st.integers(1, 64),
    more=st.integers(0, 9),
    per_node=st.none() | st.integers(1, 8),
    minutes=st.none() | st.integers(1, 10_000),
    array=st.none() | st.tuples(st.integers(1, 5), st.integers(6, 90), st.integers(1, 3)),
)
def test_a_script_of_lsf_that_is_written_anew_is_the_same_job(
    processors: int, more: int, per_node: int | None, minutes: int | None, array: tuple[int, int, int] | None
) -> None:
    lines = [f"#BSUB -n {processors},{processors + more}" if array is None else "#BSUB -n 1"]
    lines += [f"#BSUB -R span[ptile={per_node}]"] if per_node and not array else []
    lines += [f"#BSUB -W {minutes}"] if minutes else []
    lines += [f"#BSUB -J x[{array[0]}-{array[1]}:{array[2]}]"] if array else []
    first = read_script("\n".join(["#!/bin/sh", *lines, "echo $1", ""]))[0]
    text, report = write_script(first, BatchSystem.LSF)
    again = read_script(text)[0]
    assert lossy_items(report) == ()
    assert _without_options(again) == _without_options(first)


def _without_options(spec: JobSpec) -> JobSpec:
    return replace(spec, tasks=tuple(replace(task, script=task.script[-5:]) for task in spec.tasks))


def test_files_that_are_written_behind_or_anew_come_back() -> None:
    for options in (["-o a -e b"], ["-oo a -eo b"], ["-o a -eo b"], ["-o all"], ["-oo all -i in.%J"]):
        first = job(*options)
        text, report = write_script(first, BatchSystem.LSF)
        assert _without_options(read_script(text, ORIGIN)[0]) == _without_options(first), report


def test_limits_of_processes_come_back_or_are_reported() -> None:
    base = job("-C 0", "-S 1G")
    assert (
        read_script(write_script(base, BatchSystem.LSF)[0], ORIGIN)[0].resource_limits == base.resource_limits
    )
    for limit in (ResourceLimit("nofile", 5), ResourceLimit("core", 5), ResourceLimit("core", 0, 0)):
        _, report = write_script(replace(base, resource_limits=(limit,)), BatchSystem.LSF)
        assert [limit.name in item.what for item in lossy_items(report)] == [True]


def test_memory_without_a_unit_is_reported_as_it_is_that_of_the_site() -> None:
    for mem, found in (("500", ["-R rusage[mem]"]), ("500M", [])):
        _, report = read_script(f"#!/bin/sh\n#BSUB -R rusage[mem={mem}]\ntrue\n")
        assert [item.where for item in lossy_items(report)] == found
