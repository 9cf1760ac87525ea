"""Options of sbatch for the sockets, cores and threads of nodes: none that chooses nodes is dropped."""

import pytest

from headnode.core.formats.batch import BatchSystem, read_script, write_script
from headnode.core.formats.fidelity import Fidelity, lossy_items
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.task import ScriptOrigin, TaskSpec


def named(option: str) -> str:
    return "--extra-node-info" if option.startswith("-B") else option.partition("=")[0]


@pytest.mark.parametrize(
    ("option", "needs"),
    [
        ("--sockets-per-node=2", NodeNeeds(minimum_sockets=2)),
        ("--cores-per-socket=8", NodeNeeds(minimum_cores_per_socket=8)),
        ("--threads-per-core=2", NodeNeeds(minimum_threads_per_core=2)),
        ("-B 2:8:2", NodeNeeds(minimum_sockets=2, minimum_cores_per_socket=8, minimum_threads_per_core=2)),
        ("-B 1:8:1", NodeNeeds(minimum_cores_per_socket=8)),
        ("-B *:8", NodeNeeds(minimum_cores_per_socket=8)),
        ("--extra-node-info=2", NodeNeeds(minimum_sockets=2)),
    ],
)
def test_the_least_sockets_cores_and_threads_select_the_nodes(option: str, needs: NodeNeeds) -> None:
    spec, report = read_script(f"#!/bin/sh\n#SBATCH -n 4\n#SBATCH {option}\ntrue\n")
    assert (spec.tasks[0].minimum, spec.needs) == (4, needs)
    threads = "thread" in option or option.count(":") == 2
    kind = Fidelity.APPROXIMATED if threads else Fidelity.TRANSLATED
    assert [item.kind for item in report if item.where == named(option)] == [kind]


def test_an_option_that_comes_later_takes_the_place_of_an_earlier_one() -> None:
    spec, _ = read_script("#!/bin/sh\n#SBATCH -B 2:8:2\n#SBATCH --cores-per-socket=1\ntrue\n")
    assert spec.needs == NodeNeeds(minimum_sockets=2, minimum_threads_per_core=2)


def test_the_threads_of_a_core_may_be_asked_for_in_the_shell() -> None:
    shell = ScriptOrigin(words=("x",), environment={"SBATCH_THREADS_PER_CORE": "2"})
    spec, _ = read_script("#!/bin/sh\n#SBATCH -n 4 --threads-per-core=1\ntrue\n", shell)
    assert spec.needs == NodeNeeds(minimum_threads_per_core=2)


def test_contiguous_nodes_are_asked_for_and_written() -> None:
    spec, report = read_script("#!/bin/sh\n#SBATCH -N 2 --contiguous\ntrue\n")
    assert (spec.contiguous, lossy_items(report)) == (True, ())
    assert b"#SBATCH --contiguous\n" in write_script(spec, BatchSystem.SLURM)[0]


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--sockets-per-node=0", "whole number"),
        ("--sockets-per-node=2:2", "one number"),
        ("--cores-per-socket=many", "whole number"),
        ("-B 2:2:2:2", "sockets:cores:threads"),
        ("-B 2::2", "whole number"),
        ("--ntasks-per-core=2", "--ntasks-per-node"),
        ("--ntasks-per-socket=2", "--ntasks-per-node"),
        ("--hint=compute_bound", "--cpus-per-task"),
        ("--hint=memory_bound", "--cpus-per-task"),
    ],
)
def test_what_cannot_be_read_or_kept_is_refused_with_what_to_write_instead(option: str, instead: str) -> None:
    with pytest.raises(BadRequest) as no:
        read_script(f"#!/bin/sh\n#SBATCH -n 4\n#SBATCH {option}\ntrue\n")
    assert instead in str(no.value)
    assert named(option) in str(no.value)


def test_the_hint_for_all_threads_of_a_core_is_what_every_job_has() -> None:
    spec, _ = read_script("#!/bin/sh\n#SBATCH --hint=multithread -n 4\ntrue\n")
    assert spec.tasks[0].minimum == 4


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("--sockets-per-node=1", Fidelity.TRANSLATED),
        ("--cores-per-socket=1", Fidelity.TRANSLATED),
        ("--threads-per-core=1", Fidelity.APPROXIMATED),
        ("-B 1:*:1", Fidelity.APPROXIMATED),
        ("--ntasks-per-core=1", Fidelity.APPROXIMATED),
        ("--hint=nomultithread", Fidelity.APPROXIMATED),
    ],
)
def test_what_every_node_has_is_accepted_and_tasks_that_share_a_core_are_reported(
    option: str, kind: Fidelity
) -> None:
    spec, report = read_script(f"#!/bin/sh\n#SBATCH -n 4\n#SBATCH {option}\ntrue\n")
    assert (spec.tasks[0].minimum, spec.needs) == (4, ANY_NODE)
    assert [item.kind for item in report if item.where == named(option)] == [kind]


@pytest.mark.parametrize("system", [BatchSystem.SLURM, BatchSystem.LSF])
def test_a_script_that_is_written_asks_for_the_same_sockets_cores_and_threads(system: BatchSystem) -> None:
    needs = NodeNeeds(minimum_sockets=2, minimum_cores_per_socket=8, minimum_threads_per_core=2)
    written, lost = write_script(JobSpec(needs=needs, tasks=(TaskSpec(command="true"),)), system)
    assert not lossy_items(lost)
    assert read_script(written.decode())[0].needs == needs
