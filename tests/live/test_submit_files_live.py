"""Submit files of HTCondor run on a real head: their processes have their files, arguments and variables."""

import os
import subprocess
import sys
from pathlib import Path

from heads import RealHead, shared_head_fixture

HN = str(Path(sys.executable).with_name("hn"))

head = shared_head_fixture(processors=4)


def hn(head: RealHead, where: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [HN, "--state", str(head.state), *words],
        cwd=where,
        env={**os.environ, "SHELL_SAYS": "hello", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def program(where: Path, text: str, name: str = "run.sh") -> None:
    (where / name).write_text(f"#!/bin/sh\n{text}\n")
    (where / name).chmod(0o755)


def submit(head: RealHead, where: Path, text: str, *, status: int = 0) -> str:
    (where / "job.sub").write_text(text)
    return hn(head, where, "job", "submit", "--wait", "job.sub", status=status)


def test_each_process_has_its_arguments_files_and_environment(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, 'echo "$1|$2|$SHELL_SAYS|$WORD|$BATCH_SYSTEM|$PWD"; echo oops >&2; cat')
    (tmp_path / "in.0").write_text("first\n")
    (tmp_path / "in.1").write_text("second\n")
    submit(
        head,
        tmp_path,
        "executable = run.sh\narguments = \"$(Process) 'a * ''b'''\"\ngetenv = SHELL_*\n"
        "environment = \"WORD='two words'\"\ninput = in.$(Process)\n"
        "output = out.$(Cluster).$INT(Process,%03d)\nerror = err.$(ProcId)\nqueue 2\n",
    )
    for number, word in enumerate(("first", "second")):
        (found,) = tmp_path.glob(f"out.*.00{number}")
        shown = f"{number}|a * 'b'|hello|two words|HTCondor|{tmp_path}\n{word}\n"
        assert found.read_text() == shown
        assert (tmp_path / f"err.{number}").read_text() == "oops\n"


def test_queue_takes_its_items_from_a_file_a_list_and_names_of_files(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, 'echo "$@"')
    (tmp_path / "list.txt").write_text("# name, rest\nann, 1 2\nbob 3\n")
    (tmp_path / "data").mkdir()
    for name in ("x.dat", "y.dat", "z.txt"):
        (tmp_path / "data" / name).write_text("")
    submit(
        head,
        tmp_path,
        "executable = run.sh\narguments = $(who) $(rest)\noutput = $(Process).txt\n"
        "queue who,rest from list.txt\n"
        "arguments = $Fnx(file) $(Item:none) $(ItemIndex)\nqueue file matching files data/*.dat\n"
        "arguments = $(Step) $(word)\nqueue 2 word in (p, q)\n",
    )
    output = [(tmp_path / f"{number}.txt").read_text().strip() for number in range(8)]
    assert output == ["ann 1 2", "bob 3", "x.dat 0", "y.dat 1", "0 p", "1 p", "0 q", "1 q"]


def test_macros_take_variables_of_the_shell_also_home(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, 'echo "$@"')
    (tmp_path / "job.sub").write_text(
        "executable = run.sh\narguments = $ENV(HOME) $ENV(SHELL_SAYS)\noutput = out.$(Process)\nqueue\n"
    )
    (tmp_path / "flow.dag").write_text("JOB a job.sub\n")
    for words in (["job.sub", "job.sub"], ["flow.dag"]):
        hn(head, tmp_path, "check", *words)
        hn(head, tmp_path, "job", "submit", "--wait", *words)
        assert (tmp_path / "out.0").read_text() == f"{os.environ['HOME']} hello\n"
        (tmp_path / "out.0").unlink()


def test_a_file_outside_the_directory_is_not_read(head: RealHead, tmp_path: Path) -> None:
    outside, inside = tmp_path / "secret", tmp_path / "w"
    outside.write_text("word\n")
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    for source in ("../secret", str(outside), "link"):
        (inside / "job.sub").write_text(f"executable = /bin/echo\narguments = $(Item)\nqueue from {source}\n")
        assert "without .. and links" in hn(head, inside, "job", "submit", "job.sub", status=2)
    (inside / "job.sub").write_text("executable = /bin/echo\nqueue Item matching ../*\n")
    assert "is not below" in hn(head, inside, "job", "submit", "job.sub", status=2)


def test_listed_files_are_brought_and_taken_away(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, 'ls > names; tr a-z A-Z < word.$1 > result; pwd; test "$PWD" = "$_CONDOR_SCRATCH_DIR"')
    (tmp_path / "data").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "extra").write_text("")
    for number in (0, 1):
        (tmp_path / "data" / f"word.{number}").write_text(f"word {number}\n")
    submit(
        head,
        tmp_path,
        "executable = run.sh\narguments = $(Process)\nshould_transfer_files = YES\n"
        "transfer_input_files = data/word.$(Process), more/\noutput = where.$(Process)\n"
        "transfer_output_files = result, names\n"
        'transfer_output_remaps = "result = res.$(Process); names = names.$(Process)"\nqueue 2\n',
    )
    for number in (0, 1):
        assert (tmp_path / f"res.{number}").read_text() == f"WORD {number}\n"
        assert {"run.sh", "extra", f"word.{number}"} <= {*(tmp_path / f"names.{number}").read_text().split()}
        assert not Path((tmp_path / f"where.{number}").read_text().strip()).exists()


def test_new_and_changed_files_are_taken_away_where_none_are_named(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, "echo new > made.$1; echo more >> both.$1; mkdir d; echo no > d/inner; cat same.txt")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "both.0").write_text("one\n")
    (tmp_path / "run" / "both.1").write_text("two\n")
    (tmp_path / "run" / "same.txt").write_text("kept\n")
    before = (tmp_path / "run" / "same.txt").stat()
    submit(
        head,
        tmp_path,
        "executable = run.sh\narguments = $(Process)\nshould_transfer_files = YES\ninitialdir = run\n"
        "transfer_input_files = both.$(Process), same.txt\noutput = out.$(Process)\nqueue 2\n",
    )
    after = (tmp_path / "run" / "same.txt").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [(tmp_path / "run" / f"both.{number}").read_text() for number in (0, 1)] == [
        "one\nmore\n",
        "two\nmore\n",
    ]
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"both.0", "both.1", "same.txt", "made.0", "made.1", "out.0", "out.1"}
    submit(
        head,
        tmp_path,
        "executable = /bin/sh\ntransfer_executable = false\narguments = \"-c 'echo x > alone'\"\n"
        "should_transfer_files = YES\nqueue\n",
    )
    assert (tmp_path / "alone").read_text() == "x\n"


