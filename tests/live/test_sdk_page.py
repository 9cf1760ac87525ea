"""The page of the SDK and its examples do on a real head what they say."""

import re
import subprocess
import sys
from pathlib import Path

from headnode.sdk import HeadnodeClient
from heads import RealHead, shared_head_fixture

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sdk.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

head = shared_head_fixture()


def run(source: str, head: RealHead, where: Path) -> str:
    """Return what a program prints that runs beside a head."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        env={"PATH": "/usr/bin:/bin", "HOME": str(where), "HEADNODE_STATE": str(head.state)},
        cwd=where,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_blocks_of_the_page_run_one_after_the_other(head: RealHead, tmp_path: Path) -> None:
    printed = run("\n".join(BLOCK.findall(PAGE)), head, tmp_path)
    assert printed.startswith("hello from ")
    assert "\n55\n" in printed  # the sum
    assert "\n10\n" in printed  # the tenth number
    assert "('run_time',)" in printed
    assert "\n2470\n49\n" in printed  # of the functions


def test_the_example_of_a_sweep_shows_the_instance_that_failed(head: RealHead, tmp_path: Path) -> None:
    printed = run((ROOT / "examples/sdk/submit_and_wait.py").read_text(), head, tmp_path)
    assert "4 finished, 0 running, 1 failed\ninstance 3: number 3 is wrong\n" in printed


def test_the_example_of_functions_counts_primes_and_survives_a_failure(
    head: RealHead, tmp_path: Path
) -> None:
    printed = run((ROOT / "examples/sdk/functions.py").read_text(), head, tmp_path)
    assert "78498 primes below 1000000" in printed
    assert "a call has failed: ValueError: low is not below high" in printed


def test_the_example_of_the_queue_says_why_jobs_wait(head: RealHead, tmp_path: Path) -> None:
    with HeadnodeClient(head.state) as client:
        job = client.submit("true", name="kept", holds="data")
        printed = run((ROOT / "examples/sdk/queue_watch.py").read_text(), head, tmp_path)
        job.cancel()
    assert re.search(rf"job {job.id} kept:\n  waits: .*hold", printed)
