"""The example in each language runs on a cluster of one node and prints what the others print."""

from pathlib import Path

import pytest
from cli_scripted_head import hn

from headnode.core.formats.batch import BatchSystem
from headnode.core.formats.dialects import DIALECTS, ReadOptions, read
from headnode.core.formats.fidelity import Awareness, lossy_items

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "languages"
FILES = sorted(path for path in EXAMPLES.iterdir() if path.suffix != ".md")
COUNT, PARTS = ["1", "2", "3", "4"], ["part 1", "part 2"]
PRINTED = {
    **{"sss": [*COUNT, "part", "part"], "sss-3.0": COUNT, "grid-task": COUNT},
    **dict.fromkeys([*BatchSystem, "htcondor"], PARTS),  # one program
}


def test_there_is_an_example_in_every_language_and_nothing_of_it_is_lost() -> None:
    readings = [read(path.read_bytes(), ReadOptions(awareness=Awareness.REJECT)) for path in FILES]
    differ = {reading.dialect for reading in readings} ^ {*DIALECTS}
    assert not differ, f"examples/languages needs one file of each job language; these differ: {differ}"
    assert [lossy_items(reading.report) for reading in readings] == [()] * len(FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_example_runs_and_prints_what_the_others_do(state: Path, tmp_path: Path, path: Path) -> None:
    reading = read(path.read_bytes())
    result = hn("job", "submit", "--quiet", str(path), state=state, cwd=tmp_path)
    ids = result.stdout.split()
    assert len(ids) == len(reading.jobs), result.stderr
    printed = []
    for number, spec in zip(ids, reading.jobs, strict=True):
        assert hn("job", "wait", number, state=state).returncode == 0
        for task, one in enumerate(spec.tasks, 1):
            for instance in range(1, one.instances + 1):
                output = hn("task", "output", f"{number}.{task}.{instance}", state=state)
                printed += output.stdout.splitlines()
    assert printed == PRINTED.get(reading.dialect, [*COUNT, *PARTS])


@pytest.mark.parametrize("page", ["examples/languages/README.md", "docs/job-languages.md"])
def test_every_example_is_listed(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [path.name for path in FILES if f"{path.name})" not in text] == []
