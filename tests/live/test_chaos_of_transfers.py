"""Head, agent and transfer processes are killed at random moments while files come and go.

Afterwards every file is as it was, and every program has run once.  The figures are printed.  More of it:
``make test TESTS='tests/live/test_chaos_of_transfers.py --chaos-kills 200 --timeout 0 -s'``.
"""

import hashlib
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from depth import share_of
from heads import RealHead, processes, real_head
from testbed.faulty_storage import FaultyStorage

PARTS = ("head", "agent", "transfer")
AT_ONCE = 4  # jobs
MAX_PAUSE = 0.3  # seconds between two kills
TRANSFER, AGENT = b"headnode.adapters.staging", b"headnode.apps.agent"


class StagingJobs:
    """Jobs that copy a file each from the storage to the storage, and say that they ran."""

    def __init__(self, head: RealHead, storage: FaultyStorage, ran: Path, chance: random.Random) -> None:
        self._head, self._storage, self._ran, self._chance = head, storage, ran, chance
        self.data: dict[int, bytes] = {}  # by the number of the file
        self._open: set[int] = set()
        self.ended: dict[int, str] = {}

    def fill(self) -> None:
        """Submit jobs until there are as many as may be; note those that have ended."""
        for job in list(self._open):
            shown = self._head.ask("job", job=job)["job"]
            if shown["state"] in ("Finished", "Failed", "Canceled"):
                self._open.remove(job)
                self.ended[job] = shown["state"] + self._head.task(job)["message"]
        while len(self._open) < AT_ONCE:
            self._submit(len(self.data) + 1)

    def _submit(self, number: int) -> None:
        data = self.data[number] = self._chance.randbytes(self._chance.randrange(1, 400_000))
        digest = self._storage.put(f"in.{number}", data)
        file = {"url": f"{self._storage.url}/paced/in.{number}", "path": "data"}
        document = {
            "command": f"sh -c 'cp data result && echo {number} >> {self._ran}'",
            "rerunnable": False,
            "work_directory": str(self._ran.parent),
            "stage_in": [{**file, "size": len(data), "checksum": f"sha256:{digest}"}],
            "stage_out": [{"path": "result", "url": f"{self._storage.url}/paced/out.{number}"}],
        }
        self._open.add(self._head.ask("submit_job", jobfile=json.dumps(document))["job"])

    def finish(self) -> None:
        """Wait until all have ended."""
        for job in self._open:
            state = self._head.wait(job)["state"]
            self.ended[job] = state + self._head.task(job)["message"]


def kill(head: RealHead, part: str, directory: Path) -> int:
    """Kill the processes of a part; return how many there were."""
    if part == "head":
        head.kill()
        head.start_again()
        return 1
    words = (TRANSFER, str(directory).encode()) if part == "transfer" else (AGENT, str(head.state).encode())
    found = list(processes(*words))
    for process in found:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:  # it has ended meanwhile
            found.remove(process)
    return len(found)


def test_whatever_is_killed_every_file_is_exact_and_every_program_runs_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = request.config.getoption("--chaos-kills") or share_of(80)
    chance = random.Random(kills)
    killed = Counter[str]()
    (tmp_path / "storage").mkdir()
    with FaultyStorage(tmp_path / "storage") as storage, real_head(tmp_path, processors=AT_ONCE) as head:
        networks = {"TransferNetworks": "127.0.0.0/8", "TransferTimeout": "20", "TransferHoldTime": "0"}
        head.ask("set_parameters", values=networks)
        jobs = StagingJobs(head, storage, tmp_path / "ran", chance)
        while killed.total() < kills:
            jobs.fill()
            time.sleep(chance.uniform(0.0, MAX_PAUSE))  # the moment is what is tried
            part = chance.choice(PARTS)
            killed[part] += kill(head, part, tmp_path)
            head.wait_until_ready()
        jobs.finish()
    print(f"{killed.total()} kills ({dict(killed)}), {len(jobs.data)} jobs")
    assert {job: state for job, state in jobs.ended.items() if state != "Finished"} == {}
    out = {number: (storage.directory / f"out.{number}").read_bytes() for number in jobs.data}
    wrong = [number for number, data in jobs.data.items() if digest_of(out[number]) != digest_of(data)]
    assert wrong == []
    ran = Counter(map(int, (tmp_path / "ran").read_text().split()))
    assert ran == Counter(jobs.data.keys())
    left = [path.name for path in tmp_path.glob("headnode-*")]
    assert left == [], "scratch directories are left"


def digest_of(data: bytes) -> str:
    """Return what a failure can show of a file."""
    return hashlib.sha256(data).hexdigest()
