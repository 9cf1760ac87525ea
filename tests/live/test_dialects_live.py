"""Job files of other systems run on a real cluster as their languages mean it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from heads import RealHead, shared_head_fixture

HN = Path(sys.executable).with_name("hn")

head = shared_head_fixture(nodes=2, processors=4)


def hn(head: RealHead, *words: str) -> str:
    done = subprocess.run(
        [str(HN), "--state", str(head.state), *words], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def submitted(head: RealHead, text: str, directory: Path, suffix: str = "xml") -> list[int]:
    """Submit a job file with hn; return its jobs, in the order of the file."""
    file = directory / f"job.{suffix}"
    file.write_text(text)
    result = hn(head, "job", "submit", str(file))
    return [int(number) for number in re.findall(r"[Jj]ob (?:has been submitted. ID: )?(\d+)", result)]


def exported(head: RealHead, job: int, dialect: str) -> str:
    return hn(head, "job", "export", str(job), "--to", dialect)


def ended(head: RealHead, job: int) -> dict[str, Any]:
    found = head.wait(job)
    assert found["state"] == "Finished", (found, head.log())
    return found


def test_the_simple_job_object_runs(head: RealHead, tmp_path: Path) -> None:
    (job,) = submitted(
        head,
        f"<Job><Id>PBS.1234.0</Id><Name>Test job</Name><Project>Climate</Project>"
        f"<Executable>/bin/pwd</Executable><InitialWorkingDirectory>{tmp_path}</InitialWorkingDirectory>"
        "<Requested><Duration>60</Duration><Processors>1</Processors></Requested></Job>",
        tmp_path,
    )
    assert ended(head, job)["name"] == "Test job"
    assert head.output(job).strip() == str(tmp_path)


def test_what_was_delivered_stands_beside_what_was_requested(head: RealHead, tmp_path: Path) -> None:
    (job,) = submitted(
        head,
        "<Job><Id>1</Id><Name>moderate</Name><Executable>/bin/sh</Executable>"
        "<Arguments>-c ':'</Arguments><Requested><Duration>3600</Duration><Processors>2</Processors>"
        "<Memory units='MB'>64</Memory></Requested></Job>",
        tmp_path,
    )
    ended(head, job)
    written = exported(head, job, "sss")
    requested, delivered = (
        re.search(rf"<{part}>.*?</{part}>", written, re.DOTALL) for part in ("Requested", "Delivered")
    )
    assert requested, written
    assert delivered, written
    assert "<Duration>3600</Duration>" in requested[0]
    for name in ("Processors", "Node", "Duration"):
        assert re.search(rf"<{name}\b[^>]*>[^<]+</{name}>", delivered[0]), (name, delivered[0])
    assert "<State>Completed</State>" in written


MEETING = """
#!/bin/sh
# Comes to the meeting in directory $1 as $2; leaves when $3 have come, or fails after a while.
echo "$2 came" >> "$1/log"
: > "$1/$2.$$"
i=0
while [ "$(ls "$1" | grep -c '\\.')" -lt "$3" ]; do
  i=$((i + 1)); [ $i -lt 400 ] || exit 3
  sleep 0.05
done
echo "$2 left" >> "$1/log"
"""


def meeting(directory: Path) -> tuple[Path, Path]:
    """Return a program that ends only when all who are expected run at the same time, and its directory."""
    program, room = directory / "meeting.sh", directory / "room"
    program.write_text(MEETING.lstrip())
    program.chmod(0o755)
    room.mkdir()
    return program, room


def test_master_and_workers_run_together_and_the_dependent_job_runs_after_them(
    head: RealHead, tmp_path: Path
) -> None:
    program, room = meeting(tmp_path)
    group = f"""
