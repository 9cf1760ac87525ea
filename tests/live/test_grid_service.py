"""The grid service on a real gateway: what clients of the Pilot service do, works."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateways import real_gateway

from headnode.apps.client.connection import Connection
from headnode.apps.client.tls_connection import redeem_login
from heads import RealHead, real_head
from testbed.debian_packages import CannotInstall
from testbed.faulty_storage import FaultyStorage
from testbed.ftp_server import ftp_server
from testbed.gridftp_server import gridftp_server
from testbed.processes import free_address

DATE: dict[str, Any] = {"version": 2, "executable": "/bin/date"}
STATES = {"new", "pending", "running", "paused", "finished", "aborted"}


def shell(script: str) -> dict[str, Any]:
    return {"version": 2, "executable": "/bin/sh", "arguments": ["-c", script]}


def grid(**tasks: tuple[list[str], dict[str, Any] | None]) -> dict[str, Any]:
    """Return a job; each task has its children and its definition."""
    items = [
        {"id": name, "children": children} | ({} if definition is None else {"definition": definition})
        for name, (children, definition) in tasks.items()
    ]
    return {"version": 2, "tasks": items}


class Pilot:
    """A program that knows only the grid service, and checks what the service promises of each answer."""

    def __init__(self, head: RealHead, client: httpx.Client) -> None:
        self.head, self.client = head, client

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers.setdefault("Content-MD5", base64.b64encode(hashlib.md5(content).digest()).decode())
        answer = self.client.request(method, f"/pilot{path}", content=content, headers=headers)
        if answer.content:
            digest = base64.b64encode(hashlib.md5(answer.content).digest()).decode()
            assert answer.headers["content-md5"] == digest
        return answer

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create(self, definition: dict[str, Any]) -> str:
        answer = self.ask("POST", "/jobs/", {"definition": definition})
        assert answer.status_code == 201, answer.text
        (made,) = answer.json()
        assert answer.headers["location"] == made["uri"]
        return f"/jobs/{made['job_id']}/"

    def operate(self, job: str, op: str, name: str = "") -> httpx.Response:
        return self.ask("PUT", job, {"operation": {"op": op, "id": name or str(uuid.uuid4())}})

    def start(self, job: str) -> None:
        answer = self.operate(job, "start")
        assert (answer.status_code, answer.content) == (200, b""), answer.text

    def states(self, path: str) -> list[str]:
        entries = self.get(path)["state"]
        times = [datetime.strptime(each["ts"], "%Y-%m-%dT%H:%M:%SZ") for each in entries]
        assert times == sorted(times)
        assert {each["s"] for each in entries} <= STATES
        return [each["s"] for each in entries]

    def becomes(self, path: str, state: str) -> list[str]:
        self.head.until(lambda: self.states(path)[-1] == state)
        return self.states(path)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("grid"), processors=4, listen=free_address()) as running:
        yield running


@pytest.fixture(scope="module")
def pilot(head: RealHead) -> Iterator[Pilot]:
    token = redeem_login(head.ask("create_token")["login"]).token
    with (
        real_gateway(head) as gateway,
        httpx.Client(base_url=gateway.address, headers={"Authorization": f"Bearer {token}"}) as client,
    ):
        yield Pilot(head, client)


def test_a_created_job_starts_only_when_it_is_told_to(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], DATE)))
    assert pilot.states(job) == ["new"]
    assert pilot.states(f"{job}a/") == ["new"]
    pilot.start(job)
    assert pilot.becomes(job, "finished") == ["new", "pending", "running", "finished"]
    assert pilot.states(f"{job}a/") == ["new", "pending", "running", "finished"]
    assert pilot.get(f"{job}a/")["exit_code"] == 0


def test_the_resource_of_a_job_has_all_that_the_schema_names(pilot: Pilot) -> None:
    definition = grid(a=(["b"], DATE), b=([], DATE)) | {"description": "two dates"}
    job = pilot.create(definition)
    found = pilot.get(job)
    assert {*found} == {
        *("created", "modified", "expires", "server_time", "server_policy_uri", "owner", "vo"),
        *("definition", "state", "operation", "tasks", "deleted"),
    }
    assert found["definition"]["description"] == "two dates"
    base = str(pilot.client.base_url).rstrip("/")
    assert found["tasks"] == {name: f"{base}/pilot{job}{name}/" for name in "ab"}
    assert found["operation"] == []
    assert found["deleted"] is False


def test_the_resource_of_a_task_has_what_its_schema_names_and_the_exit_code(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], DATE)))
    named = {"created", "modified", "job", "definition", "state"}
    assert {*pilot.get(f"{job}a/")} == named
    pilot.start(job)
    pilot.becomes(job, "finished")
    assert {*pilot.get(f"{job}a/")} == {*named, "exit_code"}


def test_an_id_of_an_operation_that_is_too_long_is_named(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], DATE)))
    refused = pilot.operate(job, "start", "x" * 37)
    assert refused.status_code == 400
    assert "the id of the operation" in refused.text
    assert pilot.states(job) == ["new"]


def test_an_operation_with_an_id_is_carried_out_once(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], shell("sleep 60"))))
    name = str(uuid.uuid4())
    for _ in range(3):
        assert pilot.operate(job, "start", name).status_code == 200
    pilot.becomes(job, "running")
    (operation,) = pilot.get(job)["operation"]
    assert (operation["op"], operation["id"], operation["success"]) == ("start", name, True)
    assert pilot.operate(job, "abort", name).status_code == 400
    assert pilot.operate(job, "abort").status_code == 200
    assert pilot.becomes(job, "aborted") == ["new", "pending", "running", "aborted"]
    assert pilot.get(job)["state"][-1]["info"]


def test_an_operation_that_is_sent_twice_at_once_is_carried_out_once(pilot: Pilot) -> None:
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            job, name = pilot.create(grid(a=([], DATE))), str(uuid.uuid4())
            sent = [threads.submit(pilot.operate, job, "start", name) for _ in range(4)]
            assert {each.result().status_code for each in sent} == {200}
            assert [each["success"] for each in pilot.get(job)["operation"]] == [True]


def test_an_aborted_job_leaves_tasks_new_that_never_started(pilot: Pilot) -> None:
    job = pilot.create(grid(a=(["b"], shell("sleep 60")), b=([], DATE)))
    pilot.start(job)
    pilot.becomes(f"{job}a/", "running")
    assert pilot.operate(job, "abort").status_code == 200
    pilot.becomes(job, "aborted")
    assert pilot.states(f"{job}a/")[-1] == "aborted"
    assert pilot.states(f"{job}b/") == ["new"]


def test_a_child_is_pending_when_its_parents_have_finished(pilot: Pilot) -> None:
    job = pilot.create(grid(a=(["c"], DATE), b=(["c"], DATE), c=([], DATE)))
    pilot.start(job)
    pilot.becomes(job, "finished")
    parents = [pilot.get(f"{job}{name}/")["state"] for name in "ab"]
    child = pilot.get(f"{job}c/")["state"]
    assert [each["s"] for each in child] == ["new", "pending", "running", "finished"]
    assert child[1]["ts"] == max(each[-1]["ts"] for each in parents)


def test_a_failed_task_aborts_its_job(pilot: Pilot) -> None:
    job = pilot.create(grid(a=(["b"], shell("exit 3")), b=([], DATE)))
    pilot.start(job)
    assert pilot.becomes(job, "aborted")[-1] == "aborted"
    found = pilot.get(f"{job}a/")
    assert (found["state"][-1]["s"], found["exit_code"]) == ("aborted", 3)


def test_a_task_gets_its_definition_later(pilot: Pilot) -> None:
    job = pilot.create(grid(a=(["b"], None), b=([], DATE)))
    assert pilot.get(f"{job}a/")["definition"] is None
    refused = pilot.operate(job, "start")
    assert refused.status_code == 400
    number = job.split("/")[2]
    what = f"task 'a' of job {number} has no definition"
    assert refused.text.strip() == f"{what}; send it with PUT to jobs/{number}/a/, then start the job"
    (failed,) = pilot.get(job)["operation"]
    assert failed["success"] is False
    assert pilot.ask("PUT", f"{job}a/", {"definition": shell("exit 0")}).status_code == 200
    assert pilot.get(f"{job}a/")["definition"]["executable"] == "/bin/sh"
    pilot.start(job)
    pilot.becomes(job, "finished")


def test_only_a_new_job_gets_another_definition(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], DATE), b=([], DATE)))
    assert pilot.ask("PUT", job, {"definition": grid(c=([], DATE))}).status_code == 200
    assert {*pilot.get(job)["tasks"]} == {"c"}
    pilot.start(job)
    pilot.becomes(job, "finished")
    assert pilot.ask("PUT", job, {"definition": grid(d=([], DATE))}).status_code == 400


def test_a_paused_job_goes_on_when_it_is_started(pilot: Pilot, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = pilot.create(grid(a=([], shell(f"until test -e {gate}; do sleep 0.05; done"))))
    assert pilot.operate(job, "pause").status_code == 200
    pilot.start(job)
    pilot.becomes(job, "running")
    refused = pilot.operate(job, "pause")
    assert refused.status_code == 409, "a grid job does not say that it may be suspended"
    pilot.head.ask("modify_job", job=int(job.split("/")[2]), terms={"suspendable": "true"})
    assert pilot.operate(job, "pause").status_code == 200
    assert pilot.becomes(job, "paused")[-2:] == ["running", "paused"]
    assert pilot.states(f"{job}a/") == ["new", "pending", "running", "paused"]
    pilot.start(job)
    assert pilot.becomes(job, "running")[-2:] == ["paused", "running"]
    gate.touch()
    pilot.becomes(job, "finished")
    assert pilot.states(f"{job}a/") == ["new", "pending", "running", "paused", "running", "finished"]


def test_a_queued_job_that_is_paused_waits_until_it_is_started(pilot: Pilot, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    full = shell(f"until test -e {gate}; do sleep 0.05; done") | {"count": 4, "jobtype": "single"}
    first, second = pilot.create(grid(a=([], full))), pilot.create(grid(a=([], full)))
    pilot.start(first)
    pilot.becomes(first, "running")
    pilot.start(second)
    assert pilot.operate(second, "pause").status_code == 200
    assert pilot.states(second)[-2:] == ["pending", "paused"]
    gate.touch()
    pilot.becomes(first, "finished")
    assert pilot.states(second)[-1] == "paused"
    pilot.start(second)
    assert pilot.becomes(second, "finished")[-1] == "finished"


def test_a_deleted_job_is_canceled_and_leaves_the_list(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], shell("sleep 60"))))
    pilot.start(job)
    listed = {each["job_id"] for each in pilot.get("/jobs")}
    assert job.split("/")[2] in listed
    answer = pilot.ask("DELETE", job)
    assert (answer.status_code, answer.json()) == (200, None)
    assert job.split("/")[2] not in {each["job_id"] for each in pilot.get("/jobs")}
    assert pilot.get(job)["deleted"] is True
    pilot.becomes(job, "aborted")


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"version": 1, "tasks": []}, "version"),
        (grid(a=(["b"], DATE), b=(["a"], DATE)), "circle"),
        (grid(a=(["x"], DATE)), "not a task"),
        ({"version": 2, "tasks": [{"id": "a", "filename": "../other.js"}]}, "other.js"),
        ({"version": 2, "tasks": [{"id": "a"}], "colour": "red"}, "colour"),
    ],
    ids=["version", "circle", "child", "filename", "key"],
)
def test_a_wrong_definition_is_refused_with_a_sentence(
    pilot: Pilot, definition: dict[str, Any], text: str
) -> None:
    answer = pilot.ask("POST", "/jobs/", {"definition": definition})
    assert answer.status_code == 400
    assert text in answer.headers["x-pilot-error-message"]


def test_a_body_that_changed_on_its_way_is_refused(pilot: Pilot) -> None:
    answer = pilot.ask("POST", "/jobs/", {"definition": grid(a=([], DATE))}, **{"Content-MD5": "wrong"})
    assert answer.status_code == 400
    assert "Content-MD5" in answer.text


def test_a_match_starts_nothing(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], DATE)))
    found = pilot.get(f"/v2{job}resources")
    assert found["runnable"] is True
    assert [each["task_id"] for each in found["resources"]] == ["a"]
    assert found["resources"][0]["resources"]
    assert pilot.states(job) == ["new"]


def test_the_use_of_ended_jobs_is_reported(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], DATE)))
    pilot.start(job)
    pilot.becomes(job, "finished")
    last = pilot.get("/v2/accounting/last/1")
    assert [(each["job_id"], each["state"]) for each in last] == [(job.split("/")[2], "finished")]
    assert last[0] in pilot.get("/v2/accounting/period/0-9999999999")
    assert pilot.get("/v2/accounting/period/0-1") == []


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/nosuch", 404, "docs/grid-service.md lists the paths"),
        ("PATCH", "/jobs", 405, "docs/grid-service.md lists the paths"),
        ("GET", "/v2/accounting/period/a-2", 404, "seconds since 1970"),
        ("GET", "/v2/accounting/last/x", 404, "write how many jobs"),
        ("GET", "/jobs/x", 404, "write the number of the job"),
    ],
)
def test_a_wrong_address_is_refused_with_a_sentence(
    pilot: Pilot, method: str, path: str, status: int, text: str
) -> None:
    answer = pilot.ask(method, path)
    assert answer.status_code == status
    assert text in answer.text
    assert answer.headers["x-pilot-error-message"] == answer.text


def test_a_stranger_is_told_nothing(pilot: Pilot) -> None:
    for method, path in (("GET", "/jobs"), ("GET", "/jobs/1"), ("POST", "/jobs"), ("PUT", "/jobs/1/a")):
        address = pilot.client.base_url.join(f"/pilot{path}")
        answer = httpx.request(method, address, json={})
        assert answer.status_code == 401
        assert "Bearer" in answer.headers["www-authenticate"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a login for another user")
def test_a_job_of_another_user_is_refused_on_every_path(pilot: Pilot) -> None:
    job = pilot.create(grid(a=([], DATE)))
    token = redeem_login(pilot.head.ask("create_token", user="nobody")["login"]).token
    with httpx.Client(
        base_url=pilot.client.base_url, headers={"Authorization": f"Bearer {token}"}
    ) as stranger:
        other = Pilot(pilot.head, stranger)
        assert other.get("/jobs") == []
        start = {"operation": {"op": "start", "id": "1"}}
        for method, path, body in (
            ("GET", job, None),
            ("PUT", job, start),
            ("PUT", job, {"definition": grid(a=([], DATE))}),
            ("DELETE", job, None),
            ("GET", f"{job}a/", None),
            ("PUT", f"{job}a/", {"definition": DATE}),
            ("GET", f"/v2{job}resources", None),
        ):
            assert other.ask(method, path, body).status_code == 401, path
    assert pilot.get(job)["operation"] == []
    assert pilot.states(job) == ["new"]


@pytest.fixture
def storage(head: RealHead, tmp_path: Path) -> Iterator[FaultyStorage]:
    head.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
    (tmp_path / "storage").mkdir()
    with FaultyStorage(tmp_path / "storage") as serving:
        yield serving


def test_files_go_from_task_to_task_by_the_storage_of_the_job(pilot: Pilot, storage: FaultyStorage) -> None:
    storage.put("words.txt", b"one two three\n")
    count = {"version": 2, "executable": "/usr/bin/wc", "arguments": ["-w", "in"], "stdout": "count.txt"}
    show = {"version": 2, "executable": "/bin/cat", "arguments": ["in"], "output_files": {"in": "last.txt"}}
    job = pilot.create(
        {
            "default_storage_base": f"{storage.url}/",
            **grid(
                a=(["b"], {**count, "input_files": {"in": "words.txt"}}),
                b=([], {**show, "input_files": {"in": "count.txt"}}),
            ),
        }
    )
    pilot.start(job)
    assert pilot.becomes(job, "finished")
    assert (storage.directory / "count.txt").read_bytes() == b"3 in\n"
    assert (storage.directory / "last.txt").read_bytes() == b"3 in\n"


def test_a_file_that_is_not_there_aborts_the_job_and_names_it(pilot: Pilot, storage: FaultyStorage) -> None:
    job = pilot.create(
        {"default_storage_base": f"{storage.url}/", **grid(a=([], {**DATE, "input_files": {"x": "none"}}))}
    )
    pilot.start(job)
    pilot.becomes(job, "aborted")
    last = pilot.get(f"{job}a/")["state"][-1]
    assert last["s"] == "aborted"
    assert "404" in last["info"]


def test_a_job_of_the_service_does_not_reach_services_of_this_network(
    pilot: Pilot, storage: FaultyStorage
) -> None:
    pilot.head.ask("set_parameters", values={"TransferNetworks": ""})
    storage.put("data", b"of the network\n")
    (port,) = re.findall(r"\d+$", storage.url)
    for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433", "[::ffff:127.0.0.1]"):
        for way in ({"input_files": {"x": "data"}}, {"output_files": {"x": "data"}}):
            base = f"http://{host}:{port}/"
            job = pilot.create({"default_storage_base": base, **grid(a=([], {**shell("touch x"), **way}))})
            pilot.start(job)
            pilot.becomes(job, "aborted")
            info = pilot.get(f"{job}a/")["state"][-1]["info"]
            assert "is not a public address, and the administrator does not allow it" in info, (host, info)
    assert storage.asked == []


TOKEN = {"token": "secret-token", "hosts": ["127.0.0.1"]}
OTHER = {"token": "secret-other", "hosts": ["127.0.0.1"]}


def private(storage: FaultyStorage) -> dict[str, Any]:
    """Return a job whose input is brought only to whom has the token of the storage."""
    storage.put("data", b"private\n")
    files = {"in": f"{storage.url}/private/data"}
    return grid(
        a=([], {**shell("cp in out"), "input_files": files, "output_files": {"out": f"{storage.url}/out"}})
    )


@pytest.mark.parametrize("way", ["token", "delegation_id"])
def test_a_job_uses_the_credential_that_it_was_created_with(
    pilot: Pilot, storage: FaultyStorage, way: str
) -> None:
    name = f"store-{uuid.uuid4()}"
    assert pilot.ask("PUT", f"/delegations/{name}", TOKEN).status_code == 201
    given = TOKEN if way == "token" else name
    answer = pilot.ask("POST", "/jobs", {"definition": private(storage), way: given})
    assert answer.status_code == 201, answer.text
    job = f"/jobs/{answer.json()[0]['job_id']}/"
    pilot.start(job)
    pilot.becomes(job, "finished")
    assert (storage.directory / "out").read_bytes() == b"private\n"
    kept = {each["delegation_id"]: each.get("job") for each in pilot.get("/delegations")}
    assert kept[name] is None
    pilot.head.until(lambda: not any("job" in each for each in pilot.get("/delegations")))
    assert pilot.ask("DELETE", f"/delegations/{name}/").status_code == 200
    assert pilot.ask("GET", f"/delegations/{name}/").status_code == 404
    files = [each for each in pilot.head.state.parent.rglob("*") if each.is_file()]
    assert [each for each in files if b"secret-token" in each.read_bytes()] == []


def test_a_credential_is_renewed_while_files_wait_for_it(pilot: Pilot, storage: FaultyStorage) -> None:
    answer = pilot.ask("POST", "/jobs", {"definition": private(storage), "token": OTHER})
    job = f"/jobs/{answer.json()[0]['job_id']}/"
    assert pilot.ask("PUT", job, {"definition": private(storage)}).status_code == 200
    (kept,) = [each for each in pilot.get("/delegations") if "job" in each]
    assert "secret" not in json.dumps(kept)
    assert pilot.ask("PUT", job, {"token": TOKEN}).status_code == 200
    pilot.start(job)
    pilot.becomes(job, "finished")


def test_a_new_job_gets_a_credential_later_and_one_that_runs_does_not(
    pilot: Pilot, storage: FaultyStorage
) -> None:
    job = pilot.create(private(storage))
    assert pilot.ask("PUT", job, {"token": TOKEN}).status_code == 200
    pilot.start(job)
    pilot.becomes(job, "finished")
    other = pilot.create(grid(a=([], shell("sleep 60"))))
    pilot.start(other)
    pilot.becomes(other, "running")
    refused = pilot.ask("PUT", other, {"token": TOKEN})
    assert (refused.status_code, "no proxy or token" in refused.text) == (400, True)
    assert pilot.operate(other, "abort").status_code == 200


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"delegation_id": "nobody-has-it"}, 404, "no delegation"),
        ({"proxy": "-----BEGIN CERTIFICATE-----\nsecret-proxy\n-----END CERTIFICATE-----"}, 400, "in PEM"),
        ({"proxy": 7}, 400, "is not understood"),
        ({"token": {"token": "secret-token"}}, 400, "no hosts"),
        ({"token": TOKEN, "delegation_id": "x"}, 400, "both"),
        ({"token": {**TOKEN, "colour": 1}}, 400, "colour"),
    ],
    ids=["unknown", "no-proxy", "number", "no-hosts", "two", "key"],
)
def test_a_credential_that_cannot_be_used_is_refused_and_not_reported(
    pilot: Pilot, given: dict[str, Any], status: int, words: str
) -> None:
    answer = pilot.ask("POST", "/jobs", {"definition": grid(a=([], DATE)), **given})
    assert (answer.status_code, words in answer.text, "secret" in answer.text) == (status, True, False), (
        answer.text
    )
    pilot.head.until(lambda: not any("job" in each for each in pilot.get("/delegations")))


def test_a_proxy_of_the_job_brings_its_files_by_gridftp(pilot: Pilot) -> None:
    try:
        with gridftp_server() as server:
            (server.directory / "in").write_bytes(b"grid\n")
            files = {"input_files": {"in": f"{server.url}/in"}, "output_files": {"out": f"{server.url}/out"}}
            own = {"environment": {"X509_CERT_DIR": str(server.authorities)}}
            definition = grid(a=([], {**shell("cp in out"), **files, **own}))
            for given, state in (({"proxy": server.proxy.read_text()}, "finished"), ({}, "aborted")):
                answer = pilot.ask("POST", "/jobs", {"definition": definition, **given})
                assert answer.status_code == 201, answer.text
                job = f"/jobs/{answer.json()[0]['job_id']}/"
                pilot.start(job)
                pilot.becomes(job, state)
            assert (server.directory / "out").read_bytes() == b"grid\n"
    except CannotInstall as why:
        pytest.skip(str(why))


def test_no_token_reads_a_secret_back(pilot: Pilot) -> None:
    assert pilot.ask("PUT", "/delegations/mine", TOKEN).status_code == 201
    token = redeem_login(pilot.head.ask("create_token")["login"]).token
    gateway = Connection.to(str(pilot.head.state / "gateway.sock"))
    gateway.send({"verb": "act_for_user", "address": "127.0.0.1", "token": token})
    assert gateway.receive()["ok"] is True
    gateway.send({"verb": "delegated_credential", "name": "mine"})
    assert gateway.receive()["code"] == "not-here"
    gateway.close()
    assert pilot.head.ask("delegated_credential", name="mine")["values"]["token"] == TOKEN["token"]
    assert pilot.ask("DELETE", "/delegations/mine").status_code == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a login for another user")
def test_nobody_sees_or_uses_the_credentials_of_another(pilot: Pilot) -> None:
    assert pilot.ask("PUT", "/delegations/mine", TOKEN).status_code == 201
    token = redeem_login(pilot.head.ask("create_token", user="nobody")["login"]).token
    with httpx.Client(
        base_url=pilot.client.base_url, headers={"Authorization": f"Bearer {token}"}
    ) as stranger:
        other = Pilot(pilot.head, stranger)
        assert other.get("/delegations") == []
        for method, body in (("GET", None), ("DELETE", None)):
            assert other.ask(method, "/delegations/mine", body).status_code == 404
        assert other.ask("PUT", "/delegations/mine/renew", OTHER).status_code == 404
        answer = other.ask("POST", "/jobs", {"definition": grid(a=([], DATE)), "delegation_id": "mine"})
        assert answer.status_code == 404
    assert pilot.ask("PUT", "/delegations/mine/renew", OTHER).status_code == 200
    assert pilot.ask("DELETE", "/delegations/mine").status_code == 200


class GridClient:
    """`hn grid`, for a user who has a token."""

    def __init__(self, address: str, token: str, directory: Path) -> None:
        self._variables = {**os.environ, "HEADNODE_URL": address, "HEADNODE_TOKEN": token}
        self._directory = directory

    def submit(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "headnode.apps.cli", "grid", "submit", *words]
        where = {"env": self._variables, "cwd": self._directory}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **where)  # type: ignore[call-overload]


@pytest.fixture
def hn_grid(pilot: Pilot, tmp_path: Path) -> GridClient:
    token = redeem_login(pilot.head.ask("create_token")["login"]).token
    return GridClient(str(pilot.client.base_url), token, tmp_path)


def test_a_job_in_several_files_is_submitted_with_values_for_its_names(
    pilot: Pilot, hn_grid: GridClient, tmp_path: Path
) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "b.js").write_text(json.dumps(shell("test {who} = you")))
    definition = grid(a=(["b"], shell("test {who} = you")), b=([], None))
    definition["tasks"][1]["filename"] = "tasks/b.js"
    (tmp_path / "job.js").write_text(json.dumps(definition))
    done = hn_grid.submit("job.js", "--set", "who=you", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["uri"] == f"{str(pilot.client.base_url).rstrip('/')}/pilot/jobs/{made['job']}/"
    pilot.becomes(f"/jobs/{made['job']}", "finished")


def test_a_job_that_is_only_created_waits_and_has_the_delegation_that_was_named(
    pilot: Pilot, hn_grid: GridClient, storage: FaultyStorage, tmp_path: Path
) -> None:
    assert pilot.ask("PUT", "/delegations/mine", TOKEN).status_code == 201
    (tmp_path / "job.js").write_text(json.dumps(private(storage)))
    done = hn_grid.submit("job.js", "--no-start", "--delegation", "mine", "--quiet")
    assert done.returncode == 0, done.stderr
    job = f"/jobs/{done.stdout.strip()}/"
    assert pilot.states(job) == ["new"]
    pilot.start(job)
    pilot.becomes(job, "finished")
    assert pilot.ask("DELETE", "/delegations/mine").status_code == 200


@pytest.mark.parametrize("name", ["../other.js", "/etc/hostname", "link.js"])
def test_a_definition_outside_of_the_directory_is_not_sent(
    hn_grid: GridClient, pilot: Pilot, tmp_path: Path, name: str
) -> None:
    (tmp_path.parent / "other.js").write_text(json.dumps(DATE))
    (tmp_path / "link.js").symlink_to("/etc/hostname")
    definition = {"version": 2, "tasks": [{"id": "a", "filename": name}]}
    (tmp_path / "job.js").write_text(json.dumps(definition))
    before = pilot.get("/jobs")
    done = hn_grid.submit("job.js")
    assert done.returncode != 0
    assert "in or below the directory of its job file" in done.stderr
    assert pilot.get("/jobs") == before


def test_a_service_that_leads_elsewhere_or_lies_does_not_get_the_token_twice(
    hn_grid: GridClient, storage: FaultyStorage, tmp_path: Path
) -> None:
    (tmp_path / "job.js").write_text(json.dumps(grid(a=([], DATE))))
    done = hn_grid.submit("job.js", "--service", f"{storage.url}/elsewhere")
    assert (done.returncode, len(storage.asked)) == (2, 1), done.stderr
    done = hn_grid.submit("job.js", "--service", "http://grid.example.org/pilot")
    assert done.returncode == 2
    assert "others on the network could read the token" in done.stderr


SAMPLES = Path(__file__).parents[3] / "shared/samples/grid/jobs"
BASES = re.compile(r"gsiftp://[^/]+/(?:[^/\"]+/)*")


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the public samples are not on this machine")
@pytest.mark.parametrize("name", ["09_simple_fork.js", "10_diamond_inline.js", "12_no_base_no_files.js"])
def test_a_public_job_runs_whole(pilot: Pilot, storage: FaultyStorage, name: str) -> None:
    text = BASES.sub(f"{storage.url}/", (SAMPLES / name).read_text())
    definition = json.loads(text)
    if "tasks" not in definition:
        definition = grid(a=([], definition))
    for item in definition["tasks"]:
        for reference in item["definition"].get("input_files", {}).values():
            storage.put(reference.rsplit("/", 1)[-1], b"input\n")
    job = pilot.create(definition)
    pilot.start(job)
    assert pilot.becomes(job, "finished")
    for task in pilot.get(job)["tasks"]:
        assert pilot.states(f"{job}{task}/") == ["new", "pending", "running", "finished"]


CHANGED = {
    "02_groups_ab_chain.js": (("/tmp/blabla", "{where}/blabla"),),
    "04_diamond_filename.js": (("tb01.ngrid.ru", "{node}"),),
    "06_hostname_requirement.js": (("nnn2.pnpi.nw.ru", "{node}"), ("sleep 7m", "sleep 0")),
}
"""What of a public job does not fit on this machine, and what it is here."""


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the public samples are not on this machine")
@pytest.mark.parametrize("name", CHANGED)
def test_a_public_job_is_submitted_by_its_command_line(
    pilot: Pilot, hn_grid: GridClient, storage: FaultyStorage, tmp_path: Path, name: str
) -> None:
    text = BASES.sub(f"{storage.url}/", (SAMPLES / name).read_text())
    (node,) = pilot.head.ask("nodes")["nodes"]
    for old, new in CHANGED[name]:
        text = text.replace(old, new.format(where=tmp_path, node=node["name"]))
    (tmp_path / "job.js").write_text(text)
    (tmp_path / "task_simple.js").write_text(json.dumps(DATE | {"stdout": "simple.txt"}))
    done = hn_grid.submit("job.js", "--quiet")
    assert done.returncode == 0, done.stderr
    job = f"/jobs/{done.stdout.strip()}/"
    assert pilot.becomes(job, "finished")
    for task in pilot.get(job)["tasks"]:
        assert pilot.states(f"{job}{task}/")[-1] == "finished"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the public samples are not on this machine")
@pytest.mark.usefixtures("storage")
def test_the_public_job_with_directories_and_files_of_the_root_runs_whole(
    pilot: Pilot, hn_grid: GridClient, tmp_path: Path
) -> None:
    text = (SAMPLES / "07_storage_base_override_ouput_typo.js").read_text()
    (tmp_path / "job.js").write_text(text)
    done = hn_grid.submit("job.js")
    assert (done.returncode, "did you mean 'output_files'" in done.stderr) == (2, True), done.stderr
    files = tmp_path / "ftp"
    for name in ("my/files/hello.txt", "other/files/hello.txt", "bar.txt", "my/directory/qux/old"):
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(name)
    with ftp_server(files) as url:
        right = text.replace("ouput_files", "output_files").replace("gsiftp://example.org", url)
        (tmp_path / "job.js").write_text(right)
        done = hn_grid.submit("job.js", "--quiet")
        assert done.returncode == 0, done.stderr
        pilot.becomes(f"/jobs/{done.stdout.strip()}/", "finished")
    assert (files / "my/output/117/test.txt").read_text() == "my/files/hello.txt"
    assert pilot.head.output(int(done.stdout), task=2) == "other/files/hello.txtbar.txt"


def test_jobs_of_a_portal_run_side_by_side_and_their_results_arrive(
    pilot: Pilot, storage: FaultyStorage
) -> None:
    """Each package is a job with one task, with its files, streams and variables, as CLAVIRE makes them."""
    jobs = {}
    for number in range(6):
        storage.put(f"run{number}/input.dat", f"{number}\n".encode() * 3)
        task = shell("tee result.dat < input.dat; echo $SIZE >&2") | {
            "input_files": {"input.dat": "input.dat"},
            "output_files": {"result.dat": "result.dat"},
            "stdout": "stdout.txt",
            "stderr": "stderr.txt",
            "environment": {"size": str(number)},
        }
        jobs[number] = pilot.create(
            {"default_storage_base": f"{storage.url}/files/run{number}/", **grid(package=([], task))}
        )
    listed = {each["job_id"] for each in pilot.get("/jobs/")}
    assert listed >= {job.split("/")[2] for job in jobs.values()}
    for job in jobs.values():
        pilot.start(job)
    for number, job in jobs.items():
        pilot.becomes(job, "finished")
        assert pilot.get(f"{job}package/")["exit_code"] == 0
        found = storage.directory / f"run{number}"
        for name in ("result.dat", "stdout.txt"):
            assert (found / name).read_text() == f"{number}\n" * 3
        assert (found / "stderr.txt").read_text() == f"{number}\n"
        assert pilot.ask("DELETE", job).status_code == 200
