"""Every sample job file in every job language, with its fidelity report, is as it was when it was blessed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_files import GOLDEN, compare

from headnode.core.formats.dialects import DIALECTS, ReadOptions, convert
from headnode.core.formats.fidelity import FidelityReport, describe
from headnode.core.model.errors import BadRequest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "samples"
FOLDERS = ("condor", "grid", "job_xml", "native_form", "sss")


def samples() -> Iterator[tuple[str, Path]]:
    """Yield the project's own job files, with a name for each."""
    for folder in FOLDERS:
        yield from ((f"{folder}-{path.name}", path) for path in sorted((GOLDEN / folder).iterdir()))
    for path in sorted((ROOT / "tests" / "samples").rglob("*.*")):
        yield f"samples-{path.parent.name}-{path.name}", path
    examples = ROOT / "examples"
    for path in sorted(examples.rglob("*")):
        if path.suffix in (".xml", ".json") or (path.suffix == ".toml" and path.name != "pyproject.toml"):
            yield "-".join(("examples", *path.relative_to(examples).parts)), path


def in_every_language(path: Path) -> str:
    """Return one file in all languages, each with its report."""
    return "\n".join(f"==== {name}\n{_converted(path, name)}" for name in DIALECTS)


def _converted(path: Path, to: str) -> str:
    try:
        dialect, read, (data, written) = convert(path.read_bytes(), ReadOptions(), to)
    except BadRequest as refusal:
        return f"refused [{refusal.code}]: {refusal}\n"
    text = data.decode() if isinstance(data, bytes) else data
    return f"{text}---- read as {dialect}\n{_listed(read)}---- written\n{_listed(written)}"


def _listed(report: FidelityReport) -> str:
    return "".join(f"{item.kind} {item.line}:{item.column} {describe(item)}\n" for item in report)


def test_every_sample_in_every_language_is_the_one_that_was_blessed() -> None:
    compare("converted", {f"{name}.txt": in_every_language(path) for name, path in samples()})


@pytest.mark.skipif(not SHARED.is_dir(), reason="the samples of others are not beside this folder")
def test_samples_of_others_are_converted_as_when_they_were_blessed() -> None:
    """Their text is not ours to keep: a digest is."""
    files = sorted(path for path in SHARED.rglob("*") if path.is_file() and path.suffix != ".md")
    lines = [f"{_digest(path)}  {path.relative_to(SHARED)}\n" for path in files]
    compare("converted-elsewhere", {"digests.txt": "".join(lines)})


def _digest(path: Path) -> str:
    return hashlib.sha256(in_every_language(path).encode()).hexdigest()[:16]