def test_the_directory_of_the_submission_is_brought_with_programs_that_stay_executable(
    head: RealHead, tmp_path: Path
) -> None:
    program(tmp_path, "./tool.sh $1 > result.$1; test ! -x data")
    program(tmp_path, "echo tool $1", "tool.sh")
    (tmp_path / "data").write_text("")
    for files in ("./", "tool.sh, ./data"):
        submit(
            head,
            tmp_path,
            "executable = run.sh\narguments = $(Process)\nshould_transfer_files = YES\n"
            f"transfer_input_files = {files}\ntransfer_output_files = result.$(Process)\nqueue 3\n",
        )
        for number in range(3):
            assert (tmp_path / f"result.{number}").read_text() == f"tool {number}\n"
            (tmp_path / f"result.{number}").unlink()


def test_nodes_are_chosen_by_the_words_of_htcondor_for_their_system(head: RealHead, tmp_path: Path) -> None:
    words = 'OpSys == "LINUX" && Arch == "X86_64"'
    submit(
        head,
        tmp_path,
        f"executable = /bin/true\ntransfer_executable = false\nrequirements = {words}\nqueue\n",
    )


def test_a_process_that_fails_is_tried_again_as_often_as_the_file_says(
    head: RealHead, tmp_path: Path
) -> None:
    program(tmp_path, "echo x >> tries; test $(wc -l < tries) -eq 3")
    submit(head, tmp_path, "executable = run.sh\nmax_retries = 4\nqueue\n")
    assert (tmp_path / "tries").read_text() == "x\n" * 3
    program(tmp_path, "exit 7")
    submit(head, tmp_path, "executable = run.sh\nsuccess_exit_code = 7\nqueue\n")


