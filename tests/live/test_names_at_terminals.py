"""Names that users choose do not steer the terminals of those who list jobs with other programs than `hn`."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from batch_programs import Programs, programs_fixture

from heads import shared_head_fixture

head = shared_head_fixture(processors=2)
programs = programs_fixture()

STEERS = "\x1b]0;mine\x07"
FORGES = "\n99 root\r98 root"
LISTS = [
    *("squeue -o '%j %a'", "sacct", "sshare", "sacctmgr show assoc", "scontrol show job"),
    *("qstat -x", "qstat -fx", "bjobs -w -a", "bhist -l -a", "bacct -l"),
    *("condor_q -af JobBatchName", "condor_q -long", "condor_history -af JobBatchName"),
]


def seen_at_terminal(programs: Programs, command: str, where: Path) -> str:
    """Return what a command line writes to a terminal."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            ["/bin/bash", "-c", f"{command}; echo END"],
            cwd=where,
            env=programs.environment(where),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            check=True,
        )
        seen = b""
        while b"END" not in seen:
            seen += os.read(ours, 1 << 16)
    finally:
        os.close(ours)
        os.close(theirs)
    return seen.decode()


@pytest.fixture(scope="module", autouse=True)
def jobs(programs: Programs) -> None:
    """Make a job that has ended and one that runs, with such names."""
    terms = {"jobname": f"n{STEERS}{FORGES}", "projectname": f"p{STEERS}{FORGES}"}
    for command in ("true", "sleep 600"):
        job = programs.head.ask("submit_job", tasks=[{"command": command}], terms=terms)["job"]
        state = "Finished" if command == "true" else "Running"
        programs.head.until(
            lambda job=job, state=state: programs.head.ask("job", job=job)["job"]["state"] == state
        )


@pytest.mark.parametrize("command", LISTS)
def test_a_name_is_spelt_out_at_a_terminal(programs: Programs, tmp_path: Path, command: str) -> None:
    seen = seen_at_terminal(programs, command, tmp_path)
    assert "\x1b" not in seen
    assert "\x07" not in seen
    assert "\\x1b" in seen


@pytest.mark.parametrize("command", LISTS)
def test_a_name_is_no_row_of_a_list(programs: Programs, tmp_path: Path, command: str) -> None:
    output = programs.run(command, tmp_path).stdout
    assert "\x1b]0;" in output  # a name is there, perhaps cut
    assert not [line for line in re.split("[\n\r]", output) if re.match(r"\s*9[89]\b", line)]


def test_programs_that_read_a_list_get_names_as_they_are(programs: Programs, tmp_path: Path) -> None:
    assert f"n{STEERS}" in programs.output("squeue -h -o %j", tmp_path)
    assert "\x1f" in programs.output("sacct -n -P --delimiter=$'\\x1f'", tmp_path)
