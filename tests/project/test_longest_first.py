"""Files of tests that took longest begin first."""

import json
import subprocess
import sys
from pathlib import Path

SECONDS = Path(".pytest_cache", "v", "headnode", "seconds-of-files")


def test_files_that_took_longest_begin_first_and_new_ones_before_them(tmp_path: Path) -> None:
    for name in "abcd":
        test = f"def test_{name}(): open('order', 'a').write('{name}')\n"
        (tmp_path / f"test_{name}.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / SECONDS).parent.mkdir(parents=True)
    (tmp_path / SECONDS).write_text(
        json.dumps({"test_a.py": 1.0, "test_b.py": 9.0, "test_c.py": 5.0, "gone.py": 7.0})
    )
    words = "-q -p longest_first -n 1 --dist loadfile --no-loadscope-reorder"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "pytest", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "order").read_text() == "dbca"
    kept = json.loads((tmp_path / SECONDS).read_text())
    assert (kept["gone.py"], all(kept[f"test_{name}.py"] < 1 for name in "abcd")) == (7.0, True)
