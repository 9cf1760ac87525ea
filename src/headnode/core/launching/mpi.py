"""What makes `mpiexec ./app` use exactly the processors of its task, whoever wrote that mpiexec.

Each of the four launchers reads its hosts from a file and starts its daemons by a program like rsh; both are
told by variables.
Source: Hydra, "Using the Hydra Process Manager"; Intel MPI, "Hydra Environment Variables"; Open MPI 4
(plm/rsh, orte_default_hostfile); PRRTE, of Open MPI 5 (plm/ssh, prte_default_hostfile).
"""

from itertools import groupby

from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.seating import BLOCKS, nodes_of
from headnode.core.model.task import Distribution, TaskSpec, TaskType

LAUNCHER = "HEADNODE_LAUNCH"  # the program that starts commands on the other nodes
SECRET = "HEADNODE_LAUNCH_SECRET"  # noqa: S105 (the name of a variable)
HOST_FILE = "CCP_MPI_HOSTFILE"


def is_parallel(task: TaskSpec, place: Place) -> bool:
    """Tell whether a task may be started by an mpiexec: it is one program with several processors."""
    return task.kind is TaskType.BASIC and sum(len(taken) for _, taken in place) > 1


def host_files(place: Place, distribution: Distribution | None) -> tuple[str, str, str]:
    """Return the hosts as Hydra reads them, as Open MPI does, and as PBS writes them, which Intel MPI reads.

    >>> host_files((("n1", (0, 1)), ("n2", (5,))), None)
    ('n1:2\\nn2:1\\n', 'n1 slots=2\\nn2 slots=1\\n', 'n1\\nn1\\nn2\\n')
    >>> host_files((("n1", (0, 1)), ("n2", (5,))), Distribution(round_robin=True))[0]
    'n1:1\\nn2:1\\nn1:1\\n'
    """
    nodes = nodes_of(distribution or BLOCKS, [len(taken) for _, taken in place])
    counts = [(place[number][0], len(list(ranks))) for number, ranks in groupby(nodes)]
    hydra = "".join(f"{node}:{count}\n" for node, count in counts)
    open_mpi = "".join(f"{node} slots={count}\n" for node, count in counts)
    return hydra, open_mpi, "".join(f"{place[number][0]}\n" for number in nodes)


def launcher_variables(launcher: str, secret: str, hydra: str, open_mpi: str, pbs: str) -> dict[str, str]:
    """Return the variables of all launchers: our program, its secret, and the paths of the host files.

    Intel MPI takes from a host file of its own only the names, and fills the nodes; that of PBS it obeys.
    """
    return {
        LAUNCHER: launcher,
        SECRET: secret,
        HOST_FILE: hydra,
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": launcher,
        "HYDRA_HOST_FILE": hydra,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": launcher,
        "I_MPI_HYDRA_RMK": "pbs",
        "PBS_NODEFILE": pbs,
        "OMPI_MCA_plm_rsh_agent": launcher,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # only the task's first node may launch
        "OMPI_MCA_orte_leave_session_attached": "1",  # its daemons stay where they can be ended
        "OMPI_MCA_orte_default_hostfile": open_mpi,
        "PRTE_MCA_plm_ssh_agent": launcher,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_default_hostfile": open_mpi,
    }


def is_schedulers(name: str) -> bool:
    """Tell whether a variable is the scheduler's, so that no task can change it."""
    return name.startswith(("CCP_", "HEADNODE_"))
