"""An agent says what its machine is; what it is told is believed over what it finds."""

import os
import platform
import shutil
import tempfile

from headnode.apps.agent.machine import facts_of_this_machine, read_options

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
    told = ["--disk", "7", "--swap", "8", "--memory", "9", "--features", "gpu, ssd,", "--groups", "a,b"]
    facts = facts_of_this_machine(read_options([*GIVEN, *told]))
    assert (facts.disk, facts.swap, facts.memory) == (7, 8, 9)
    assert (facts.features, facts.groups) == (("gpu", "ssd"), ("a", "b"))
