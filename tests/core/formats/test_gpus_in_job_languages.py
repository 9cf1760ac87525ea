"""Jobs that count GPUs in every job language: they are read as such, and a language without GPUs says so."""

import pytest

from headnode.core.formats import hpc_xml, job_template_xml, job_templates
from headnode.core.formats.dialects import read, write
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.hpc_xml import CCS, HPC, HPC_2008
from headnode.core.formats.slash_terms import read_terms
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.job_checks import check_job
from headnode.core.model.task import TaskSpec

TRAINING = JobSpec(
    unit=UnitType.GPU,
    processors_per_gpu=8,
    minimum=2,
    maximum=4,
    tasks=(TaskSpec(command="python train.py", minimum=2, maximum=4),),
)


def losses(spec: JobSpec, dialect: str) -> list[str]:
    return [item.what for item in write(spec, dialect)[1] if item.kind is Fidelity.NOT_SUPPORTED]


def test_the_command_line_counts_gpus_as_it_counts_sockets() -> None:
    spec = read_terms({"numgpus": "2-4", "corespergpu": "8"}, [{"command": "a", "numgpus": "1-2"}])
    assert (spec.unit, spec.minimum, spec.maximum, spec.processors_per_gpu) == (UnitType.GPU, 2, 4, 8)
    assert (spec.tasks[0].minimum, spec.tasks[0].maximum) == (1, 2)
    assert read_terms({}, [{"command": "a", "numgpus": "2"}]).unit is UnitType.GPU


@pytest.mark.parametrize(
    ("job", "task", "what"),
    [
        ({"numgpus": "2", "numcores": "2"}, {}, "'numprocessors' and 'numgpus' are given together"),
        ({"numcores": "2"}, {"numgpus": "2"}, "the job counts processors and a task GPUs"),
        ({"numgpus": "2"}, {"numnodes": "2"}, "the job counts GPUs and a task nodes"),
    ],
)
def test_gpus_beside_another_size_are_refused(job: dict[str, str], task: dict[str, str], what: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_terms(job, [task])
    assert (refused.value.code, what in refused.value.what) == ("unit-mismatch", True)


def test_hpc_pack_counts_gpus_in_the_sizes_of_sockets() -> None:
    text, report = write(TRAINING, HPC)
    assert b'UnitType="Gpu"' in text
    assert b'MinSockets="2" MaxSockets="4"' in text
    assert [item.what for item in report if item.kind is Fidelity.NOT_SUPPORTED] == [
        "processors_per_gpu: HPC Pack 2008 R2 and later has no such property"
    ]
    back = read(text).only_job()
    assert (back.unit, back.minimum, back.maximum) == (UnitType.GPU, 2, 4)
    assert (back.tasks[0].minimum, back.tasks[0].maximum) == (2, 4)


def test_a_job_of_sockets_with_the_mark_of_hpc_pack_2016_counts_gpus() -> None:
    inside = (
        "<CustomProperties><Term><Name>GPUJob</Name><Value>True</Value></Term></CustomProperties>"
        '<Tasks><Task CommandLine="a" UnitType="Socket" MinSockets="1" MaxSockets="2"/></Tasks>'
    )
    marked = '<Job UnitType="Socket" MinSockets="2" MaxSockets="2">{}</Job>'
    spec, report = hpc_xml.read_job(marked.format(inside))
    assert (spec.unit, spec.minimum, spec.tasks[0].maximum) == (UnitType.GPU, 2, 2)
    assert any("the job counts GPUs" in item.what for item in report)
    other = inside.replace("True", "False")
    assert hpc_xml.read_job(marked.format(other))[0].unit is UnitType.SOCKET


def test_a_task_that_counts_cores_in_a_job_of_gpus_is_refused() -> None:
    text = '<Job UnitType="Gpu" MinSockets="2"><Tasks><Task CommandLine="a" UnitType="Core"/></Tasks></Job>'
    with pytest.raises(BadRequest) as refused:
        hpc_xml.read_job(text)
    assert (refused.value.code, "the job GPUs" in refused.value.what) == ("unit-mismatch", True)


@pytest.mark.parametrize(
    ("dialect", "unit"),
    [(CCS, UnitType.PROCESSOR), (HPC_2008, UnitType.SOCKET), ("sss", UnitType.PROCESSOR)],
)
def test_a_language_without_gpus_keeps_the_numbers_and_says_what_is_lost(
    dialect: str, unit: UnitType
) -> None:
    lost = losses(TRAINING, dialect)
    assert [what for what in lost if what.startswith("unit") and "GPUs" in what]
    assert [what for what in lost if what.startswith("processors_per_gpu: ")]
    back = read(write(TRAINING, dialect)[0]).only_job()
    assert (back.unit, back.minimum, back.maximum) == (unit, 2, 4)


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_grid_description_says_that_gpus_are_lost(gpus: int) -> None:
    spec = JobSpec(
        unit=UnitType.GPU, tasks=(TaskSpec(name="a", command="/bin/a", minimum=gpus, maximum=gpus),)
    )
    assert [what for what in losses(spec, "grid") if "has no GPUs" in what]


def test_an_alternative_may_count_processors_beside_a_job_of_gpus() -> None:
    text = b'command = "a"\ngpus = 2\nprocessors_per_gpu = 8\n[[alternatives]]\nprocessors = 16\n'
    check_job(read(text).only_job())
    wrong = text + b"processors_per_gpu = 2\n"
    with pytest.raises(BadRequest) as refused:
        check_job(read(wrong).only_job())
    assert (refused.value.code, refused.value.path) == (
        "processors-per-gpu",
        ("alternatives", 0, "processors_per_gpu"),
    )


def test_a_template_with_rules_for_gpus_comes_back_and_hpc_pack_is_told_what_it_lacks() -> None:
    text = (
        'name = "T"\n[processors_per_gpu]\ndefault = 4\n[maximum_gpus]\nmost = 1\n[unit]\nallowed = "gpu"\n'
    )
    template = job_templates.read_template(text)
    assert job_templates.read_template(job_templates.write_template(template)) == template
    written, report = job_template_xml.write_template(template)
    assert b"Gpu" in written
    assert sorted(item.where for item in report) == [
        "maximum_gpus",
        "processors_per_gpu",
    ]
