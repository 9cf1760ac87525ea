"""Tables of recurring jobs, as users of Slurm write them, with the program itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_programs import Programs

from heads import RealHead, real_head

TABLE = """\
# Jobs of the group, see the wiki.
MAILTO=""
DIR=here and there
#SCRON --time=30:00 --chdir=/tmp
#SCRON -J nightly
30 4 * * 1-5 echo "$DIR" && sleep 0.1

@hourly $HOME/bin/watch --all
5 8 * * sun /bin/true
@every 1s echo tick
"""


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("scrontab"), processors=2) as started:
        started.ask("set_parameters", values={"RecurringShortestInterval": "1"})
        yield started


@pytest.fixture(scope="module")
def slurm(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(head, tmp_path_factory.mktemp("slurm"), "--only", "slurm")


def written(slurm: Programs, folder: Path, text: str) -> str:
    """Write a table with the program; return what it says on errors."""
    (folder / "table").write_text(text)
    done = slurm.run("scrontab table", folder)
    assert (done.returncode == 0) == (not done.stderr)
    return done.stderr


def test_a_table_is_kept_as_it_was_written_and_its_jobs_are_in_squeue(
    slurm: Programs, head: RealHead, tmp_path: Path
) -> None:
    assert written(slurm, tmp_path, TABLE) == ""
    assert slurm.output("scrontab -l", tmp_path) == TABLE.rstrip()
    entries = {one["name"]: one for one in head.ask("recurring_jobs")["recurring_jobs"]}
    assert {name: one["schedule"] for name, one in entries.items()} == {
        "nightly": "30 4 * * 1-5", "watch": "@hourly", "true": "5 8 * * sun", "echo": "@every 1s",
    }  # fmt: skip
    head.until(lambda: "echo" in slurm.output("squeue -h -t all -o %j", tmp_path).split())
    job = head.ask("run_recurring_job", recurring="nightly")["job"]
    assert head.wait(job)["state"] == "Finished"
    assert Path(f"/tmp/slurm-{job}.out").read_text() == "here and there\n"
    assert slurm.output(f"squeue -h -t all -j {job} -o '%j %l'", tmp_path) == "nightly 30:00"
    Path(f"/tmp/slurm-{job}.out").unlink()


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("61 4 * * * true", "line 11, column 0: '61 4 * * *' is not a schedule: Bad minute"),
        ("@reboot true", "line 11, column 0: '@reboot' is not a schedule"),
        ("0 4 * * *", "line 11, column 0: this is no entry"),
        ("#SCRON --nosuch\n@daily true", "line 12"),
        ("#SCRON -t 5", "line 11, column 0: the options of #SCRON have no entry below them"),
        ("#SCRON -J 'x\n@daily true", "line 11, column 0: the options cannot be read"),
        ("#SCRON --begin=now+1hour\n@daily true", "line 12"),
    ],
)
def test_an_error_names_its_line_and_the_table_stays(
    slurm: Programs, tmp_path: Path, entry: str, what: str
) -> None:
    assert written(slurm, tmp_path, TABLE) == ""
    assert what in written(slurm, tmp_path, f"{TABLE}{entry}\n")
    assert slurm.output("scrontab -l", tmp_path) == TABLE.rstrip()


def test_an_entry_that_stays_keeps_its_number(slurm: Programs, head: RealHead, tmp_path: Path) -> None:
    assert written(slurm, tmp_path, TABLE) == ""
    before = {one["name"]: one["number"] for one in head.ask("recurring_jobs")["recurring_jobs"]}
    assert written(slurm, tmp_path, "#SCRON -J nightly\n@daily true\n@daily true\n") == ""
    after = {one["name"]: one["number"] for one in head.ask("recurring_jobs")["recurring_jobs"]}
    assert after == {"nightly": before["nightly"], "true": before["true"]}


def test_an_editor_changes_the_table_and_r_removes_it(
    slurm: Programs, head: RealHead, tmp_path: Path
) -> None:
    assert written(slurm, tmp_path, "@daily true\n") == ""
    slurm.output("EDITOR='sed -i s/daily/weekly/' scrontab -e", tmp_path)
    assert slurm.output("scrontab -l", tmp_path) == "@weekly true"
    same = slurm.run("EDITOR=true scrontab -e", tmp_path)
    assert (same.returncode, same.stderr) == (0, "scrontab: no changes made to crontab\n")
    wrong = slurm.run("EDITOR='sed -i s/@weekly/@never/' scrontab -e", tmp_path)
    assert wrong.returncode == 1
    assert "'@never' is not a schedule" in wrong.stderr
    assert (
        slurm.output("cat table | sed s/daily/monthly/ | scrontab - && scrontab -l", tmp_path)
        == "@monthly true"
    )
    assert slurm.run("scrontab", tmp_path).returncode == 1
    slurm.output("scrontab -r", tmp_path)
    gone = slurm.run("scrontab -l", tmp_path)
    assert (gone.returncode, "no crontab for" in gone.stderr) == (1, True)
    assert head.ask("recurring_jobs") == {"recurring_jobs": []}


def test_hn_has_the_words_of_recurring_jobs(slurm: Programs, head: RealHead, tmp_path: Path) -> None:
    output = slurm.output(
        "TZ=Europe/Berlin hn recurring new --schedule '0 4 * * *' --name n -t 1h true", tmp_path
    )
    assert output.startswith("Recurring job 'n' has been created. Number: ")
    assert head.ask("recurring_job", recurring="n")["recurring_job"]["zone"] == "Europe/Berlin"
    slurm.output("hn recurring modify n --schedule @daily --zone UTC --overlap wait -t 2h", tmp_path)
    changed = head.ask("recurring_job", recurring="n")["recurring_job"]
    assert (changed["schedule"], changed["zone"], changed["overlap"]) == ("@daily", "UTC", "wait")
    assert "@daily" in slurm.output("hn recurring list", tmp_path)
    job = slurm.output("hn recurring run n --quiet", tmp_path)
    assert head.wait(int(job))["run_time"] == 7200
    assert f"job {job} Finished" in slurm.output("hn recurring view n", tmp_path)
    assert "Recurring Job" in slurm.output(f"hn job view {job}", tmp_path)
    slurm.output("hn recurring modify n -t 3h -n 2 sh -c 'echo other'", tmp_path)
    other = int(slurm.output("hn recurring run n --quiet", tmp_path))
    ended = head.wait(other)
    assert (ended["name"], ended["run_time"], ended["minimum"]) == ("n", 10_800, 2)
    assert slurm.output(f"hn task output {other}.1", tmp_path) == "other"
    assert head.ask("recurring_job", recurring="n")["recurring_job"]["schedule"] == "@daily"
    lost = slurm.run("hn recurring modify n --workdir /tmp", tmp_path)  # of a program that is not there
    assert (lost.returncode, "describes a task" in lost.stderr) == (2, True)
    (tmp_path / "two.json").write_text(
        '{"jobs": [{"tasks": [{"command": "a"}]}, {"tasks": [{"command": "b"}]}]}'
    )
    several = slurm.run("hn recurring modify n two.json", tmp_path)
    assert "describes 2 jobs" in several.stderr
    (tmp_path / "one.json").write_text('{"name": "renamed", "tasks": [{"command": "true"}]}')
    slurm.output("hn recurring modify n one.json", tmp_path)
    assert head.wait(int(slurm.output("hn recurring run n --quiet", tmp_path)))["name"] == "renamed"
    for word in ("suspend", "resume", "remove"):
        slurm.output(f"hn recurring {word} n", tmp_path)
    assert slurm.run("hn recurring view n", tmp_path).returncode == 1
    assert slurm.run("hn recurring new true", tmp_path).returncode == 2
