"""What an mpiexec finds: exactly the processors of its task, in the form that each launcher reads."""

from itertools import product

from headnode.core.launching.environment import host_files, is_parallel, launcher_variables
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.job_events import NodeCores


def ranks(text: str, mark: str) -> list[str]:
    """Return the node of each rank."""
    lines = [line.split(mark) for line in text.splitlines()]
    return [node for node, count in lines for _ in range(int(count))]


def test_all_forms_of_the_host_file_name_the_same_processors_in_every_small_world() -> None:
    for counts in product((1, 2, 3), repeat=3):
        place: NodeCores = tuple((f"n{number}", tuple(range(count))) for number, count in enumerate(counts))
        for distribution in (None, Distribution(round_robin=True), Distribution(per_node=1)):
            hydra, open_mpi, pbs = host_files(place, distribution)
            assert ranks(hydra, ":") == ranks(open_mpi, " slots=") == pbs.split()
            if distribution is None or distribution.round_robin:
                assert sorted(pbs.split()) == sorted(
                    f"n{n}" for n, count in enumerate(counts) for _ in range(count)
                )
            else:
                assert pbs.split() == ["n0", "n1", "n2"]


def test_only_one_program_with_several_processors_is_parallel() -> None:
    for processors, kind in product(((1,), (2,), (1, 1)), (TaskType.BASIC, TaskType.SWEEP)):
        place: NodeCores = tuple((f"n{n}", tuple(range(count))) for n, count in enumerate(processors))
        task = TaskSpec(command="x", kind=kind, end=3) if kind is TaskType.SWEEP else TaskSpec(command="x")
        assert is_parallel(task, place) is (kind is TaskType.BASIC and sum(processors) > 1)


def test_every_launcher_is_told_our_program_and_a_file_it_understands() -> None:
    found = launcher_variables("/launch", "secret", "/hydra", "/open", "/pbs")
    programs = {name for name, value in found.items() if value == "/launch"}
    assert programs == {
        "HEADNODE_LAUNCH",
        "HYDRA_LAUNCHER_EXEC",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        "OMPI_MCA_plm_rsh_agent",
        "PRTE_MCA_plm_ssh_agent",
    }
    assert {name for name, value in found.items() if value == "/hydra"} == {
        "HYDRA_HOST_FILE",
        "CCP_MPI_HOSTFILE",
    }
    assert {name for name, value in found.items() if value == "/open"} == {
        "OMPI_MCA_orte_default_hostfile",
        "PRTE_MCA_prte_default_hostfile",
    }
    assert {name for name, value in found.items() if value == "/pbs"} == {"PBS_NODEFILE"}
    assert {name for name, value in found.items() if value == "secret"} == {"HEADNODE_LAUNCH_SECRET"}
