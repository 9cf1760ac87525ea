"""Requested names several clusters, users or queues: which of them a job is submitted with."""

import pytest

from headnode.core.formats.dialects import ReadJobs, ReadOptions, read, write
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.errors import BadRequest

JOB = "<Job><Id>1</Id><Executable>/bin/a</Executable><Requested>{}</Requested></Job>"
PAIRS = (
    '<User group="1">scottmo</User><Account group="-1">mscfops</Account>'
    '<User conj="Or" group="1">amy</User><Account group="-1">chemistry</Account>'
)
MACHINES = (
    '<Machine group="1">Here</Machine><Processors group="-1">4</Processors>'
    '<Machine conj="Or" group="1">far</Machine><Processors group="-1">8</Processors>'
    '<Machine conj="Or" group="1">here</Machine><Processors group="-1">2</Processors>'
)


def reading(requested: str, machine: str = "here", user: str = "") -> ReadJobs:
    return read(JOB.format(requested), ReadOptions(machine=machine, user=user))


def sizes(found: ReadJobs) -> list[int | None]:
    job = found.only_job()
    return [job.minimum, *(one.minimum for one in job.alternatives)]


def unused_alternatives(found: ReadJobs) -> list[str]:
    return [item.what for item in found.report if item.what.startswith("alternative not used")]


@pytest.mark.parametrize(
    ("user", "pair"),
    [
        ("amy", ("amy", "chemistry")),
        ("scottmo", ("scottmo", "mscfops")),
        ("operator", ("scottmo", "mscfops")),
        ("", ("scottmo", "mscfops")),
    ],
)
def test_of_pairs_of_user_and_account_the_one_of_the_submitter_is_used_else_the_first(
    user: str, pair: tuple[str, str]
) -> None:
    found = reading(PAIRS, user=user)
    job = found.only_job()
    assert (job.run_as, job.project) == pair
    other = "User scottmo and Project mscfops" if user == "amy" else "User amy and Project chemistry"
    assert unused_alternatives(found) == [
        f"alternative not used: {other}: a job has one user, project, queue, reservation and cluster"
    ]


def test_the_preferred_pair_is_used_when_none_is_the_submitters() -> None:
    more = PAIRS.replace('<User conj="Or" group="1">', '<User conj="Or" group="1" preference="5">')
    assert reading(more).only_job().run_as == "amy"


def test_alternatives_for_other_clusters_are_not_used_and_all_for_this_one_are() -> None:
    found = reading(MACHINES)
    assert sizes(found) == [4, 2]
    assert unused_alternatives(found) == [
        "alternative not used: Machine == far and Processors == 8: this cluster is 'here'"
    ]
    assert sizes(reading(MACHINES, "FAR")) == [8]


def test_a_job_none_of_whose_alternatives_is_for_this_cluster_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"Machine == Here, or Machine == far, or Machine == here: .*'near'"):
        reading(MACHINES, "near")


def test_where_the_cluster_is_not_known_alternatives_of_one_cluster_are_used() -> None:
    found = reading(MACHINES, "")
    assert sizes(found) == [4, 2]
    assert [item.kind for item in found.report if item.what in unused_alternatives(found)] == [
        Fidelity.APPROXIMATED
    ]


@pytest.mark.parametrize(
    ("op", "name", "fits"), [("NE", "far", True), ("NE", "here", False), ("Match", "he.*", True)]
)
def test_a_cluster_that_is_compared_is_decided_where_the_job_is_submitted(
    op: str, name: str, fits: bool
) -> None:
    requested = f'<Machine op="{op}">{name}</Machine>'
    if fits:
        assert [item.kind for item in reading(requested).report] == [Fidelity.KEPT]
    else:
        with pytest.raises(BadRequest, match="machine"):
            reading(requested)


@pytest.mark.parametrize("name", ["Queue", "Project", "Reservation", "QualityOfService"])
def test_an_alternative_of_another_queue_or_project_gives_the_job_none_of_its_size(name: str) -> None:
    requested = (
        f'<Processors group="1">4</Processors><{name} group="-1">one</{name}>'
        f'<Processors conj="Or" group="1">8</Processors><{name} group="-1">two</{name}>'
    )
    found = reading(requested)
    assert sizes(found) == [4]
    assert unused_alternatives(found)[0].startswith(f"alternative not used: {name} two: a job has one")


def test_what_was_not_chosen_is_written_back() -> None:
    text = write(reading(PAIRS).only_job(), "sss")[0]
    assert read(text, ReadOptions(user="amy")).only_job().project == "chemistry"
