"""Writing and reading again gives the same SSS document, in both versions."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from depth import share_of
from headnode.core.formats.sss import (
    SssDocument,
    SssJob,
    SssVersion,
    is_job_object,
    read_document,
    write_document,
)
from headnode.core.formats.sss.properties import Consumable, SssProperty
from headnode.core.model.errors import Broken

from .sss_documents import documents, versions

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "sss").glob("*.xml"))
MANY = settings(max_examples=share_of(100), deadline=None, suppress_health_check=list(HealthCheck))


@given(documents, versions)
@MANY
def test_every_document_survives_both_versions(document: SssDocument, version: SssVersion) -> None:
    text, report = write_document(document, version)
    assert report == ()
    assert read_document(text)[0] == replace(document, version=version)
    assert is_job_object(text)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_golden_file_is_written_to_the_letter(path: Path) -> None:
    document, report = read_document(path.read_bytes())
    assert (write_document(document)[0].decode(), report) == (path.read_text(), ())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_golden_file_is_the_other_one_in_the_other_version(path: Path) -> None:
    document, _ = read_document(path.read_bytes())
    other = next(version for version in SssVersion if version is not document.version)
    twin = path.with_name(path.name.replace(under(document.version), under(other)))
    assert write_document(document, other)[0].decode() == twin.read_text()


def under(version: SssVersion) -> str:
    return version.value.replace(".", "_")


def test_there_are_golden_files_of_both_versions() -> None:
    spoken = [read_document(path.read_bytes())[0].version for path in GOLDEN]
    assert len(spoken) >= 6
    assert set(spoken) == set(SssVersion)


def test_what_xml_cannot_hold_is_replaced_and_told() -> None:
    job = SssJob(
        properties=(SssProperty(name="Id", value="1"), SssProperty(name="Executable", value="a\x00b"))
    )
    text, report = write_document(SssDocument(entries=(job,)))
    assert "a\ufffdb" in text.decode()
    assert [(item.where, item.what) for item in report] == [
        ("Executable", "control characters cannot be written in XML: they are replaced")
    ]


def test_a_network_adapter_that_looks_like_an_amount_is_reported() -> None:
    job = SssJob(properties=(SssProperty(name="Id", value="1"), SssProperty(name="Network", value="10")))
    _, report = write_document(SssDocument(entries=(job,)))
    assert [item.what for item in report] == ["'10' will be read as an amount"]


def test_a_property_in_the_wrong_place_is_our_mistake_and_is_not_written() -> None:
    job = SssJob(properties=(SssProperty(name="Id", value="1"), SssProperty(name="TaskCount", value=1)))
    with pytest.raises(Broken, match="cannot stand in Job"):
        write_document(SssDocument(entries=(job,)))


def test_a_struct_that_is_not_that_of_the_property_is_our_mistake() -> None:
    job = SssJob(properties=(Consumable(name="Id", value=1),))
    with pytest.raises(Broken, match="Consumable 'Id'"):
        write_document(SssDocument(entries=(job,)))
