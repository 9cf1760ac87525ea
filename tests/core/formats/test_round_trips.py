"""Import, export and import again give the same job, in every dialect."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.fidelity import lossy_items
from headnode.core.formats.hpc_xml import CCS, DIALECTS, HPC, HPC_2008, read_job, write_job
from headnode.core.model.job import JobSpec

from .shared import SAMPLES, needs_samples
from .specs import jobs

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "job_xml").glob("*.xml"))
MANY = settings(max_examples=share_of(150), deadline=None, suppress_health_check=list(HealthCheck))


def back(spec: JobSpec, dialect: str) -> JobSpec:
    """Write and read again."""
    text, report = write_job(spec, dialect)
    assert not lossy_items(report), report
    return read_job(text)[0]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
@MANY
def test_every_job_a_dialect_can_say_survives_it(dialect: str, data: st.DataObject) -> None:
    spec = data.draw(jobs(dialect))
    assert back(spec, dialect) == spec


def test_a_misspelt_namespace_is_an_unknown_attribute_and_the_job_survives_in_its_dialect() -> None:
    text = (
        '<Job xmln="http://schemas.microsoft.com/HPCS2008R2/scheduler/" Odd="1" MinCores="2" MaxCores="4">'
        '<Tasks><Task Name="t" CommandLine="x" Strange="2"/></Tasks></Job>'
    )
    spec, _ = read_job(text)
    assert "Odd" in spec.extensions
    assert back(spec, spec.dialect) == spec


@needs_samples
@pytest.mark.parametrize(
    "path", [path for path in SAMPLES if not path.name.startswith("012")], ids=lambda path: path.name
)
def test_every_sample_survives_export(path: Path) -> None:
    spec, _ = read_job(path.read_bytes())
    assert back(spec, spec.dialect) == spec


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_golden_file_is_written_to_the_letter(path: Path) -> None:
    spec, _ = read_job(path.read_bytes())
    assert write_job(spec, spec.dialect)[0].decode() == path.read_text()


def test_there_are_golden_files_of_all_dialects() -> None:
    assert {read_job(path.read_bytes())[0].dialect for path in GOLDEN} == {CCS, HPC_2008, HPC}


def test_a_file_its_dialect_cannot_say_is_kept_as_one_of_the_next() -> None:
    text = (
        '<Job xmlns="http://www.microsoft.com/ComputeCluster/" Priority="Normal+3" User="alice">'
        '<Tasks><Task CommandLine="a" FailJobOnFailure="true"/></Tasks></Job>'
    )
    spec, report = read_job(text)
    assert (spec.dialect, spec.exclusive, spec.priority) == (HPC, True, 2003)
    assert any("cannot express all" in item.what for item in report)
    assert back(spec, HPC) == spec


def test_a_job_environment_in_a_file_of_2008_is_not_lost() -> None:
    text = (
        '<Job xmlns="http://schemas.microsoft.com/HPCS2008/scheduler/"><EnvironmentVariables><Variable>'
        "<Name>A</Name><Value>1</Value></Variable></EnvironmentVariables></Job>"
    )
    spec, _ = read_job(text)
    assert (spec.dialect, spec.environment) == (HPC, {"A": "1"})
    assert back(spec, spec.dialect) == spec


def test_a_sweep_master_is_exported_unexpanded() -> None:
    text = '<Job><Tasks><Task Type="ParametricSweep" EndValue="999999" CommandLine="x *"/></Tasks></Job>'
    written = write_job(read_job(text)[0], HPC)[0].decode()
    assert written.count("<Task ") == 1
    assert 'EndValue="999999"' in written
    assert 'Type="ParametricSweep" IsParametric="true"' in written
