"""An agent says what its machine is; what it is told is believed over what it finds."""

import os
import platform
import shutil
import tempfile
from pathlib import Path

import pytest

from headnode.apps.agent.machine import facts_of_this_machine, read_options
from headnode.apps.agent.processor_topology import read_topology

GIVEN = ["--head", "h", "--state", "s", "--name", "n1"]


def test_a_machine_shows_its_disk_swap_architecture_and_system() -> None:
    facts = facts_of_this_machine(read_options(GIVEN))
    with open("/proc/meminfo", encoding="ascii") as meminfo:  # noqa: PTH123
        sizes = {line.split()[0]: int(line.split()[1]) for line in meminfo}
    assert facts.disk == shutil.disk_usage(tempfile.gettempdir()).total // 2**20 > 0
    assert (facts.memory, facts.swap) == (sizes["MemTotal:"] // 1024, sizes["SwapTotal:"] // 1024)
    assert (facts.architecture, facts.system) == (platform.machine(), "Linux")
    assert facts.processors == len(os.sched_getaffinity(0))
    assert (facts.features, facts.groups) == ((), ())


def test_what_an_agent_is_told_counts_and_features_and_groups_are_lists() -> None:
    found = ["--disk", "7", "--swap", "8", "--memory", "9", "--features", "gpu, ssd,", "--groups", "a,b"]
    facts = facts_of_this_machine(read_options([*GIVEN, *found]))
    assert (facts.disk, facts.swap, facts.memory) == (7, 8, 9)
    assert (facts.features, facts.groups) == (("gpu", "ssd"), ("a", "b"))


def test_the_topology_of_a_machine_is_that_of_the_processors_that_the_agent_may_use(tmp_path: Path) -> None:
    for number in range(8):  # two sockets of two cores of two threads
        describe(tmp_path, number, socket=number % 2, core=f"{number % 4},{number % 4 + 4}")
    assert read_topology(range(8), tmp_path) == (2, 2, 2)
    assert read_topology((0, 4), tmp_path) == (1, 1, 2)
    assert read_topology((0, 1, 2, 4), tmp_path) == (2, 1, 1), "of the socket and the core with the fewest"


def test_processors_whose_cores_have_only_the_old_name_are_read_too(tmp_path: Path) -> None:
    for number in range(2):
        describe(tmp_path, number, core="0-1", file="thread_siblings_list")
    assert read_topology(range(2), tmp_path) == (1, 1, 2)


@pytest.mark.parametrize("socket", ["-1", "", "x", "٣", None])
def test_a_machine_that_does_not_say_its_sockets_has_no_topology(tmp_path: Path, socket: str | None) -> None:
    describe(tmp_path, 0)
    describe(tmp_path, 1, socket=socket)
    assert read_topology((0,), tmp_path) == (1, 1, 1)
    assert read_topology((0, 1), tmp_path) is None


def test_files_of_processors_that_are_missing_or_none_are_not_known_and_never_an_error(
    tmp_path: Path,
) -> None:
    assert read_topology((0,), tmp_path) is None
    assert read_topology((), tmp_path) is None
    describe(tmp_path, 0, core="")
    assert read_topology((0,), tmp_path) is None
    (tmp_path / "cpu1" / "topology" / "core_cpus_list").mkdir(parents=True)
    assert read_topology((1,), tmp_path) is None
    (tmp_path / "cpu2" / "topology").mkdir(parents=True)
    os.mkfifo(tmp_path / "cpu2" / "topology" / "physical_package_id")
    assert read_topology((2,), tmp_path) is None, "it does not wait for a writer"


def test_what_an_agent_is_told_of_its_topology_is_believed() -> None:
    found = ["--processors", "64", "--sockets", "2", "--cores-per-socket", "16", "--threads-per-core", "2"]
    facts = facts_of_this_machine(read_options([*GIVEN, *found]))
    assert (facts.sockets, facts.cores_per_socket, facts.threads_per_core) == (2, 16, 2)


def test_an_agent_that_is_told_another_number_of_processors_does_not_know_their_cores() -> None:
    facts = facts_of_this_machine(read_options([*GIVEN, "--processors", "5000"]))
    assert (facts.cores_per_socket, facts.threads_per_core) == (0, 0)
    usable = len(os.sched_getaffinity(0))
    facts = facts_of_this_machine(read_options([*GIVEN, "--processors", str(usable)]))
    found = read_topology(os.sched_getaffinity(0)) or (facts.sockets, 0, 0)
    assert (facts.sockets, facts.cores_per_socket, facts.threads_per_core) == found


def test_a_node_of_one_processor_has_one_socket_on_every_machine() -> None:
    assert facts_of_this_machine(read_options([*GIVEN, "--processors", "1"])).sockets == 1


def describe(
    directory: Path, number: int, *, socket: object = 0, core: str | None = None, file: str = "core_cpus_list"
) -> None:
    """Write what Linux says of a processor; a socket of None is not written."""
    topology = directory / f"cpu{number}" / "topology"
    topology.mkdir(parents=True)
    if socket is not None:
        (topology / "physical_package_id").write_text(f"{socket}\n")
    (topology / file).write_text(f"{number if core is None else core}\n")
