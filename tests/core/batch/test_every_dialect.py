"""What the dialect of every other scheduler promises: nothing asked for is lost, no silence is believed."""

import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headnode.apps.handoff import DIALECTS
from headnode.core.batch.attempt import ForeignAttempt
from headnode.core.batch.dialect import AttemptPlace, CommandResult, ForeignAction, marker_of
from headnode.core.batch.hand_off import HandOffTable
from headnode.core.batch.tracked import Files, HandOffTimeouts
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import HeldAmounts, JobSpec, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.outcome import Ending
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.signals import SignalTarget
from headnode.core.model.task import Distribution, TaskSpec
from headnode.core.state.resources import check_may_be_handed

ROOT = Path(__file__).parents[3]
PLACE = AttemptPlace(7, 1, 1, 1)
BASE = "/home/ada/.headnode/attempts/0a1b2c3d"
PLAIN = JobSpec(resource="there", tasks=(TaskSpec(command="true", minimum=2, maximum=2),))
ASKED: dict[str, dict[str, Any]] = {
    "run time limit": {"run_time": Seconds(90.0)},
    "signal before the limit": {"run_time": Seconds(90.0), "signal": "USR1@30"},
    "signal of the program": {"run_time": Seconds(90.0), "signal": "B:USR1@30"},
    "signal of the steps": {"run_time": Seconds(90.0), "signal": "S:USR1@30"},
    "another signal": {"run_time": Seconds(90.0), "signal": "INT@30"},
    "latest end": {"end_by": Instant(5000.0)},
    "exclusive nodes": {"exclusive": True},
    "memory of each node": {"held": HeldAmounts(memory=50)},
    "memory of each process": {"process_memory": 50},
    "project": {"project": "lab"},
    "features": {"needs": NodeNeeds(features=(("gpu",),))},
    "one node": {"single_node": True},
    "sockets of a node": {"needs": NodeNeeds(minimum_sockets=2)},
    "cores of a socket": {"needs": NodeNeeds(minimum_cores_per_socket=2)},
    "threads of a core": {"needs": NodeNeeds(minimum_threads_per_core=2)},
    "name of a node": {"needs": NodeNeeds(names=("n1",))},
    "processors": {"tasks": (TaskSpec(command="true", minimum=3, maximum=3),)},
    "nodes": {"tasks": (TaskSpec(command="true", minimum=2, maximum=2, distribution=Distribution(nodes=2)),)},
    "GPUs": {"unit": UnitType.GPU},
    "sockets": {"unit": UnitType.SOCKET},
    "processors of each GPU": {"unit": UnitType.GPU, "processors_per_gpu": 4},
    "GPUs of a node": {
        "unit": UnitType.GPU,
        "tasks": (TaskSpec(command="true", minimum=2, maximum=2, distribution=Distribution(per_node=1)),),
    },
    "processors of a node": {
        "tasks": (TaskSpec(command="true", minimum=2, maximum=2, distribution=Distribution(per_node=1)),)
    },
}
MARKER = marker_of("0a1b2c3d", PLACE)


def of_sacct(state: str, status: str) -> str:
    return "\x1f".join(["7", state, status, "1000", "00:01", "00:01", "1K", "", "ada", MARKER])


def of_qstat(status: int) -> str:
    cells = {"Job_Name": MARKER, "Job_Owner": "ada@h", "job_state": "F", "Exit_status": status}
    return "\n".join(["Job Id: 7.head", *(f"    {name} = {value}" for name, value in cells.items()), ""])


def of_qacct(failed: str, status: int) -> str:
    return f"{'=' * 62}\nowner ada\njobname {MARKER}\njobnumber 7\nfailed {failed}\nexit_status {status}\n"