<JobGroup><Id>workflow1</Id><Name>ShuttleTakeoff</Name>
  <JobDefaults><Environment><Variable name="HN_TEST">yes</Variable></Environment></JobDefaults>
  <Job><Id>a</Id><Name>together</Name>
    <TaskGroup><TaskCount>1</TaskCount><Name>Master</Name><Executable>{program}</Executable>
      <Arguments>{room} master 4</Arguments><Requested><Processors>1</Processors></Requested></TaskGroup>
    <TaskGroup><TaskCount>3</TaskCount><Name>Worker</Name><Executable>{program}</Executable>
      <Arguments>{room} worker 4</Arguments><Requested><Processors>3</Processors></Requested></TaskGroup>
  </Job>
  <Job><Id>b</Id><Name>after</Name><Executable>/bin/sh</Executable>
    <Arguments>-c 'echo "after $HN_TEST" >> {room}/log'</Arguments>
    <Dependency condition="OnSuccess" designator="JobId">a</Dependency></Job>
</JobGroup>"""
    jobs = submitted(head, group, tmp_path)
    assert len(jobs) == 2
    for job in jobs:
        ended(head, job)
    log = (room / "log").read_text().splitlines()
    assert sorted(log[:4]) == ["master came", *["worker came"] * 3]
    assert sorted(log[4:8]) == ["master left", *["worker left"] * 3]
    assert log[8:] == ["after yes"]


def test_a_gang_starts_on_two_nodes_at_once(head: RealHead, tmp_path: Path) -> None:
    program, room = meeting(tmp_path)
    groups = "".join(
        f"<TaskGroup><TaskCount>4</TaskCount><Name>side{side}</Name><Executable>{program}</Executable>"
        f"<Arguments>{room} side{side} 8</Arguments>"
        f"<Requested><Processors>4</Processors></Requested></TaskGroup>"
        for side in (1, 2)
    )
    (job,) = submitted(head, f"<Job><Id>gang</Id><Name>gang</Name>{groups}</Job>", tmp_path)
    ended(head, job)
    log = (room / "log").read_text().splitlines()
    assert [line.split()[1] for line in log] == ["came"] * 8 + ["left"] * 8
    delivered = exported(head, job, "sss").partition("<Delivered>")[2]
    assert len(set(re.findall(r"<Node>([^<]+)</Node>", delivered))) == 2


def test_a_diamond_of_the_grid_runs_in_its_order(head: RealHead, tmp_path: Path) -> None:
    def task(name: str, *children: str) -> dict[str, Any]:
        words = ["-c", f"echo {name} >> {tmp_path}/order"]
        definition = {"version": 2, "executable": "/bin/sh", "arguments": words}
        return {"id": name, "children": list(children), "definition": definition}

    tasks = [task("d"), task("b", "d"), task("a", "b", "c"), task("c", "d")]
    (job,) = submitted(head, json.dumps({"version": 2, "tasks": tasks}), tmp_path, "json")
    ended(head, job)
    order = (tmp_path / "order").read_text().split()
    assert order[0] == "a"
    assert sorted(order[1:3]) == ["b", "c"]
    assert order[3:] == ["d"]


def test_the_second_alternative_is_taken_where_the_first_is_impossible(
    head: RealHead, tmp_path: Path
) -> None:
    (job,) = submitted(
        head,
        "<Job><Id>1</Id><Name>either</Name><Executable>/bin/true</Executable><Requested>"
        '<Processors group="1">5000</Processors><Memory group="-1">1</Memory>'
        '<Processors conj="Or" group="1">2</Processors><Memory group="-1">1</Memory>'
        "</Requested></Job>",
        tmp_path,
    )
    found = ended(head, job)
    delivered = re.search(r"<Delivered>.*?</Delivered>", exported(head, job, "sss"), re.DOTALL)
    assert delivered, found
    assert re.search(r"<Processors[^>]*>2</Processors>", delivered[0]), delivered[0]


def test_the_native_form_tries_its_alternatives_in_order(head: RealHead, tmp_path: Path) -> None:
    text = 'command = "/bin/true"\nfeatures = ["unobtainium"]\n[[alternatives]]\nfeatures = []\n'
    (job,) = submitted(head, text, tmp_path, "toml")
    ended(head, job)
