"""Writing and reading again gives the same SSS document, in both versions."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from headnode.core.formats.sss import Document, Version, is_job_object, read_document, write_document

from .sss_documents import documents, versions

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "sss").glob("*.xml"))
MANY = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@given(documents, versions)
@MANY
def test_every_document_survives_both_versions(document: Document, version: Version) -> None:
    text, report = write_document(document, version)
    assert report == ()
    assert read_document(text)[0] == replace(document, version=version)
    assert is_job_object(text)