ENDS: dict[ResourceSystem, dict[Ending, str]] = {
    ResourceSystem.SLURM: {
        "exited": of_sacct("FAILED", "3:0"),
        "timed-out": of_sacct("TIMEOUT", "0:15"),
        "lost": of_sacct("NODE_FAIL", "0:0"),
        "stopped": of_sacct("CANCELLED by 0", "0:0"),
    },
    ResourceSystem.PBS: {
        "exited": of_qstat(3),
        "timed-out": of_qstat(-29),
        "lost": of_qstat(-20),
        "stopped": of_qstat(271),
    },
    ResourceSystem.GRID_ENGINE: {
        "exited": of_qacct("0", 3),
        "timed-out": of_qacct("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", 0),
        "stopped": of_qacct("100 : assumedly after job", 0),
    },
}
"""What the accounting answers of a job that ended so: in words of its manual, or recorded."""
OF_THE_SITE = {
    (ResourceSystem.GRID_ENGINE, "one node"): "the parallel environment of the resource decides it",
    (ResourceSystem.PBS, "one node"): "a task that names no number of nodes gets one",
}


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (ResourceSystem.SLURM, "--ntasks=4 --gpus=4 --cpus-per-gpu=3 --nodes=2 --gpus-per-node=2"),
        (ResourceSystem.PBS, "select=2:ncpus=6:ngpus=2:mem=700mb:a100=true,place=scatter"),
    ],
)
def test_gpus_are_asked_for_in_the_words_of_the_scheduler(system: ResourceSystem, words: str) -> None:
    task = TaskSpec(command="true", minimum=4, maximum=4, distribution=Distribution(per_node=2))
    needs = NodeNeeds(features=(("a100",),))
    asked = {"unit": UnitType.GPU, "processors_per_gpu": 3, "needs": needs, "tasks": (task,)}
    spec = replace(PLAIN, held=HeldAmounts(memory=100), process_memory=100, **asked)
    check_may_be_handed({"there": attempt(system, spec).resource}, spec)
    command = " ".join(DIALECTS[system].submit(attempt(system, spec).submission(Instant(1000.0))))
    assert [word for word in words.split() if word not in command] == []
    assert "CCP_NUMCPUS=12\n" in attempt(system, spec).script()


def test_processes_of_a_script_with_gpus_are_those_of_the_script() -> None:
    task = TaskSpec(command="true", minimum=2, maximum=2, environment={"SLURM_NTASKS": "1"})
    spec = replace(PLAIN, unit=UnitType.GPU, dialect="slurm", single_node=True, tasks=(task,))
    submit = DIALECTS[ResourceSystem.SLURM].submit
    command = submit(attempt(ResourceSystem.SLURM, spec).submission(Instant(1000.0)))
    assert {"--ntasks=1", "--gpus=2", "--cpus-per-gpu=1", "--nodes=1"} < {*command}


@pytest.mark.parametrize(("system", "per_node"), [(ResourceSystem.GRID_ENGINE, 0), (ResourceSystem.SLURM, 2)])
def test_gpus_that_cannot_be_said_are_refused(system: ResourceSystem, per_node: int) -> None:
    layout = Distribution(per_node=per_node) if per_node else None
    task = TaskSpec(command="true", minimum=5, maximum=5, distribution=layout)
    spec = replace(PLAIN, unit=UnitType.GPU, tasks=(task,))
    with pytest.raises(BadRequest, match="GPUs"):
        check_may_be_handed({"there": attempt(system, spec).resource}, spec)


def attempt(system: ResourceSystem, spec: JobSpec) -> ForeignAttempt:
    there = BatchResource(name="there", system=system, mark="0a1b2c3d", queue="long", parallel="smp")
    return ForeignAttempt(
        PLACE, marker_of(there.mark, PLACE), spec, "ada", "/home/ada", BASE, there, "c", "head"
    )


@pytest.mark.parametrize("system", ResourceSystem)
@pytest.mark.parametrize("asked", ASKED)
def test_what_a_job_asks_for_is_in_the_command_or_the_job_is_refused(
    system: ResourceSystem, asked: str
) -> None:
    if (system, asked) in OF_THE_SITE:
        pytest.skip(OF_THE_SITE[system, asked])
    plain, spec = attempt(system, PLAIN), replace(PLAIN, **ASKED[asked])
    resources = {"there": plain.resource}
    check_may_be_handed(resources, PLAIN)
    try:
        check_may_be_handed(resources, spec)
    except BadRequest:
        return
    submit, now = DIALECTS[system].submit, Instant(1000.0)
    assert submit(attempt(system, spec).submission(now)) != submit(plain.submission(now))


