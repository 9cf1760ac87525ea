"""Draw the pictures of the console in docs/pictures: a real head, its gateway, and Chromium.

Usage:  make pictures
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chromium import chromium, window
from gateways import RealGateway, real_gateway

from heads import RealHead, real_head

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 1120  # pixels
SCRIPT = """#!/bin/bash
#SBATCH --job-name=render
#SBATCH --ntasks=1 --time=00:20:00
#SBATCH --mem-bind=local
#SBATCH --mail-type=END

srun ./render --frames 1-240
"""
FLOW = (
    ("fetch", "echo get; sleep 0.2", ""),
    ("grid", "echo a; sleep 2000", "fetch"),
    ("bounds", "echo b", "fetch"),
    ("solve", "echo c", "grid,bounds"),
    ("plot", "echo d", "solve"),
    ("report", "echo e", "plot"),
)


class Scene:
    """A cluster of four nodes with jobs in all states, in a directory that is thrown away."""

    def __init__(self, head: RealHead, directory: Path) -> None:
        self._head, self._directory = head, directory
        self.script = self._script()
        self.flow = self._flow()
        for name, processors, limit in (("ocean", 4, "45m"), ("wing-2", 4, "90m"), ("mesh", 3, "70m")):
            self._submit(name, processors, limit)
        self.waiting = self._submit("big-solve", 12, "60m")
        for number in (1, 2, 3):
            self._submit(f"post-{number}", 2, "20m")
        head.until(lambda: bool((head.ask("explain_job", job=self.waiting)["expected"] or {}).get("p50")))

    def hn(self, *words: str) -> str:
        """Run a command, and return the id of the job that it made."""
        environment = {**os.environ, "HEADNODE_STATE": str(self._head.state)}
        command = [sys.executable, "-m", "headnode.apps.cli", *words]
        done = subprocess.run(
            command, cwd=self._directory, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.rpartition("ID: ")[2].strip(" .\n")

    def _submit(self, name: str, processors: int, limit: str) -> int:
        sizes = ("-n", str(processors), "-t", limit, "--projectname", "climate")
        return int(self.hn("job", "submit", "-J", name, *sizes, "sleep 5000"))

    def _script(self) -> int:
        (self._directory / "render.sbatch").write_text(SCRIPT)
        job = int(self.hn("job", "submit", "render.sbatch"))
        self._head.wait(job)
        return job

    def _flow(self) -> int:
        job = self.hn("job", "new", "/jobname:weather-flow", "/numprocessors:2", "/runtime:2h")
        for name, command, parents in FLOW:
            self.hn("job", "add", job, f"/name:{name}", *([f"/depend:{parents}"] if parents else []), command)
        self.hn("job", "submit", f"/id:{job}")
        self._head.until(lambda: self._head.ask("job", job=int(job))["job"]["tasks"]["finished"] == 2)
        return int(job)


def _new_job(page: Any) -> None:
    page.get_by_label("Command", exact=True).fill("./solve --mesh wing.msh")
    page.get_by_label("Processors", exact=True).fill("12")
    page.get_by_label("Run time limit", exact=True).fill("2h")
    page.get_by_role("button", name="Check").click()
    page.get_by_text("Nothing was submitted").first.wait_for()


def _nothing(page: Any) -> None:
    page.wait_for_load_state("networkidle")


def draw(page: Any, gateway: RealGateway, scene: Scene) -> None:
    """Write the pictures."""
    pages: tuple[tuple[str, str, int, Callable[[Any], None]], ...] = (
        ("overview", "/", 700, _nothing),
        ("why", f"/jobs/{scene.waiting}", 760, _nothing),
        ("new", "/new", 620, _new_job),
        ("plan", "/plan", 420, _nothing),
        ("flow", f"/jobs/{scene.flow}/tasks", 500, _nothing),
        ("source", f"/jobs/{scene.script}/source", 500, _nothing),
    )
    for name, path, height, prepare in pages:
        page.set_viewport_size({"width": WIDTH, "height": height})
        page.goto(gateway.address + path)
        prepare(page)
        page.screenshot(path=PICTURES / f"console-{name}.png")


def main() -> None:
    """Draw all pictures."""
    with (
        tempfile.TemporaryDirectory() as directory,
        real_head(Path(directory), nodes=4, processors=4) as head,
        real_gateway(head) as gateway,
        chromium() as browser,
        window(browser, gateway, WIDTH) as page,
    ):
        draw(page, gateway, Scene(head, Path(directory)))


if __name__ == "__main__":
    main()
