"""Options of sbatch for the sockets, cores and threads of nodes: none of them is dropped."""

import pytest

from headnode.core.formats.batch import read_script
from headnode.core.model.errors import BadRequest


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--sockets-per-node=2", "--mincpus"),
        ("--cores-per-socket=8", "--mincpus"),
        ("--threads-per-core=1", "--mincpus"),
        ("-B 2:8:1", "--mincpus"),
        ("--extra-node-info=2", "--mincpus"),
        ("--ntasks-per-core=1", "--ntasks-per-node"),
        ("--ntasks-per-socket=4", "--ntasks-per-node"),
        ("--hint=nomultithread", "--cpus-per-task"),
        ("--hint=memory_bound", "--cpus-per-task"),
        ("--contiguous", "leave it out"),
    ],
)
def test_an_option_for_the_layout_of_nodes_is_refused_with_what_to_write_instead(
    option: str, instead: str
) -> None:
    with pytest.raises(BadRequest) as no:
        read_script(f"#!/bin/sh\n#SBATCH -n 4\n#SBATCH {option}\ntrue\n")
    assert instead in str(no.value)
    named = "--extra-node-info" if option.startswith("-B") else option.partition("=")[0]
    assert named in str(no.value)


def test_the_hint_for_all_threads_of_a_core_is_what_every_job_has() -> None:
    spec, _ = read_script("#!/bin/sh\n#SBATCH --hint=multithread -n 4\ntrue\n")
    assert spec.tasks[0].minimum == 4
