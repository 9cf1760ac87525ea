"""`hn web`, `hn up --web` and `hn down`: a gateway begins, logs in, and ends with its head."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from gateways import write_certificate

from heads import TIMEOUT

HN = Path(sys.executable).with_name("hn")


class OwnCluster:
    """A cluster of this user, used by commands only."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self._environment = {**os.environ, "HOME": str(directory), "XDG_STATE_HOME": str(directory)}

    def hn(self, *words: str, standing: Path | None = None) -> dict[str, Any]:
        """Run a command, in the directory where its user stands; return what it prints as JSON."""
        command = [HN, "--state", self.state, *words, "--json"]
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT, env=self._environment, check=False, cwd=standing
        )
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, Any] = msgspec.json.decode(done.stdout) if done.stdout else {}
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    own = OwnCluster(tmp_path_factory.mktemp("own"))
    assert httpx.get(own.hn("up", "--processors", "2", "--web")["console"]).status_code == 303
    try:
        yield own
    finally:
        process = own.hn("web")["pid"]
        own.hn("down", "--cancel-jobs")
        assert (
            not Path(f"/proc/{process}").exists() or "zombie" in Path(f"/proc/{process}/status").read_text()
        )


def test_each_call_prints_another_address_of_the_same_gateway(cluster: OwnCluster) -> None:
    first, second = cluster.hn("web"), cluster.hn("web")
    assert first["pid"] == second["pid"]
    assert first["address"] != second["address"]
    for answer in (first, second):
        with httpx.Client(follow_redirects=True, timeout=TIMEOUT) as browser:
            page = browser.get(answer["address"])
            assert page.status_code == 200
            assert page.headers["content-type"].startswith("text/html")


def test_a_token_for_the_web_is_printed_and_is_its_user(cluster: OwnCluster) -> None:
    address = cluster.hn("web")["address"].partition("/login")[0]
    token = cluster.hn("token", "new", "--web", "--expires", "1d")["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{address}/api/v1/whoami", headers=headers).json() == cluster.hn("whoami")


def test_a_gateway_is_stopped_and_started_again_without_the_head(cluster: OwnCluster) -> None:
    before, head = cluster.hn("web")["pid"], cluster.hn("cluster", "view")
    assert cluster.hn("web", "--stop") == {"pid": before}
    assert cluster.hn("cluster", "view").keys() == head.keys()
    after = cluster.hn("web")
    assert after["pid"] != before
    assert httpx.get(after["address"]).status_code == 303


def test_files_are_found_from_where_the_user_stands(cluster: OwnCluster, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    cluster.hn("web", "--stop")
    options = ("--certificate", certificate.name, "--key", key.name)
    assert cluster.hn("web", *options, standing=tmp_path)["address"].startswith("https://")
    cluster.hn("web", "--stop")
    cluster.hn("web")


def test_a_second_gateway_in_the_same_place_ends_at_once(cluster: OwnCluster) -> None:
    cluster.hn("web")
    command = [sys.executable, "-P", "-m", "headnode.apps.web", "--state", str(cluster.state), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, "gateway-runs" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--certificate", "/etc/hostname", "--key", "/etc/hostname"], "certificate"),
        (["--address", "192.0.2.1"], "listen"),
        (["--login", "oidc", "--oidc-issuer", "http://evil.example", "--oidc-client", "x"], "openid-address"),
    ],
)
def test_options_that_cannot_be_are_shown_in_a_sentence(
    tmp_path: Path, options: list[str], code: str
) -> None:
    command = [
        sys.executable,
        "-P",
        "-m",
        "headnode.apps.web",
        "--state",
        str(tmp_path),
        "--port",
        "0",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode != 0, f"[{code}]" in done.stderr, "Traceback" in done.stderr) == (
        True,
        True,
        False,
    )


def test_a_second_head_in_the_foreground_is_refused_so_that_a_service_manager_sees_it(
    cluster: OwnCluster,
) -> None:
    command = [HN, "--state", cluster.state, "up", "--foreground"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 1
    assert "a head is running already" in done.stderr
    assert cluster.hn("up")["cluster"]


def test_a_console_without_a_head_says_so(tmp_path: Path) -> None:
    around = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    hn = partial(subprocess.run, capture_output=True, text=True, timeout=TIMEOUT, check=True, env=around)
    try:
        result = hn([HN, "--state", tmp_path / "state", "web", "--json"])
        assert f"no head is running in '{tmp_path}/state'" in result.stderr
        (tmp_path / "state").mkdir()  # as hn up does: it is the same gateway then
        again = hn([HN, "--state", tmp_path / "state", "web", "--json"])
        assert msgspec.json.decode(again.stdout)["pid"] == msgspec.json.decode(result.stdout)["pid"]
    finally:
        stopped = hn([HN, "--state", tmp_path / "state", "web", "--stop"])
        assert "The gateway has ended" in stopped.stdout


def test_hn_up_shows_programs_the_process_and_the_directory_of_a_head_that_starts_or_ran_already(
    tmp_path: Path,
) -> None:
    own = OwnCluster(tmp_path)
    started = own.hn("up", "--processors", "1")
    try:
        runs = own.hn("up")
        assert {name: started[name] for name in runs} == runs
        assert Path(f"/proc/{started['pid']}").exists()
    finally:
        own.hn("down", "--cancel-jobs")
