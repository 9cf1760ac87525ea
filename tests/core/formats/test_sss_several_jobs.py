"""Several jobs are one SSS document, which says what waits for what."""

from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.dialects import ReadOptions, convert
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.sss import SssVersion, read_document, write_document
from headnode.core.formats.sss.conversion import (
    ConvertedJobs,
    DependencyLink,
    document_of,
    document_of_jobs,
    jobs_in,
)
from headnode.core.model.dependency import Condition
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

MANY = settings(max_examples=share_of(100), deadline=None, suppress_health_check=list(HealthCheck))
FEW_NAMES = st.sampled_from(["", "a", "b", "17", "job1"])


def a_job(name: str, group: str = "", description: str = "", **more: object) -> JobSpec:
    """A job that runs one program."""
    task = TaskSpec(command=f"/bin/{name or 'x'}")
    fields = {"name": name, "job_group": group, "description": description, **more}
    return JobSpec(tasks=(task,), **fields)  # of the tests themselves


@st.composite
def flows(draw: st.DrawFn, group: st.SearchStrategy[str]) -> tuple[list[JobSpec], list[DependencyLink]]:
    """Jobs, of which later ones may wait for earlier ones."""
    count = draw(st.integers(1, 4))
    one = draw(group)
    specs = [
        a_job(
            draw(FEW_NAMES),
            one,
            draw(st.sampled_from(["", "d", "e"])),
            parents=draw(st.just((17,)) | st.just(())),
        )
        for _ in range(count)
    ]
    pairs = list(combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=4, unique=True)) if pairs else []
    return specs, [
        DependencyLink(child, parent, draw(st.sampled_from(Condition))) for parent, child in chosen
    ]


def again(specs: list[JobSpec], links: list[DependencyLink], version: SssVersion) -> ConvertedJobs:
    """The jobs after they were one document."""
    document, _ = document_of_jobs(specs, links, version)
    return jobs_in(read_document(write_document(document, version)[0])[0])


def bare(spec: JobSpec) -> tuple[object, ...]:
    """What a job is besides its Id."""
    fields = (spec.name, spec.job_group, spec.description, spec.parents)
    return (*fields, [task.command for task in spec.tasks])


@pytest.mark.parametrize("version", SssVersion)
@given(flow=flows(st.just("g")))
@MANY
def test_a_group_of_jobs_comes_back_with_its_links(
    version: SssVersion, flow: tuple[list[JobSpec], list[DependencyLink]]
) -> None:
    specs, links = flow
    back = again(specs, links, version)
    assert [*map(bare, back.jobs)] == [*map(bare, specs)]
    assert {*back.links} == {*links}


@given(flow=flows(st.sampled_from(["", "g"])))
@MANY
def test_jobs_of_no_group_that_wait_for_each_other_get_one_which_is_reported(
    flow: tuple[list[JobSpec], list[DependencyLink]],
) -> None:
    specs, links = flow
    _, report = document_of_jobs(specs, links)
    found = [item for item in report if item.what.startswith("job_group")]
    assert bool(found) is (not specs[0].job_group and bool(links))
    back = again(specs, links, SssVersion.V3_1)
    assert ({*back.links}, len(back.jobs)) == ({*links}, len(specs))
    assert {spec.job_group for spec in back.jobs} == ({"jobs"} if found else {specs[0].job_group})


def test_jobs_of_several_groups_stand_in_their_groups_and_those_of_none_beside_them() -> None:
    specs = [a_job("a", "g"), a_job("b"), a_job("c", "h"), a_job("d", "g")]
    document, report = document_of_jobs(specs)
    back = jobs_in(document).jobs
    assert [(spec.name, spec.job_group) for spec in back] == [("a", "g"), ("d", "g"), ("b", ""), ("c", "h")]
    assert [item.kind for item in report] == [Fidelity.NOTE]


def test_the_description_that_all_jobs_share_is_that_of_their_group() -> None:
    alike = write_document(document_of_jobs([a_job("a", "g", "d"), a_job("b", "g", "d")])[0])[0].decode()
    assert (alike.count("<Description>d</Description>"), alike.count("Extension")) == (1, 0)
    differing = write_document(document_of_jobs([a_job("a", "g", "d"), a_job("b", "g", "e")])[0])[0].decode()
    assert (differing.count("<Description>"), differing.count("</Extension>")) == (0, 2)


def test_an_id_that_means_another_job_is_not_given_to_one_of_the_file() -> None:
    specs = [a_job("17", "g"), a_job("b", "g", parents=(17,))]
    back = again(specs, [], SssVersion.V3_1)
    assert (back.links, back.jobs[1].parents) == ((), (17,))


def test_a_job_of_a_group_stands_in_its_group_also_alone() -> None:
    document, report = document_of(a_job("a", "g", "d", after_failure=(4,)))
    assert report == ()
    assert write_document(document)[0].decode() == (
        '<?xml version="1.0" encoding="utf-8"?>\n<JobGroup>\n  <Id>g</Id>\n  <Description>d</Description>\n'
        "  <Job>\n    <Id>new</Id>\n    <Name>a</Name>\n    <Executable>/bin/a</Executable>\n"
        '    <Dependency condition="OnFailure" designator="JobId">4</Dependency>\n  </Job>\n</JobGroup>\n'
    )


def test_jobs_of_a_native_file_are_converted_into_one_group() -> None:
    first = '[[jobs]]\nname = "a"\ncommand = "/bin/a"\n'
    native = f'{first}[[jobs]]\nname = "b"\ncommand = "/bin/b"\nafter_exit = ["a"]\n'
    _, _, (text, _) = convert(native, ReadOptions(), "sss")
    assert jobs_in(read_document(text)[0]).links == (DependencyLink(1, 0, Condition.ON_EXIT),)


def test_a_thousand_jobs_are_written_in_one_go() -> None:
    specs = [a_job("same", "g") for _ in range(1000)]
    links = [DependencyLink(number + 1, number, Condition.ON_SUCCESS) for number in range(999)]
    document, _ = document_of_jobs(specs, links)
    assert jobs_in(document).links == tuple(links)
