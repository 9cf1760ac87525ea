"""``qselect`` and ``qrerun`` of PBS: jobs that fit are listed; jobs that run do so again."""

from pathlib import Path

import pytest
from batch_programs import Programs

from heads import RealHead, shared_head_fixture

head = shared_head_fixture()


@pytest.fixture(scope="module")
def pbs(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(head, tmp_path_factory.mktemp("pbs"), "--only", "qsub")


def numbers(text: str) -> list[str]:
    return [line.partition(".")[0] for line in text.splitlines()]


def test_qselect_lists_the_jobs_that_fit_all_options_for_other_programs(
    pbs: Programs, head: RealHead, tmp_path: Path
) -> None:
    ended = pbs.output("echo true | qsub -N over", tmp_path).partition(".")[0]
    head.wait(int(ended))
    runs = pbs.output("echo sleep 600 | qsub -N runs", tmp_path).partition(".")[0]
    head.wait_for(int(runs), "Running")
    held = pbs.output("echo true | qsub -h -N held", tmp_path).partition(".")[0]
    array = pbs.output("echo true | qsub -h -J 1-2 -N array", tmp_path).partition(".")[0]
    assert array.endswith("[]")
    for options, expected in [
        ("", [runs, held, array]),
        ("-s R", [runs]),
        ("-s H", [held, array]),
        ("-s QR", [runs]),
        ("-N held", [held]),
        ("-N held -s R", []),
        ("-h u", [held, array]),
        ("-h n", [runs]),
        ("-J", [array]),
        ("-J -T", [array, array.replace("[]", "[1]"), array.replace("[]", "[2]")]),
        ("-u root,nobody -s R", [runs]),
        ("-u nobody", []),
        ("-q Default -s R", [runs]),
        ("-q other", []),
        ("-x -N over", [ended]),
        ("-H", [ended]),
    ]:
        assert numbers(pbs.output(f"qselect {options}", tmp_path)) == expected, options
    pbs.output("qdel $(qselect)", tmp_path)
    head.until(lambda: pbs.output("qselect", tmp_path) == "")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("-s Z", 2, "illegal -s value: Z"),
        ("-z", 2, "invalid option -- 'z'"),
        ("12", 2, "no job can be named"),
        ("-l ncpus=2", 1, "-l"),
    ],
)
def test_qselect_refuses_what_it_cannot_do(
    pbs: Programs, tmp_path: Path, words: str, status: int, text: str
) -> None:
    done = pbs.run(f"qselect {words}", tmp_path)
    assert (done.returncode, text in done.stderr) == (status, True), done


def test_qrerun_ends_a_job_that_runs_and_lets_it_run_again(
    pbs: Programs, head: RealHead, tmp_path: Path
) -> None:
    script = f"echo >> {tmp_path}/starts; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    (tmp_path / "job.sh").write_text(script)
    job = int(pbs.output("qsub job.sh", tmp_path).partition(".")[0])
    starts = tmp_path / "starts"
    head.until(starts.exists)
    pbs.output(f"qrerun -W force {job}", tmp_path)
    head.until(lambda: len(starts.read_text()) == 2)
    (tmp_path / "go").touch()
    assert head.wait(job)["state"] == "Finished"
    over = pbs.run(f"qrerun {job}", tmp_path)
    assert (over.returncode, f"Request invalid for state of job {job}" in over.stderr) == (168, True)
    unknown = pbs.run("qrerun 999999", tmp_path)
    assert (unknown.returncode, unknown.stderr) == (153, "qrerun: Unknown Job Id 999999\n")
    assert pbs.run("qrerun", tmp_path).returncode == 2


def test_qrerun_of_an_array_repeats_what_has_not_finished(
    pbs: Programs, head: RealHead, tmp_path: Path
) -> None:
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    (tmp_path / "job.sh").write_text(
        f"echo >> {tmp_path}/starts$PBS_ARRAY_INDEX; [ $PBS_ARRAY_INDEX = 1 ] || {wait}"
    )
    job = pbs.output("qsub -J 1-2 job.sh", tmp_path).partition("[")[0]
    head.until(lambda: (tmp_path / "starts2").exists() and head.task(int(job), 1, 1)["state"] == "Finished")
    element = pbs.run(f"qrerun {job}[1]", tmp_path)
    assert (element.returncode, "nothing of it runs" in element.stderr) == (168, True), element
    pbs.output(f"qrerun {job}[2]", tmp_path)
    head.until(lambda: len((tmp_path / "starts2").read_text()) == 2)
    head.until(lambda: head.task(int(job), 1, 2)["state"] == "Running")
    pbs.output(f"qrerun {job}[]", tmp_path)
    head.until(lambda: len((tmp_path / "starts2").read_text()) == 3)
    (tmp_path / "go").touch()
    assert head.wait(int(job))["state"] == "Finished"
    assert len((tmp_path / "starts1").read_text()) == 1
