"""The REST API of a real gateway beside a real head."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateways import RealGateway, gateway_fixture, real_gateway

from headnode.core.model.bounds import WEB_UPDATES_OF_USER
from heads import TIMEOUT, RealHead, real_head, shared_head_fixture

ROOT = Path(__file__).parents[2]

head = shared_head_fixture()
gateway = gateway_fixture(scope="module")


def test_an_address_logs_in_once_and_requests_are_those_of_its_user(gateway: RealGateway) -> None:
    address = gateway.control("login")["address"]
    with httpx.Client(base_url=gateway.address) as client:
        assert client.get("/api/v1/whoami").status_code == 401
        assert client.get(address).status_code == 303
        answer = client.get("/api/v1/whoami").json()
        assert answer == gateway.head.ask("whoami")
    with httpx.Client(base_url=gateway.address) as another:
        refused = another.get(address)
        assert (refused.status_code, refused.json()["code"]) == (403, "used-address")
        assert another.get("/api/v1/whoami").status_code == 401


def test_what_is_read_has_an_entity_tag_and_is_not_sent_again(gateway: RealGateway) -> None:
    with gateway.browser() as client:
        first = client.get("/api/v1/parameters")
        again = client.get("/api/v1/parameters", headers={"If-None-Match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


@pytest.fixture(scope="module")
def client(gateway: RealGateway) -> Iterator[httpx.Client]:
    with gateway.browser() as logged_in:
        yield logged_in


TYPES = {".xml": "application/xml", ".toml": "application/toml", ".json": "text/plain"}
LANGUAGES = sorted(path for path in (ROOT / "examples" / "languages").iterdir() if path.suffix in TYPES)


@pytest.mark.parametrize("path", LANGUAGES, ids=lambda path: path.name)
def test_a_job_file_of_every_language_is_submitted_as_it_is(client: httpx.Client, path: Path) -> None:
    headers = {"Content-Type": TYPES[path.suffix]}
    checked = client.post("/api/v1/job-checks?lenient=true", content=path.read_bytes(), headers=headers)
    assert checked.status_code == 200, checked.text
    created = client.post("/api/v1/created-jobs?lenient=true", content=path.read_bytes(), headers=headers)
    assert created.status_code == 201, created.text
    assert isinstance(created.json()["report"], list)
    assert client.get(created.headers["location"]).json()["job"]["id"] == created.json()["job"]


def test_a_job_file_of_windows_is_read_in_its_encoding(client: httpx.Client) -> None:
    job = '<Job Name="Größe"><Tasks><Task CommandLine="true"/></Tasks></Job>'
    text = f'<?xml version="1.0" encoding="utf-16"?>{job}'
    made = client.post(
        "/api/v1/created-jobs", content=text.encode("utf-16"), headers={"Content-Type": "text/xml"}
    )
    assert made.status_code == 201, made.text
    assert client.get(made.headers["location"]).json()["job"]["name"] == "Größe"


def test_options_beside_a_job_file_are_in_the_query(client: httpx.Client) -> None:
    made = client.post(
        "/api/v1/created-jobs?terms.priority=Highest&terms.jobname=mine&dialect=hpcpack",
        content=(ROOT / "examples" / "languages" / "hpcpack.xml").read_bytes(),
        headers={"Content-Type": "application/xml"},
    )
    assert made.status_code == 201, made.text
    job = client.get(made.headers["location"]).json()["job"]
    assert (job["name"], job["priority_name"]) == ("mine", "Highest")


def test_a_repeated_creation_is_carried_out_once(client: httpx.Client) -> None:
    body = {"tasks": [{"command": "true"}]}
    first, again = (
        client.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": "k-1"}) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == {**first.json(), "report": [], "repeated": True}
    other = client.post(
        "/api/v1/jobs", json={"tasks": [{"command": "false"}]}, headers={"Idempotency-Key": "k-1"}
    )
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")


def test_a_change_of_what_has_changed_since_it_was_read_is_refused(client: httpx.Client) -> None:
    place = client.post("/api/v1/created-jobs", json={"tasks": [{"command": "true"}]}).headers["location"]
    read = client.get(place).headers["etag"]
    first = client.patch(place, json={"terms": {"priority": "Highest"}}, headers={"If-Match": read})
    late = client.patch(place, json={"terms": {"priority": "Lowest"}}, headers={"If-Match": read})
    assert (first.status_code, late.status_code, late.json()["code"]) == (200, 412, "changed")
    assert client.get(place).json()["job"]["priority_name"] == "Highest"
    assert (
        client.patch(place, json={"terms": {"priority": "Lowest"}}, headers={"If-Match": "*"}).status_code
        == 200
    )


def changes_at_once(client: httpx.Client, place: str, tag: str, *changes: dict[str, Any]) -> list[int]:
    """Return the statuses of changes that are sent at the same time, each for the thing with this tag."""
    with ThreadPoolExecutor(len(changes)) as pool:
        sent = [
            pool.submit(client.patch, place, json=change, headers={"If-Match": tag}) for change in changes
        ]
        return sorted(each.result().status_code for each in sent)


def test_of_two_changes_at_once_to_what_both_have_read_one_is_refused(client: httpx.Client) -> None:
    for _ in range(10):
        made = client.post("/api/v1/created-jobs", json={"tasks": [{"command": "true"}]})
        place = made.headers["location"]
        tag = client.get(place).headers["etag"]
        wishes = [{"terms": {"priority": word}} for word in ("Highest", "Lowest", "BelowNormal")]
        assert changes_at_once(client, place, tag, *wishes) == [200, 412, 412]


def test_a_change_that_a_filter_delays_is_compared_when_it_is_decided(
    client: httpx.Client, head: RealHead, tmp_path: Path
) -> None:
    """Both have passed the comparison of what was read long before one of them is decided."""
    waits = tmp_path / "filter.sh"
    waits.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/$$.here\nuntil test -e {tmp_path}/go; do sleep 0.05; done\n"
    )
    waits.chmod(0o700)
    job = client.post(
        "/api/v1/jobs", json={"tasks": [{"command": "true"}], "terms": {"holds": "later"}}
    ).json()
    place = f"/api/v1/jobs/{job['job']}"
    head.ask("set_parameters", values={"SubmissionFilterProgram": str(waits)})
    try:
        tag = client.get(place).headers["etag"]
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(
                client.patch, place, json={"terms": {"jobname": "slow"}}, headers={"If-Match": tag}
            )
            head.until(lambda: list(tmp_path.glob("*.here")))
            assert head.ask("hold_job", job=job["job"], name="other")["holds"]
            (tmp_path / "go").touch()
            answer = late.result()
        assert (answer.status_code, answer.json()["code"]) == (412, "changed")
        assert client.get(place).json()["job"]["name"] == ""
    finally:
        head.ask("set_parameters", values={"SubmissionFilterProgram": ""})
        head.ask("cancel_job", job=job["job"])


def test_a_condition_is_about_every_kind_of_thing_that_has_one(client: httpx.Client, head: RealHead) -> None:
    node = head.ask("nodes")["nodes"][0]["name"]
    begin = time.time() + 86_400
    reservation = {"name": "tuesday", "start": begin, "duration": 60.0, "count": 1}
    assert client.post("/api/v1/reservations", json=reservation).status_code == 201
    for place, first, second in (
        (f"/api/v1/nodes/{node}", {"comment": "one"}, {"comment": "two"}),
        ("/api/v1/reservations/tuesday", {"reason": "one"}, {"reason": "two"}),
        ("/api/v1/parameters", {"values": {"TaskCancelGracePeriod": "7"}}, {"values": {"RunTimeLimit": "9"}}),
    ):
        tag = client.get(place).headers["etag"]
        if "parameters" in place:
            second = first | {"values": {"TaskCancelGracePeriod": "8"}}
        assert client.patch(place, json=first, headers={"If-Match": f'"old", {tag}'}).status_code == 200
        refused = client.patch(place, json=second, headers={"If-Match": tag})
        assert (refused.status_code, refused.json()["code"]) == (412, "changed"), place
        assert client.patch(place, json=second, headers={"If-Match": 'W/"none"'}).status_code == 412
        assert client.patch(place, json=second).status_code == 200
    tag = client.get("/api/v1/reservations/tuesday").headers["etag"]
    client.patch("/api/v1/reservations/tuesday", json={"reason": "three"})
    gone = client.delete("/api/v1/reservations/tuesday", headers={"If-Match": tag})
    assert gone.status_code == 412
    assert client.delete("/api/v1/reservations/tuesday", headers={"If-Match": "*"}).status_code == 200
    assert client.delete("/api/v1/reservations/tuesday", headers={"If-Match": "*"}).status_code == 404


@pytest.fixture(scope="module")
def printed(client: httpx.Client) -> str:
    """The address of the output of a task that has written the digits 0 to 9 a hundred thousand times."""
    command = 'python3 -c \'print("0123456789" * 100000, end="")\''
    job = client.post("/api/v1/jobs", json={"tasks": [{"command": command}]}).json()["job"]
    with client.stream("GET", f"/api/v1/job-updates?job={job}") as lines:
        found = [json.loads(line) for line in lines.iter_lines()]
    assert found[-1]["done"]
    assert found[-1]["jobs"][0]["state"] == "Finished"
    return f"/api/v1/jobs/{job}/tasks/1/output/captured"


WHOLE = b"0123456789" * 100_000


@pytest.mark.parametrize(
    ("asked", "expected", "text"),
    [
        ("bytes=0-4", WHOLE[:5], "bytes 0-4/1000000"),
        ("bytes=999995-", WHOLE[-5:], "bytes 999995-999999/1000000"),
        ("bytes=-3", WHOLE[-3:], "bytes 999997-999999/1000000"),
        ("bytes=300000-999999999", WHOLE[300_000:], "bytes 300000-999999/1000000"),
    ],
)
def test_output_is_sent_in_ranges(
    client: httpx.Client, printed: str, asked: str, expected: bytes, text: str
) -> None:
    answer = client.get(printed, headers={"Range": asked})
    assert (answer.status_code, answer.headers["content-range"], answer.content) == (206, text, expected)


@pytest.mark.parametrize("asked", [None, "bytes=5-2", "lines=1-2", "bytes=0-1,5-6"])
def test_output_is_sent_whole_without_one_range(
    client: httpx.Client, printed: str, asked: str | None
) -> None:
    answer = client.get(printed, headers={"Range": asked} if asked else {})
    assert (answer.status_code, answer.content) == (200, WHOLE)
    assert answer.headers["content-type"].startswith("text/plain")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["content-disposition"].startswith("attachment")


def test_a_range_behind_the_end_of_the_output_is_refused(client: httpx.Client, printed: str) -> None:
    answer = client.get(printed, headers={"Range": "bytes=1000000-"})
    assert (answer.status_code, answer.json()["code"]) == (416, "bad-range")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/jobs/999999", 404, "no-such-job"),
        ("GET", "/api/v1/jobs/seven", 400, "field"),
        ("GET", "/api/v1/jobs?limits=5", 400, "field"),
        ("GET", "/api/v1/jobs?limit=many", 400, "field"),
        ("GET", "/api/v1/jobs?limit=-1", 400, "field"),
        ("GET", "/api/v1/jobs?limit=0", 400, "field"),
        ("GET", "/api/v1/jobs?limit=1001", 400, "field"),
        ("GET", "/api/v1/jobs?limit=1&limit=2", 400, "field"),
        ("GET", "/api/v1/queue?limit=1.5", 400, "field"),
        ("GET", "/api/v1/events?limit=0", 400, "field"),
        ("POST", "/api/v1/jobs", 400, "nothing-to-submit"),
        ("POST", "/api/v1/job-checks", 400, "nothing-to-submit"),
        ("GET", "/api/v1/nothing", 404, "no-path"),
        ("DELETE", "/api/v1/jobs", 405, "no-method"),
        ("GET", "/api/v1/jobs/99999999999999999999", 400, "request"),
    ],
)
def test_a_wrong_request_is_a_problem_that_says_what_to_do(
    client: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    answer = client.request(method, path)
    reply = answer.json()
    assert (answer.status_code, reply["status"], reply["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert reply["what"]


@pytest.mark.parametrize("body", [{}, {"terms": {"jobname": "x"}}, {"tasks": [], "jobfile": None}])
def test_a_job_without_a_task_is_not_submitted(client: httpx.Client, body: dict[str, Any]) -> None:
    before = client.get("/api/v1/jobs?limit=1").json()["jobs"]
    answer = client.post("/api/v1/jobs", json=body)
    reply = answer.json()
    assert (answer.status_code, reply["code"], reply["path"]) == (400, "nothing-to-submit", ["tasks"])
    many = client.post("/api/v1/job-submissions", json={"submissions": [body]}).json()
    assert many["submissions"][0]["refused"]["code"] == "nothing-to-submit"
    assert client.get("/api/v1/jobs?limit=1").json()["jobs"] == before


def test_a_job_without_a_task_may_wait_for_tasks(client: httpx.Client) -> None:
    assert client.post("/api/v1/created-jobs").status_code == 201
    endless = client.post(
        "/api/v1/jobs", json={"terms": {"rununtilcanceled": "true", "numprocessors": "1-1"}}
    )
    assert endless.status_code == 201
    client.post(f"/api/v1/jobs/{endless.json()['job']}/cancel", json={})


def test_the_refusal_of_a_token_says_how_to_get_one_for_the_rest_api(client: httpx.Client) -> None:
    answer = client.get("/api/v1/jobs", headers={"Authorization": "Bearer x"}, auth=None)
    reply = answer.json()
    assert (answer.status_code, reply["code"]) == (401, "token")
    assert reply["fix"] == (
        "get another on the head node: hn token new --web; then send it: Authorization: Bearer TOKEN"
    )


def test_the_refusal_of_a_limit_says_what_is_possible(client: httpx.Client) -> None:
    answer = client.get("/api/v1/jobs?limit=5000").json()
    assert answer["what"] == "limit is '5000', and must be from 1 to 1,000 jobs"
    assert answer["fix"].startswith("write a whole number from 1 to 1000; for the next page, send `more`")
    assert answer["path"] == ["limit"]


def test_a_body_of_a_strange_type_is_refused(client: httpx.Client) -> None:
    answer = client.post("/api/v1/jobs", content=b"x", headers={"Content-Type": "image/png"})
    assert (answer.status_code, answer.json()["code"]) == (415, "no-media-type")


def test_fields_in_two_places_are_refused(client: httpx.Client) -> None:
    for body in ({"job": 1}, {"verb": "stop_head"}, {"idempotency": "x"}):
        answer = client.post("/api/v1/jobs/999999/cancel", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "field"), body


def test_a_list_goes_on_with_its_cursor(client: httpx.Client) -> None:
    for _ in range(3):
        client.post("/api/v1/created-jobs", json={"tasks": [{"command": "true"}]})
    first = client.get("/api/v1/jobs?limit=2&states=Configuring").json()
    second = client.get(f"/api/v1/jobs?limit=2&states=Configuring&before={first['more']}").json()
    ids = [job["id"] for job in first["jobs"] + second["jobs"]]
    assert len(ids) >= 3
    assert ids == sorted(set(ids), reverse=True)


def test_a_gateway_without_its_head_says_that_it_is_away(tmp_path: Path) -> None:
    with real_head(tmp_path) as head, real_gateway(head) as gateway, gateway.browser() as client:
        assert client.get("/health/ready").status_code == 200
        head.kill()
        answer = client.get("/api/v1/jobs")
        assert (answer.status_code, answer.json()["class"]) == (503, "busy")
        assert "retry-after" in answer.headers
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health/live").status_code == 200
        head.start_again()
        assert client.get("/api/v1/jobs").status_code == 200


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("event-updates?types=no-such-event", "event-type"),
        ("job-updates?job=18446744073709551616", "request"),
        ("job-updates?job=987654", "no-such-job"),
    ],
)
def test_long_answers_are_refused_as_short_ones_are(client: httpx.Client, asked: str, code: str) -> None:
    refused = client.get(f"/api/v1/{asked}")
    assert refused.status_code in (400, 404), refused.text
    assert refused.json()["code"] == code


@pytest.mark.parametrize("commands", [False, True], ids=["updates of a job", "commands on nodes"])
def test_clients_that_leave_a_long_answer_free_its_place_and_leave_no_error_in_the_log(
    gateway: RealGateway, client: httpx.Client, *, commands: bool
) -> None:
    held = client.post("/api/v1/jobs", json={"terms": {"holds": "user"}, "tasks": [{"command": "true"}]})
    job, came, most = held.json()["job"], 0, 3 if commands else WEB_UPDATES_OF_USER.most
    asked = ("GET", f"/api/v1/job-updates?job={job}", None)
    if commands:
        asked = ("POST", "/api/v1/node-commands", {"command": "sleep 987"})
    deadline = time.monotonic() + TIMEOUT
    while came < 2 * most:
        assert time.monotonic() < deadline, gateway.log()
        with client.stream(asked[0], asked[1], json=asked[2]) as updates:
            if updates.status_code == 200:  # else the places of clients that have left are not free yet
                assert next(updates.iter_lines())
                came += 1
    while sleepers := [name for name in Path("/proc").glob("[0-9]*/cmdline") if _says(name, b"sleep\x00987")]:
        assert time.monotonic() < deadline, sleepers
        time.sleep(0.05)
    assert client.post(f"/api/v1/jobs/{job}/cancel", json={}).status_code == 200
    assert "Traceback" not in gateway.log()


def _says(file: Path, words: bytes) -> bool:
    try:
        return words in file.read_bytes()
    except OSError:  # it has ended
        return False


def test_a_template_and_a_group_with_a_slash_in_their_names_have_addresses(client: httpx.Client) -> None:
    name, address = "A/<b>?&#", "A%2F%3Cb%3E%3F%26%23"
    rules = 'description = "one"\n[priority]\nallowed = ["Normal"]\n'
    made = client.post("/api/v1/templates", json={"text": f'name = "{name}"\n{rules}'})
    assert made.status_code in (200, 201), made.text
    assert client.get(f"/api/v1/templates/{address}").json()["template"]["name"] == name
    listed = client.get("/templates").text
    link = re.search(r'href="(/templates/A[^"]+)"', listed)
    assert link
    assert client.get(link[1]).status_code == client.get(f"{link[1]}.json").status_code == 200
    terms = {"jobgroup": name, "holds": "user"}
    job = client.post("/api/v1/jobs", json={"terms": terms, "tasks": [{"command": "true"}]}).json()["job"]
    assert client.get(f"/api/v1/groups/{address}").json()["open"] == [job]
    assert client.post(f"/api/v1/groups/{address}/cancel", json={}).status_code == 200
    assert client.delete(f"/api/v1/templates/{address}").status_code == 200
