"""Commands of other schedulers: what they inherit, what they may say, and whose directories are believed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from headnode.adapters.batch import commands
from headnode.adapters.batch.attempt_files import (
    bytes_read,
    files_found,
    look_words,
    not_written,
    read_words,
    submission_answers,
    submit_input,
    submit_words,
)
from headnode.adapters.batch.commands import CommandUser, account_of, own_account, run_command
from headnode.core.batch import HAND_OFF
from headnode.core.batch.dialect import CommandResult
from headnode.core.batch.gridengine import GridEngine
from headnode.core.batch.pbs import Pbs
from headnode.core.batch.slurm import Slurm
from headnode.core.batch.tracked import Files
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem
from testbed.other_users import open_to_all

PLAIN = BatchResource(name="x", system=ResourceSystem.SLURM, mark="0a1b2c3d")
TIMEOUT = 20.0  # seconds
TOKEN = "0123456789abcdef"
NOBODY = CommandUser("nobody", 65534, 65534, "/")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be others")


def run(
    *words: str, user: CommandUser | None = None, resource: BatchResource = PLAIN, **more: object
) -> CommandResult:
    fields = {"seconds": TIMEOUT, **more}
    return run_command(resource, "SLURM_CONF", user or own_account(), words, **fields)


def shell(text: str, **more: object) -> CommandResult:
    return run("sh", "-c", text, **more)


def is_running(process: int) -> bool:
    """Whether a process is there and runs: one that nobody has reaped does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_command_inherits_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECRET", "x")
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        result = shell("env | cut -d= -f1 | sort | tr '\\n' ' '; ls /proc/self/fd | wc -l; pwd; umask")
    names, *rest = result.out.splitlines()
    assert set(names.split()[:-1]) <= {
        HAND_OFF,
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "PWD",
        "SHLVL",
        "USER",
        "_",
    }
    assert names.split()[-1] == "4"  # three streams, and the directory that ls reads
    assert rest == ["/", "0022"]


