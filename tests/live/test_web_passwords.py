"""Log-in with passwords of the machine: real PAM, whose service and hashes are in a name space of mounts."""

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from gateways import PYTHON_OF_ALL, RealGateway, real_gateway

from heads import TIMEOUT, RealHead, real_head

USER, PASSWORD = "games", "correct horse"
HASH = "$6$saltsalt$hRM5XZ86KXEw9UOmjigeVqFgULtFB2sgpC9lXQDfMib3Zgw7mEiUvBJI2EplzfAqxL5Vvwp2scFtv/uamSo5z0"
ROOT = Path(__file__).parents[2]


def _can_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


pytestmark = pytest.mark.skipif(
    not (_can_mount() and Path("/etc/pam.d/common-auth").exists()),
    reason="needs root, name spaces of mounts, and PAM as Debian has it",
)


@pytest.fixture(scope="module")
def head() -> Iterator[RealHead]:
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        with real_head(Path(made), gateway_user="daemon") as found:
            yield found


@pytest.fixture(scope="module")
def gateway(head: RealHead) -> Iterator[RealGateway]:
    """A gateway of an account in the group shadow, where one user has a password."""
    place = head.state.parent / "etc"
    shutil.copytree("/etc/pam.d", place / "pam.d")
    shutil.copy(ROOT / "packaging" / "pam.d" / "headnode", place / "pam.d")
    lines = Path("/etc/shadow").read_text().splitlines()
    hashes = [f"{USER}:{HASH}:19000:0:99999:7:::" if line.startswith(f"{USER}:") else line for line in lines]
    (place / "shadow").write_text("\n".join(hashes) + "\n")
    shutil.chown(place / "shadow", "root", "shadow")
    (place / "shadow").chmod(0o640)
    mounts = f"mount --bind {place}/pam.d /etc/pam.d && mount --bind {place}/shadow /etc/shadow"
    account = "setpriv --reuid=daemon --regid=shadow --clear-groups"
    web = head.state.parent / "web-0"
    web.mkdir()
    web.chmod(0o777)
    inside = ("unshare", "--mount", "sh", "-c", f'{mounts} && exec {account} "$@"', "sh", *PYTHON_OF_ALL)
    with real_gateway(head, "--login", "pam", inside=inside) as running:
        yield running


def log_in(gateway: RealGateway, user: str, password: str, following: str = "/jobs") -> httpx.Response:
    with httpx.Client(base_url=gateway.address, timeout=TIMEOUT) as client:
        answer = client.post("/login", data={"user": user, "password": password, "next": following})
        answer.extensions["whoami"] = client.get("/api/v1/whoami")
        return answer


def test_the_right_password_logs_in_and_goes_on(gateway: RealGateway) -> None:
    answer = log_in(gateway, USER, PASSWORD)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/jobs"), gateway.log()
    assert answer.extensions["whoami"].json()["user"] == USER


@pytest.mark.parametrize(
    "following", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x"]
)
def test_a_log_in_goes_on_only_to_pages_of_the_gateway(gateway: RealGateway, following: str) -> None:
    assert log_in(gateway, USER, PASSWORD, following).headers["location"] == "/"


def test_root_does_not_log_in_by_the_web(gateway: RealGateway) -> None:
    assert log_in(gateway, "root", "").extensions["whoami"].status_code == 401


def test_another_site_logs_nobody_in(gateway: RealGateway) -> None:
    answer = httpx.post(
        f"{gateway.address}/login",
        data={"user": USER, "password": PASSWORD},
        headers={"Origin": "https://evil.example"},
    )
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_passwords_that_are_tried_at_the_same_time_have_to_wait_too(gateway: RealGateway) -> None:
    with ThreadPoolExecutor(12) as threads:
        answers = threads.map(lambda number: log_in(gateway, "bin", f"wrong {number}"), range(12))
        found = Counter(answer.status_code for answer in answers)
    assert found == {403: 5, 429: 7}


def test_wrong_passwords_are_refused_and_then_have_to_wait(gateway: RealGateway) -> None:
    messages = [log_in(gateway, "nobody", f"wrong {number}").status_code for number in range(6)]
    while (
        messages[-1] == 403 and len(messages) < 12
    ):  # each wait is twice as long: a busy machine may be late for the first
        messages.append(log_in(gateway, "nobody", "wrong again").status_code)
    assert messages[:5] == [403] * 5
    assert messages[-1] == 429
    assert PASSWORD not in gateway.log()
    assert "wrong 1" not in gateway.log()
