"""Options of sbatch for the sockets, cores and threads of nodes: none that chooses nodes is dropped."""

import pytest

from headnode.core.formats.batch import read_script
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.errors import BadRequest
from headnode.core.model.node_needs import ANY_NODE


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--sockets-per-node=2", "--mincpus"),
        ("--cores-per-socket=8", "--mincpus"),
        ("--threads-per-core=2", "--mincpus"),
        ("-B 1:8:1", "--mincpus"),
        ("--extra-node-info=2", "--mincpus"),
        ("--ntasks-per-core=2", "--ntasks-per-node"),
        ("--ntasks-per-socket=4", "--ntasks-per-node"),
        ("--hint=compute_bound", "--cpus-per-task"),
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
    named = "--extra-node-info" if option.startswith("-B") else option.partition("=")[0]
    assert [item.kind for item in report if item.where == named] == [kind]