def test_a_command_of_a_resource_finds_its_settings_and_programs(tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\necho here $SLURM_CONF\n")
    (tmp_path / "squeue").chmod(0o755)
    resource = BatchResource(
        name="x",
        system=ResourceSystem.SLURM,
        mark="0a1b2c3d",
        programs=str(tmp_path),
        settings="/etc/of/site",
    )
    assert run("squeue", resource=resource).out == "here /etc/of/site\n"


@pytest.mark.parametrize("program", ["sbatch", "squeue", "qsub"])
def test_programs_of_headnode_itself_hand_nothing_over(tmp_path: Path, program: str) -> None:
    (tmp_path / program).symlink_to(Path(sys.executable).with_name("hn"))
    resource = BatchResource(name="x", system=ResourceSystem.SLURM, mark="0a1b2c3d", programs=str(tmp_path))
    result = run(program, resource=resource)
    assert (result.status, result.out) == (1, "")
    assert "this is Headnode's own program" in result.err


def test_a_command_by_ssh_gets_its_words_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; echo $2; exec sh -c "$3"\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setattr(commands, "PATH", f"{tmp_path}:{commands.PATH}")
    resource = BatchResource(
        name="x", system=ResourceSystem.SLURM, mark="0a1b2c3d", host="ann@far", settings="/c"
    )
    nasty = "a 'b' $(touch stolen); *"
    result = run("printf", "%s %s", nasty, "$SLURM_CONF", resource=resource)
    assert result.out == f"ann@far\n{nasty} $SLURM_CONF"
    assert run("sh", "-c", "echo $SLURM_CONF; cat", resource=resource, stdin=b"in").out == "ann@far\n/c\nin"


def test_a_command_at_the_other_end_of_ssh_ends_in_time_though_the_connection_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = tmp_path / "far"
    (tmp_path / "ssh").write_text(
        f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; setsid sh -c "$3" > {far} & sleep 987\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setattr(commands, "PATH", f"{tmp_path}:{commands.PATH}")
    resource = replace(PLAIN, host="far")
    assert run("sh", "-c", "echo $$; exec sleep 986", resource=resource, seconds=1.0).status is None
    began = time.monotonic()
    while not far.read_text() or is_running(int(far.read_text())):
        assert time.monotonic() - began < TIMEOUT
        time.sleep(0.05)


def test_a_command_that_does_not_end_is_killed_with_all_it_started() -> None:
    began = time.monotonic()
    result = shell("sleep 987 & echo $!; wait", seconds=1.0)
    assert result.status is None
    assert time.monotonic() - began < TIMEOUT
    while is_running(int(result.out)):  # it takes a moment to die
        assert time.monotonic() - began < TIMEOUT


def test_what_a_command_says_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_OUTPUT", 100_000)
    began = time.monotonic()
    result = shell("yes")
    assert result.status is None
    assert len(result.out) < 300_000
    assert time.monotonic() - began < TIMEOUT


def test_a_command_that_is_not_there_or_is_killed_gives_no_answer() -> None:
    assert run("no-such-command").status in (None, 127)
    assert shell("kill -9 $$").status is None
    assert shell("exit 3").status == 3


def test_only_root_runs_commands_as_others() -> None:
    own = own_account()
    assert account_of(own.name, os.geteuid(), os.getegid()).uid is None
    with pytest.raises(LookupError):
        account_of(own.name, os.geteuid() + 1, 0)
    with pytest.raises(LookupError):
        account_of("nobody-of-this-name", 4711, 0)


@as_root
def test_a_command_runs_as_its_user_with_the_groups_of_that_user() -> None:
    assert shell("id -u; id -g; id -G", user=NOBODY).out.split() == ["65534"] * 3


def submit(base: str, command: str, **more: object) -> CommandResult:
    found = submit_all(base, {"m1": ("script\n", ["sh", "-c", command])}, **more)
    return submission_answers(found, TOKEN, ["m1"])["m1"]


def submit_all(base: str, wanted: dict[str, tuple[str, list[str]]], **more: object) -> CommandResult:
    return run(*submit_words(base, TOKEN, wanted), stdin=submit_input(wanted), **more)


def test_several_are_submitted_in_one_shell_and_each_has_its_own_answer(tmp_path: Path) -> None:
    base, markers = f"{tmp_path}/{own_account().name}/mark", [f"m{number}" for number in range(4)]
    commands = ["cat; exit 3", "head -c 1; echo wrong >&2", "true", "kill -9 $$"]
    scripts = ["one\n'$x`", "y" * 300_000, "", "four"]
    wanted = {m: (s, ["sh", "-c", c]) for m, s, c in zip(markers, scripts, commands, strict=True)}
    done = submit_all(base, wanted)
    answers = submission_answers(done, TOKEN, markers)
    assert [(each.status, each.out) for each in answers.values()] == [
        (3, "one\n'$x`"), (0, "ywrong\n"), (0, ""), (137, "Killed\n"),
    ]  # fmt: skip
    assert [(Path(base) / marker / "job").read_text() for marker in markers] == scripts
    cut = done.out[: done.out.index(f"{TOKEN} m2") + len(TOKEN) + 6]
    answers = submission_answers(CommandResult(None, cut, ""), TOKEN, markers)
    assert [each.status for each in answers.values()] == [3, 0, None, None]


@pytest.mark.parametrize("reads", ["cat job", "cat <&3"])
def test_a_command_whose_go_between_is_killed_reads_the_whole_script_later(
    tmp_path: Path, reads: str
) -> None:
    reader = f"(read _ < go; {reads} > late.new; mv late.new late) > log 2>&1"
    late = f"exec 3<&0; mkfifo go; {reader} & kill -9 $$"
    base = f"{tmp_path}/{own_account().name}/mark"
    place = Path(base) / "m1"
    assert submit(base, late).status == 137
    if reads == "cat <&3":
        assert submit(base, "true").status == 0  # the attempt is submitted once more
    (place / "go").write_text("\n")
    until = time.monotonic() + TIMEOUT
    while not (place / "late").exists():
        assert time.monotonic() < until, (place / "log").read_text()
    assert (place / "late").read_text() == "script\n"


@pytest.mark.parametrize("left", [1, 20, 60, 100])
def test_what_was_cut_on_its_way_is_not_submitted(tmp_path: Path, left: int) -> None:
    base, wanted = f"{tmp_path}/{own_account().name}/mark", {"m1": ("x" * 50, ["wc", "-c"])}
    result = run(*submit_words(base, TOKEN, wanted), stdin=submit_input(wanted)[:-left])
    answer = submission_answers(result, TOKEN, wanted)["m1"]
    assert (answer.status, answer.out.strip()) in ((None, ""), (0, "50"))


def test_a_script_is_written_before_it_is_submitted_and_its_files_are_read(tmp_path: Path) -> None:
    base = f"{tmp_path}/{own_account().name}/mark"
    assert submit(base, "echo 7; pwd; umask; cat").out == f"7\n{base}/m1\n0022\nscript\n"
    place = Path(base) / "m1"
    assert place.stat().st_mode & 0o777 == 0o700
    (place / "started").touch()
    (place / "exit").write_text("code=0\nm2 S forged\n")
    found = files_found(run(*look_words(base, ["m1", "m2"])), ["m1", "m2"])
    assert found == {"m1": Files(True, "code=0"), "m2": Files(False, "")}
    (place / "output").write_bytes(bytes(range(256)))
    assert bytes_read(run(*read_words(f"{place}/output", 10, 5))) == (bytes(range(10, 15)), 256)
    assert bytes_read(run(*read_words(f"{place}/output", -3, 9))) == (bytes(range(253, 256)), 256)
    with pytest.raises(ValueError, match="stat"):
        bytes_read(run(*read_words(f"{place}/nothing", 0, 5)))


def test_an_exit_file_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    place = tmp_path / "mark" / "m1"
    place.mkdir(parents=True)
    (place / "exit").write_text("code=0")
    (tmp_path / "dd").write_text("#!/bin/sh\necho code=1\nexit 1\n")
    (tmp_path / "dd").chmod(0o755)
    asked = look_words(f"{tmp_path}/mark", ["m1", "m2"])
    found = files_found(run(*asked, resource=replace(PLAIN, programs=str(tmp_path))), ["m1", "m2"])
    assert found == {"m1": None, "m2": Files(False, "")}


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """A user may exchange a file between a look at it and its reading: the reader does so here."""
    place = tmp_path / "mark" / "m1"
    place.mkdir(parents=True)
    for name in ("output", "exit"):
        (place / name).write_text("words")
    for reader in ("dd", "head", "tail"):
        swap = f"#!/bin/sh\ncd {place} && rm -f output exit && mkfifo output exit\n"
        (tmp_path / reader).write_text(f'{swap}exec /usr/bin/{reader} "$@"\n')
        (tmp_path / reader).chmod(0o755)
    rude = replace(PLAIN, programs=str(tmp_path))
    began = time.monotonic()
    assert bytes_read(run(*read_words(f"{place}/output", 0, 5), resource=rude)) == (b"", 5)
    (place / "exit").unlink()
    (place / "exit").write_text("words")
    found = files_found(run(*look_words(f"{tmp_path}/mark", ["m1"]), resource=rude), ["m1"])
    assert found == {"m1": Files(False, "")}
    assert time.monotonic() - began < TIMEOUT / 2


@as_root
def test_a_directory_that_somebody_else_has_made_is_refused(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    shared = tmp_path / "shared"
    (shared / "nobody" / "mark").mkdir(parents=True)  # root stands for another user
    for made in (shared, shared / "nobody", shared / "nobody" / "mark"):
        made.chmod(0o777)
    base = f"{shared}/nobody/mark"
    result = submit(base, "echo 7", user=NOBODY)
    assert "7" not in result.out
    refused = not_written(result)
    assert refused is not None
    assert refused.kind == "refused"
    assert files_found(run(*look_words(base, ["m1"]), user=NOBODY), ["m1"]) == {"m1": None}


def test_a_directory_that_cannot_be_made_is_a_refusal() -> None:
    assert not_written(submit("/proc/nothing/x", "echo 7")) is not None
    assert files_found(run(*look_words("/proc/nothing/x", ["m"])), ["m"]) == {"m": None}


def test_nothing_is_learnt_or_submitted_where_the_directory_of_all_attempts_is_gone(tmp_path: Path) -> None:
    base = str(tmp_path / "shared" / "ada" / "0a1b2c3d")
    assert files_found(run(*look_words(base, ["m"])), ["m"]) == {"m": None}
    result = run(*submit_words(base, TOKEN, ["m"]), stdin=submit_input({"m": ("script", ["true"])}))
    (answer,) = submission_answers(result, TOKEN, ["m"]).values()
    assert not_written(answer) is None
    assert answer == CommandResult(None, "", f"there is no directory {tmp_path}/shared now\n")
    assert not (tmp_path / "shared").exists()


@as_root
def test_what_a_full_disk_does_not_take_is_not_submitted_and_not_refused(tmp_path: Path) -> None:
    disk, asked = tmp_path / "disk", tmp_path / "asked"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(disk)]).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        base = str(disk / "root" / "0a1b2c3d")
        wanted = {name: ("x" * 100_000, ["sh", "-c", f"echo {name} >> {asked}; echo 7"]) for name in "ab"}
        result = run(*submit_words(base, TOKEN, wanted), stdin=submit_input(wanted))
        answers = submission_answers(result, TOKEN, wanted)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    assert not asked.exists()
    for answer in answers.values():
        assert not_written(answer) is None
        for dialect in (Slurm(), GridEngine(), Pbs()):
            assert dialect.submitted(answer).kind == "doubtful"
