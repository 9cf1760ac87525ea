"""Job templates on the command line: made from files, shown, exported, kept to, and taken away."""

import json
from pathlib import Path

from cli_scripted_head import hn

SOLVER = """name = "Solver"
description = "runs of the solver"

[run_time]
default = "1h"
most = "2h"
"""


def test_a_template_is_imported_shown_used_exported_and_removed(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "solver.toml"
    file.write_text(SOLVER)
    assert [one["name"] for one in json.loads(hn("template", "list", "--json", state=state).stdout)] == [
        "Default"
    ]
    assert "Template Solver has been set." in hn("template", "import", str(file), state=state).stdout
    assert "Solver" in hn("template", "list", state=state).stdout
    (run_time,) = (
        line
        for line in hn("template", "view", "solver", state=state).stdout.splitlines()
        if "run_time" in line
    )
    assert run_time.split() == ["run_time", "1h", "2h"]
    assert hn("template", "export", "solver", state=state).stdout == SOLVER
    made = hn("job", "new", "/jobtemplate:Solver", "/runtime:3d", state=state)
    job = made.stdout.split()[-1].strip(".")
    result = hn("job", "submit", "--jobtemplate", "Solver", "--quiet", "/bin/true", state=state)
    assert result.returncode == 0, result.stderr
    view = json.loads(hn("job", "view", result.stdout.strip(), "--json", state=state).stdout)
    assert view["run_time"] == 3600
    refused = hn("job", "submit", "/jobtemplate:Solver", "/runtime:3h", "/bin/true", state=state)
    assert refused.returncode != 0
    assert "run time is 3h, at most 2h is allowed" in refused.stderr
    assert "hn template view Solver" in refused.stderr
    unknown = hn("job", "submit", "/jobtemplate:Other", "/bin/true", state=state)
    assert "there is no job template 'Other'" in unknown.stderr
    xml = tmp_path / "solver.xml"
    xml.write_text(hn("template", "export", "Solver", "--to", "hpcpack", state=state).stdout)
    assert hn("template", "remove", "Solver", state=state).returncode == 0
    assert "Template Solver has been set." in hn("template", "import", str(xml), state=state).stdout
    assert hn("template", "remove", "Solver", state=state).returncode == 0
    assert hn("template", "remove", "Solver", state=state).returncode == 1
    assert hn("job", "cancel", job, state=state).returncode == 0


def test_a_file_that_is_no_template_is_refused_with_its_place(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('name = "x"\n[runtime]\nmost = "1h"\n')
    result = hn("template", "import", str(file), state=state)
    assert result.returncode == 2
    assert "line 2" in result.stderr
    assert "did you mean 'run_time'?" in result.stderr
    missing = hn("template", "import", str(tmp_path / "none"), state=state)
    assert f"template file '{tmp_path}/none' cannot be read: No such file or directory; " in missing.stderr
