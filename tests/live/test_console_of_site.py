"""The console over a real Slurm: its queue, its nodes, and why a job waits there, in Chromium."""

import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from chromium import SCHEMES, WIDTHS, chromium, troubles_of_pages, window
from gateways import RealGateway, gateway_fixture, real_gateway
from sites import slurm_fixture

from headnode.core.model.errors import Unavailable
from heads import RealHead, real_head
from testbed.slurm_peer import SlurmPeer

pytestmark = pytest.mark.timeout(300)  # seconds: a browser that hangs must not stop the others

HOSTILE = "<img src=x onerror=alert(1)>{{7*7}}" + "n" * 180


peer = slurm_fixture()


@pytest.fixture(scope="module")
def head(peer: SlurmPeer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    directory = tmp_path_factory.mktemp("over")
    with real_head(directory, nodes=0) as head:
        paths = {"settings": str(peer.settings), "directory": str(directory / "attempts")}
        (directory / "attempts").mkdir()
        head.ask("set_resource", name="site", system="slurm", overlay=True, poll=1.0, **paths)
        yield head


gateway = gateway_fixture(scope="module")


@pytest.fixture(scope="module")
def waiting(head: RealHead, peer: SlurmPeer) -> int:
    """Return a job of ours behind two of others, which is explained and has an expected start."""
    usual = ("--parsable", "-n", "8", "-t", "60", "-o", "/dev/null", "--chdir=/", "--wrap=sleep 600")
    peer.run("sbatch", *usual, "-J", "over")
    head.until(lambda: peer.in_queue() == ["over"])
    peer.run("sbatch", *usual, "-J", HOSTILE)
    ended = peer.run("sbatch", "--parsable", "-n", "1", "-J", HOSTILE, "--chdir=/", "--wrap=true").strip()
    peer.run("scancel", ended)
    job = head.submit("true", terms={"runtime": "1"}, workdir="/")

    def is_explained() -> bool:
        try:
            answer = head.ask("explain_job", job=job)
            head.ask("site_jobs")  # somebody looks: it is asked more often
        except Unavailable:
            return False
        site = answer["site"] or {}
        return bool(site.get("ahead") == 1 and (answer["expected"] or {}).get("p50"))

    head.until(is_explained)
    return job


def addresses(job: int) -> list[str]:
    return ["/site", "/site?state=ended", "/site?user=nobody", "/site/nodes", f"/jobs/{job}"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_and_nothing_is_cut_off_on_the_pages_of_a_site(
    browser: Any, gateway: RealGateway, waiting: int, width: int
) -> None:
    with window(browser, gateway, width, bypass_csp=True) as page:
        if pictures := os.environ.get("HEADNODE_PICTURES"):
            for scheme, (number, path) in product(SCHEMES, enumerate(addresses(waiting))):
                page.emulate_media(color_scheme=scheme)
                page.goto(gateway.address + path)
                page.screenshot(path=Path(pictures) / f"{number}-{scheme}-{width}.png", full_page=True)
        assert troubles_of_pages(page, gateway, addresses(waiting), width) == {}


def test_the_pages_show_the_queue_the_nodes_and_why_a_job_waits(
    head: RealHead, gateway: RealGateway, waiting: int, peer: SlurmPeer
) -> None:
    there = head.ask("job", job=waiting)["job"]["resource_jobs"][0]
    with gateway.browser() as client:
        queue, nodes, job = (client.get(path).text for path in ("/site", "/site/nodes", f"/jobs/{waiting}"))
        rows = {row["id"]: row for row in client.get("/site.json").json()["rows"]}
    assert f'href="/jobs/{waiting}"' in queue
    assert "jobs with a higher priority are ahead of it" in queue
    assert "<img src=x" not in queue
    assert rows[there]["job"] == waiting
    assert rows[there]["p50"] <= rows[there]["p90"]
    assert "n1" in nodes
    assert "main (default)" in nodes
    assert "In the queue of site" in job
    assert "1 ahead of it there" in job
    assert re.search(r"Predicted times are (not corrected yet|corrected by \d+ starts? seen)\.", job)
    assert 'href="/site"' in job


def test_a_cluster_of_own_nodes_has_no_pages_of_a_site_in_its_menu(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("own")
    with real_head(directory) as head, real_gateway(head) as gateway, gateway.browser() as client:
        assert 'href="/site"' not in client.get("/jobs").text
        assert client.get("/site").status_code == 404