@pytest.mark.parametrize("system", ResourceSystem)
@pytest.mark.parametrize("name", ["a&b", "a|b", "a*2", "[a]", "a,b", "a b", "(a)", "a:ppn=9,b", "-a\n"])
def test_a_feature_that_means_something_in_a_command_is_refused(system: ResourceSystem, name: str) -> None:
    resources = {"there": attempt(system, PLAIN).resource}
    spec = replace(PLAIN, needs=NodeNeeds(features=((name,),)))
    with pytest.raises(BadRequest) as caught:
        check_may_be_handed(resources, spec)
    assert caught.value.path == ("needs",)


@pytest.mark.parametrize("system", ResourceSystem)
def test_every_end_has_its_meaning_and_is_no_end_by_itself(system: ResourceSystem) -> None:
    assert {"exited", "timed-out", "stopped"} <= set(ENDS[system])
    for kind, text in ENDS[system].items():
        rows = DIALECTS[system].remembered(CommandResult(0, text.rstrip("\n") + "\n", ""))
        assert rows is not None
        table = HandOffTable(system.full_name, HandOffTimeouts())
        table.add(PLACE, MARKER, "ada", job="7", may_be_there=True, now=Instant(0))
        table.polled(rows, Instant(1), Instant(1))
        news = table.looked({MARKER: Files(has_started=True)}, Instant(500), Instant(500))
        (outcome,) = [each.outcome for each in news if each.outcome is not None]
        assert outcome.kind == kind, text
        assert kind != "exited" or outcome.exit_code == 3


@pytest.mark.parametrize("system", ResourceSystem)
def test_no_line_of_a_job_is_a_directive_for_the_other_scheduler(system: ResourceSystem) -> None:
    """LSF reads ``#BSUB`` in all lines of a script, and Grid Engine its ``#$``."""
    lines = "\n".join(["#BSUB -q x", "#$ -q x", "#PBS -q x", "#SBATCH -p x", "%s"])
    task = replace(
        PLAIN.tasks[0], script=f"#!/bin/sh\n{lines}", command="prog a", environment={"A": f"a\n{lines}"}
    )
    made = attempt(system, replace(PLAIN, tasks=(task,))).script()
    assert not [line for line in made.splitlines()[2:] if line.startswith("#")]
    assert "#BSUB -q x" in made
    words = made[made.index("printf %s ") : made.index(" > ", made.index("printf %s "))]
    found = subprocess.run(["/bin/sh", "-c", words], capture_output=True, text=True, check=True).stdout
    assert found == task.script


@pytest.mark.parametrize("system", ResourceSystem)
def test_a_task_that_is_a_script_has_it_in_the_directory_of_its_attempt(system: ResourceSystem) -> None:
    task = replace(PLAIN.tasks[0], script="#!/bin/sh\necho said", command="prog a")
    script = attempt(system, replace(PLAIN, tasks=(task,))).script()
    assert "echo said" in script
    assert f'/bin/sh "$here"/{PLACE.job}.{PLACE.task}.prog a' in script


@pytest.mark.parametrize("system", ResourceSystem)
def test_a_job_carries_its_marker_and_queue_and_finds_its_id(system: ResourceSystem) -> None:
    made = attempt(system, PLAIN)
    words = " ".join(DIALECTS[system].submit(made.submission(Instant(1000.0))))
    assert made.marker in words
    assert "long" in words
    assert made.marker in made.script()
    assert f"${{{system.id_variable}:-" in made.script()
    assert set(DIALECTS) == set(ResourceSystem)


@pytest.mark.parametrize("system", ResourceSystem)
@pytest.mark.parametrize("action", ForeignAction)
def test_every_action_names_its_jobs_and_no_two_are_the_same(
    system: ResourceSystem, action: ForeignAction
) -> None:
    wanted = attempt(system, PLAIN).submission(Instant(1000.0))._replace(limit=90)
    commands = {each: DIALECTS[system].act(each, ["4711"], wanted) for each in ForeignAction}
    assert "4711" in " ".join(commands[action])
    assert [each for each in commands if commands[each] == commands[action]] == [action]


