"""The examples compute what their README says."""

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.hpc_xml.reading import read_job

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB_FILES = sorted(path for path in EXAMPLES.glob("*/*.xml") if path.parent.name != "languages")
HOME = "%USERPROFILE%/headnode-examples"


def expected(folder: Path) -> str:
    """Return the result that the README promises: its last indented line."""
    return re.findall(r"^ {4}(\S.*)$", (folder / "README.md").read_text(), re.MULTILINE)[-1]


def instances(task: ElementTree.Element) -> list[tuple[str, str]]:
    """Return the command line and the output file of each instance."""
    command, output = task.attrib["CommandLine"], task.get("StdOutFilePath") or task.get("Stdout") or ""
    if task.get("Type") != "ParametricSweep":
        return [(command, output)]
    values = range(int(task.attrib["StartValue"]), int(task.attrib["EndValue"]) + 1)
    return [(swept(command, value), swept(output, value)) for value in values]


def swept(text: str, value: int) -> str:
    return re.sub(r"\*+", lambda stars: str(value).zfill(len(stars[0])), text)


def run(task: ElementTree.Element, folder: Path) -> None:
    """Run every instance of a task as a cluster would, one after the other."""
    where = folder / task.attrib["WorkDirectory"].removeprefix(f"{HOME}/")
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "CCP_NUMCPUS": task.get("MinCores", "1")}
    for command, output in instances(task):
        done = subprocess.run(
            ["sh", "-c", command], cwd=where, env=environment, capture_output=True, check=True
        )
        if output:
            (where / output).write_bytes(done.stdout)


@pytest.mark.parametrize("file", JOB_FILES, ids=lambda file: file.stem)
def test_the_result_is_the_one_the_readme_promises(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    for task in ElementTree.parse(file).getroot().findall("{*}Tasks/{*}Task"):
        run(task, folder)
    assert (folder / file.parent.name / "result.txt").read_text().strip() == expected(file.parent)


@pytest.mark.parametrize("file", JOB_FILES, ids=lambda file: file.stem)
def test_headnode_understands_every_word_of_it(file: Path) -> None:
    spec, _ = read_job(file.read_bytes(), awareness=Awareness.REJECT, strict=True)
    assert {task.work_directory for task in spec.tasks} == {f"{HOME}/{file.parent.name}"}


def test_there_is_one_of_each_kind_and_of_both_languages() -> None:
    roots = [ElementTree.parse(file).getroot() for file in JOB_FILES]
    assert {file.parent.name for file in JOB_FILES} == {"flow", "parallel", "sweep"}
    namespaces = {root.tag.partition("}")[0] for root in roots}
    assert namespaces == {
        "{http://schemas.microsoft.com/HPCS2008R2/scheduler/",
        "{http://www.microsoft.com/ComputeCluster/",
    }
