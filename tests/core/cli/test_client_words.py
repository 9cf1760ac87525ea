"""JSON without the json package, and the choice of the head to talk to."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.apps.cli.job_files import read_job_file
from headnode.apps.cli.shell import recall, remember
from headnode.apps.client.connection import read_json, write_json
from headnode.apps.client.head_location import head_to_ask
from headnode.apps.client.local_addresses import SYSTEM_STATE
from headnode.core.model.errors import BadRequest, NotFound

FROM_SHELLS = ("CCP_PREVIOUS_JOB_ID", "CCP_NO_JOB_ID")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_reads_back_here_and_with_the_json_package(value: object) -> None:
    text = write_json(value)
    assert read_json(text) == value
    assert json.loads(text) == value
    assert read_json(json.dumps(value, indent=1)) == value


@pytest.mark.parametrize("wrong", ["", "{", "nul", "NaN", '{"a":1} x', "[1,]", "'a'", '"\n"'])
def test_what_is_no_json_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        read_json(wrong)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_no_infinite_number_leaves_us(wrong: float) -> None:
    with pytest.raises(ValueError):
        write_json([wrong])


@pytest.mark.parametrize("wrong", [object(), {1: 2}, b"x", {"a": {1}}])
def test_what_json_has_no_word_for_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        write_json(wrong)


def test_the_first_that_names_a_head_counts(tmp_path: Path) -> None:
    environ = {"HEADNODE_STATE": "/a", "CCP_SCHEDULER": "/b", "XDG_STATE_HOME": str(tmp_path)}
    assert head_to_ask(environ, 1000, state="/c", scheduler="/d") == "/c"
    assert head_to_ask(environ, 1000, scheduler="/d") == "/d"
    assert head_to_ask(environ, 1000) == "/a"
    del environ["HEADNODE_STATE"]
    assert head_to_ask(environ, 1000) == "/b"
    (tmp_path / "headnode").mkdir()
    (tmp_path / "headnode" / "head.sock").touch()
    for here in ("localhost", "LocalHost", os.uname().nodename, ""):
        environ["CCP_SCHEDULER"] = here
        assert head_to_ask(environ, 1000) == f"{tmp_path}/headnode"


def test_root_keeps_state_where_the_whole_machine_finds_it() -> None:
    assert head_to_ask({"XDG_STATE_HOME": "/elsewhere"}, 0) == SYSTEM_STATE


def test_a_relative_state_home_is_ignored(tmp_path: Path) -> None:
    own = tmp_path / ".local" / "state" / "headnode"
    own.mkdir(parents=True)
    (own / "head.sock").touch()
    assert head_to_ask({"XDG_STATE_HOME": "relative", "HOME": str(tmp_path)}, 1000) == str(own)


def test_the_head_of_the_whole_machine_is_asked_when_there_is_no_own_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, common = tmp_path / "headnode", tmp_path / "common"
    for folder in (own, common):
        folder.mkdir()
    monkeypatch.setattr("headnode.apps.client.local_addresses.SYSTEM_STATE", str(common))
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    assert head_to_ask(environ, 1000) == str(own)
    (common / "head.sock").touch()
    assert head_to_ask(environ, 1000) == str(common)
    (own / "head.sock").touch()
    assert head_to_ask(environ, 1000) == str(own)


def test_a_head_on_another_machine_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="you have not logged in to the head 'CLUSTER1'") as refused:
        head_to_ask({"CCP_SCHEDULER": "CLUSTER1", "XDG_CONFIG_HOME": str(tmp_path)}, 0)
    assert "hn token new" in refused.value.fix


def test_the_last_job_of_a_shell_is_remembered_for_that_shell_only(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    remember(41, environ, shell=os.getpid())
    remember(42, environ, shell=os.getpid())
    remember(7, environ, shell=1)
    assert recall(environ, shell=os.getpid()) == 42
    assert recall(environ, shell=1) == 7


@pytest.mark.parametrize("between", ["", "timeout 60", "setsid --wait", "timeout 60 timeout 60"])
def test_a_program_that_a_shell_puts_before_hn_is_not_taken_for_the_shell(
    tmp_path: Path, between: str
) -> None:
    keep = "from headnode.apps.cli.shell import *; remember(5)"
    send = "from headnode.apps.cli.shell import *; print(recall())"
    python = shlex.quote(sys.executable)
    script = f'{between} {python} -c "{keep}"; {python} -c "{send}"; {between} {python} -c "{send}"; true'
    environ = {name: value for name, value in os.environ.items() if name not in FROM_SHELLS}
    result = subprocess.run(
        ["sh", "-c", script],
        env=environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "5\n5\n", result.stderr


def test_shells_that_have_ended_are_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "headnode" / "last-job"
    folder.mkdir(parents=True)
    (folder / "999999999-1").write_text("5")
    remember(41, {"XDG_RUNTIME_DIR": str(tmp_path)}, shell=os.getpid())
    assert [file.name.partition("-")[0] for file in folder.iterdir()] == [str(os.getpid())]


def test_the_environment_stands_in_and_can_switch_it_off(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), "CCP_PREVIOUS_JOB_ID": "9"}
    assert recall(environ) == 9
    for without in ({**environ, "CCP_NO_JOB_ID": "1"}, {**environ, "CCP_PREVIOUS_JOB_ID": "x"}):
        remember(3, {**without, "CCP_NO_JOB_ID": "1"})
        with pytest.raises(BadRequest, match="has made none"):
            recall(without)


def test_a_place_that_cannot_be_written_does_not_undo_a_submission(tmp_path: Path) -> None:
    (tmp_path / "headnode").write_text("in the way")
    remember(3, {"XDG_RUNTIME_DIR": str(tmp_path)})
    with pytest.raises(BadRequest):
        recall({"XDG_RUNTIME_DIR": str(tmp_path)})


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", ""),
        ("utf-8", ' encoding="utf-8"'),
        ("utf-8-sig", ' encoding="utf-8"'),
        ("utf-16", " encoding='utf-16'"),
        ("iso-8859-1", ' encoding="ISO-8859-1"'),
    ],
)
def test_a_job_file_is_read_in_its_encoding_and_sent_as_utf8(
    tmp_path: Path, encoding: str, declared: str
) -> None:
    file = tmp_path / "job.xml"
    file.write_bytes(f'<?xml version="1.0"{declared}?>\r\n<Job Name="Jörg"/>'.encode(encoding))
    text = read_job_file(str(file))
    wanted = declared.partition("=")[0] + "=" + declared.partition("=")[2][:1] + "UTF-8" if declared else ""
    assert text == f'<?xml version="1.0"{wanted}{declared[-1:]}?>\r\n<Job Name="Jörg"/>'


def test_a_job_file_that_cannot_be_read_is_bad_input(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.xml"
    wrong.write_bytes(b"<Job Name='\xff'/>")
    for path, word in ((tmp_path, "directory"), (tmp_path / "none", "No such file"), (wrong, "not utf-8")):
        with pytest.raises(BadRequest, match=word):
            read_job_file(str(path))
    wrong.write_bytes(b'<?xml version="1.0" encoding="klingon"?><Job/>')
    with pytest.raises(BadRequest, match="klingon"):
        read_job_file(str(wrong))