@pytest.mark.parametrize("system", ResourceSystem)
@pytest.mark.parametrize("target", get_args(SignalTarget))
def test_a_signal_names_its_jobs_and_what_gets_it_or_is_not_sent(
    system: ResourceSystem, target: SignalTarget
) -> None:
    dialect = DIALECTS[system]
    words = dialect.signal(["4711", "4712"], 10, target)
    assert not words or words[-2:] == ["4711", "4712"]
    others = [dialect.signal(["4711", "4712"], 10, each) for each in get_args(SignalTarget) if each != target]
    assert not words or words not in others
    assert target == "steps" or not dialect.signal(["4711"], 2, target), "the program ignores it"


@pytest.mark.parametrize("system", ResourceSystem)
@pytest.mark.parametrize(
    "page", ["tests/golden/help/hn-resource-add.txt", "docs/contracts/01-local-protocol.md"]
)
def test_help_and_protocol_name_every_scheduler(system: ResourceSystem, page: str) -> None:
    text = (ROOT / page).read_text()
    assert system.value in text
    assert system.settings_variable in text


@pytest.mark.parametrize("system", ResourceSystem)
def test_the_page_of_the_hand_off_names_every_scheduler(system: ResourceSystem) -> None:
    text = (ROOT / "docs/hand-off.md").read_text()
    assert f"| {system.full_name} | `{system.value}` |" in text
    assert all(name in text.lower() for name in system.other_names)


@pytest.mark.parametrize("system", ResourceSystem)
@given(text=st.text(max_size=200), status=st.sampled_from([None, 1, 2, 255]))
def test_nothing_is_concluded_from_a_command_that_failed(
    system: ResourceSystem, text: str, status: int | None
) -> None:
    dialect = DIALECTS[system]
    for found in (CommandResult(status, text, ""), CommandResult(status, "", text)):
        assert dialect.polled(found) is None
        assert not dialect.remembered(found)
        assert dialect.submitted(found).kind != "queued"
    assert dialect.submitted(CommandResult(None, text, "")).kind == "doubtful"
    assert dialect.submitted(CommandResult(0, "", "")).kind == "doubtful"


@pytest.mark.parametrize("system", ResourceSystem)
def test_an_id_that_was_cut_on_its_way_is_none(system: ResourceSystem) -> None:
    assert DIALECTS[system].submitted(CommandResult(0, "1234\n", "")).id == "1234"
    assert DIALECTS[system].submitted(CommandResult(0, "12", "12")).kind == "doubtful"


@pytest.mark.parametrize("system", ResourceSystem)
@pytest.mark.parametrize(
    "text", ["<html>502 Bad Gateway</html>", "hello\n", "JOB", "Job Id: 1.s\n    Job_Na"]
)
def test_nothing_is_concluded_from_an_answer_that_is_none_or_is_cut(
    system: ResourceSystem, text: str
) -> None:
    assert DIALECTS[system].polled(CommandResult(0, text, "")) is None
    assert DIALECTS[system].remembered(CommandResult(0, text, "")) in (None, {})


@pytest.mark.parametrize("system", ResourceSystem)
@given(text=st.text(max_size=300))
def test_an_answer_of_anything_is_read_or_nothing_is_learnt(system: ResourceSystem, text: str) -> None:
    dialect = DIALECTS[system]
    for rows in (dialect.polled(CommandResult(0, text, "")), dialect.remembered(CommandResult(0, text, ""))):
        assert not rows  # no row of ours is made of noise


NUMBERS = ["9" * 5000, "9" * 400, "9" * 19, "-" + "9" * 4400, "\N{SUPERSCRIPT TWO}", "1e999", "nan", ""]


@pytest.mark.parametrize("system", ResourceSystem)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[:5]}-{len(number)}")
def test_a_number_that_is_none_is_not_known_and_fails_nothing(system: ResourceSystem, number: str) -> None:
    dialect = DIALECTS[system]
    for text in ENDS[system].values():
        for found in re.finditer(r"\d+", text):
            shown = CommandResult(0, f"{text[: found.start()]}{number}{text[found.end() :]}\n", "")
            for row in {**(dialect.remembered(shown) or {}), **(dialect.polled(shown) or {})}.values():
                assert all(abs(each or 0) < 2**31 for each in (row.exit_code, row.signal))
                assert 0 <= (row.started or 0) < 1e12
