"""A node that cannot write its own directories: jobs do not pay for it, and the administrator hears of it."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headnode.apps.cli.screens import node as screen
from heads import RealHead, shared_head_fixture

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")]
SWEEP = 400

head = shared_head_fixture(nodes=2)


@contextmanager
def bad_disk(folder: Path, options: str) -> Iterator[None]:
    """Have a disk in place of a directory on which nothing can be written."""
    command = ["mount", "-t", "tmpfs", "-o", options, "bad", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def folder_of(head: RealHead, name: str) -> Path:
    folder = head.state / "nodes" / name
    assert folder.is_dir()
    return folder


def names(head: RealHead) -> list[str]:
    return [each["name"] for each in head.ask("nodes")["nodes"]]


def node(head: RealHead, name: str) -> dict[str, Any]:
    found: dict[str, Any] = head.ask("node", node=name)["node"]
    return found


@pytest.mark.parametrize(
    ("folder", "options", "text"),
    [
        ("jobs", "nr_inodes=1", "no space left on device"),
        ("output", "ro", "read-only file system"),
    ],
)
def test_no_task_fails_where_a_node_cannot_write_its_own_directories_and_the_node_is_drained(
    head: RealHead, folder: str, options: str, text: str
) -> None:
    bad, _ = names(head)
    with bad_disk(folder_of(head, bad) / folder, options):
        sweeps = head.submit("true", parametric=f"1-{SWEEP}")
        singles = [head.submit("true") for _ in range(20)]
        over = head.wait(sweeps)
        assert (over["state"], over["tasks"]["finished"], over["tasks"]["failed"]) == ("Finished", SWEEP, 0)
        assert {head.wait(job)["state"] for job in singles} == {"Finished"}
        shown = node(head, bad)
        assert shown["state"] == "Drained"
        (drain,) = shown["drains"]
        assert drain["cause"] == "fault"
        assert text in drain["reason"].lower()
        assert f"hn node resume {bad}" in screen.view(shown)["Drain"]
    head.ask("resume_node", node=bad)
    assert node(head, bad)["state"] == "Ready"
    job = head.submit("true", terms={"requestednodes": bad})
    assert head.wait(job)["state"] == "Finished"


def test_no_task_fails_where_the_disk_of_captured_output_is_full(head: RealHead) -> None:
    full, _ = names(head)
    folder = folder_of(head, full) / "output"
    with bad_disk(folder, "size=64k,mode=711"):
        with contextlib.suppress(OSError):
            (folder / "fill").write_bytes(bytes(1 << 20))
        jobs = [head.submit("echo said") for _ in range(20)]
        assert {head.wait(job)["state"] for job in jobs} == {"Finished"}
        (drain,) = node(head, full)["drains"]
        assert drain["cause"] == "fault"
        assert "captured output" in drain["reason"]
        assert "no space left on device" in drain["reason"].lower()
    head.ask("resume_node", node=full)


def test_a_node_whose_directories_were_deleted_makes_them_again_and_goes_on(head: RealHead) -> None:
    _, poor = names(head)
    for folder in ("jobs", "run", "output"):
        shutil.rmtree(folder_of(head, poor) / folder)
    job = head.submit("echo here", terms={"requestednodes": poor})
    assert head.wait(job)["state"] == "Finished"
    assert node(head, poor)["state"] == "Ready"
    assert head.output(job) == "here\n"