def test_a_program_is_ended_after_its_time(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, "echo begun; exec sleep 600")
    text = "executable = run.sh\noutput = out.$(Process)\nallowed_execute_duration = 1\n"
    for queue, files in (("queue", 1), ("queue 2", 2)):
        found = submit(head, tmp_path, f"{text}{queue}\n", status=1)
        assert "time limit" in found or "run time" in found
        assert [path.read_text() for path in sorted(tmp_path.glob("out.*"))] == ["begun\n"] * files


def test_memory_of_all_processes_is_reserved(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, "echo start >> log; sleep 0.4; echo end >> log")
    memory = int(hn(head, tmp_path, "node", "list", "--json").split('"memory":')[1].split(",")[0])
    size = memory * 2 // 3
    submit(head, tmp_path, f"executable = run.sh\nrequest_memory = {size}\nqueue 2\n")
    assert (tmp_path / "log").read_text().split() == ["start", "end"] * 2


def test_processes_of_the_parallel_universe_start_together(head: RealHead, tmp_path: Path) -> None:
    program(
        tmp_path,
        "echo $1 $_CONDOR_PROCNO $_CONDOR_NPROCS; touch at.$1; until [ -e at.0 ] && [ -e at.1 ]; do :; done",
    )
    submit(
        head,
        tmp_path,
        "universe = parallel\nmachine_count = 2\nexecutable = run.sh\narguments = $(Node)\n"
        "output = out.$(Node)\nqueue\n",
    )
    assert [(tmp_path / f"out.{node}").read_text() for node in (0, 1)] == ["0 0 2\n", "1 1 2\n"]


def test_a_flow_of_dagman_runs_in_its_order(head: RealHead, tmp_path: Path) -> None:
    program(tmp_path, 'echo "$@" >> order; test "$1" != fail')
    (tmp_path / "step.sub").write_text(
        "executable = run.sh\narguments = $(JOB) $(word:) $(Item)\nqueue Item from items\n"
    )
    (tmp_path / "items").write_text("1\n2\n")
    (tmp_path / "flow.dag").write_text(
        "JOB first step.sub\nJOB left step.sub\nJOB right step.sub\nJOB last step.sub\n"
        'PARENT first CHILD left right\nPARENT left right CHILD last\nVARS last word="w"\n'
    )
    hn(head, tmp_path, "check", "flow.dag")
    hn(head, tmp_path, "job", "submit", "--wait", "flow.dag")
    output = (tmp_path / "order").read_text().splitlines()
    assert sorted(output[:2]) == ["first 1", "first 2"]
    assert sorted(output[2:6]) == ["left 1", "left 2", "right 1", "right 2"]
    assert sorted(output[6:]) == ["last w 1", "last w 2"]
    (tmp_path / "flow.dag").write_text("JOB fail step.sub\nJOB next step.sub\nPARENT fail CHILD next\n")
    hn(head, tmp_path, "job", "submit", "--wait", "flow.dag", status=1)
    assert "next" not in (tmp_path / "order").read_text()


def test_a_file_that_would_be_read_wrongly_is_refused_with_its_line(head: RealHead, tmp_path: Path) -> None:
    found = submit(head, tmp_path, "executable = a\nrequirements = Glibc > 3\nqueue\n", status=2)
    assert "line 2, column 0: requirements: Glibc > 3 has no equivalent" in found
