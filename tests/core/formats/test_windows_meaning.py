r"""What a job means on Windows and not here is reported: no file of the name ``\\srv\x`` appears silently."""

import pytest

from headnode.apps.server.api.job_submission import unsupported_features
from headnode.apps.server.server_context import SiteFeatures
from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.formats.hpc_xml import CCS, HPC, HPC_2008, read_job, write_job
from headnode.core.formats.slash_terms import read_terms
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

SPACE = 'xmlns="http://schemas.microsoft.com/HPCS2008R2/scheduler/"'


def reported(task: str, inside: str = "") -> list[tuple[Fidelity, str]]:
    """Return what is reported of a task with these attributes; each finding at its line."""
    text = f"<Job {SPACE}>{inside}<Tasks>\n<Task {task}/></Tasks></Job>"
    report = read_job(text)[1]
    found = [item for item in report if item.kind in (Fidelity.NOT_SUPPORTED, Fidelity.APPROXIMATED)]
    assert all(item.line == 2 for item in found)
    return [(item.kind, item.what) for item in found]


@pytest.mark.parametrize(
    ("task", "word"),
    [
        ('CommandLine="x" StdOutFilePath="\\\\srv\\out\\x.txt"', "standard output '\\\\srv"),
        ('CommandLine="x" StdErrFilePath="C:\\err.txt"', "standard error 'C:"),
        ('CommandLine="x" StdInFilePath="d:/in.txt"', "standard input 'd:/in.txt'"),
        ('CommandLine="x" WorkDirectory="data\\run1"', "work directory 'data"),
        ('CommandLine="\\\\srv\\tools\\a.exe 30"', "command line '\\\\srv\\tools\\a.exe'"),
        ('CommandLine="copy C:\\in.txt out.txt"', "command line 'C:\\in.txt'"),
        ('CommandLine="bin\\prog.exe /q"', "command line 'bin\\prog.exe'"),
        ('CommandLine="cmd /c dir"', "shell of Windows"),
        ('CommandLine="PowerShell.exe -File x.ps1"', "shell of Windows"),
        ('CommandLine="%ProgramFiles%/app/run"', "%ProgramFiles% in the command line"),
        ('CommandLine="x" WorkDirectory="%TEMP%/run"', "%TEMP% in the work directory"),
    ],
)
def test_paths_shells_and_variables_of_windows_are_not_supported_and_reported_where_they_stand(
    task: str, word: str
) -> None:
    found = reported(task)
    assert [kind for kind, _ in found] == [Fidelity.NOT_SUPPORTED]
    assert word in found[0][1]


def test_commands_that_cmd_runs_one_after_the_other_are_reported() -> None:
    found = reported('CommandLine="a &amp; b"')
    assert [kind for kind, _ in found] == [Fidelity.APPROXIMATED]
    assert "write ';'" in found[0][1]


@pytest.mark.parametrize(
    "task",
    [
        'CommandLine="a &amp;&amp; b"',
        'CommandLine="a > out.txt 2>&amp;1"',
        "CommandLine=\"grep 'a &amp; b' in.txt\"",
        'CommandLine="%USERPROFILE%/run %CCP_JOBID% %MY_OWN%"',
        'CommandLine="x" StdOutFilePath="out.%CCP_JOBID%.txt" WorkDirectory="/data/run"',
        'CommandLine="date +%H:%M:%S"',
        'CommandLine="scp file host:/data"',
        "CommandLine=\"printf '%d\\n' 1 > x.txt\"",
    ],
)
def test_what_means_the_same_here_is_not_reported(task: str) -> None:
    assert reported(task) == []


def test_a_variable_of_windows_that_the_job_sets_is_its_own() -> None:
    inside = (
        "<EnvironmentVariables><Variable><Name>Temp</Name><Value>/t</Value></Variable></EnvironmentVariables>"
    )
    assert reported('CommandLine="%TEMP%/run"', inside) == []


def test_who_wants_no_difference_is_refused_such_a_path() -> None:
    text = f'<Job {SPACE}><Tasks><Task CommandLine="x" StdOutFilePath="\\\\srv\\x"/></Tasks></Job>'
    with pytest.raises(BadRequest, match="not-understood"):
        read_job(text, awareness=Awareness.REJECT)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"command": "x", "stdout": r"\\srv\out\x.txt"}, ["standard output"]),
        ({"command": "x", "workdir": r"/home/ann/C:\data"}, ["work directory"]),
        ({"command": r"\\srv\tools\a.exe 30"}, ["command line"]),
        ({"command": r"printf 'a\nb' & wait"}, []),
        ({"command": r"grep '\\d\x' in", "stdout": "out.txt"}, []),
    ],
)
def test_a_command_line_with_paths_of_windows_is_reported_at_submission(
    task: dict[str, str], words: list[str]
) -> None:
    found = unsupported_features(read_terms({}, [task]), SiteFeatures())
    assert [item.what.partition(" '")[0] for item in found] == words


@pytest.mark.parametrize("dialect", [CCS, HPC_2008, HPC])
@pytest.mark.parametrize(
    ("command", "told_of"),
    [
        ("grep 'a b' in", True),
        ("echo $HOME", True),
        ("echo `date`", True),
        (r"echo a\ b", True),
        ('echo "a b" > out', False),
        ("bin/run 5", False),
    ],
)
def test_quoting_for_the_shell_is_told_when_a_file_for_windows_is_written(
    dialect: str, command: str, told_of: bool
) -> None:
    spec = JobSpec(minimum=1, maximum=1, tasks=(TaskSpec(command=command),))
    report = write_job(spec, dialect)[1]
    assert ["cmd.exe" in item.what for item in report] == [True] * told_of
