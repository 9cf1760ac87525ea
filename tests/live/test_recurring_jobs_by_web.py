"""Recurring jobs by the REST API and the SDK."""

from collections.abc import Iterator

import httpx
import pytest
from gateways import RealGateway, gateway_fixture

from headnode.protocol.requests import CreateJobRequest
from headnode.sdk import BadRequest, HeadnodeClient
from heads import shared_head_fixture

head = shared_head_fixture()
gateway = gateway_fixture(scope="module")


@pytest.fixture(scope="module")
def client(gateway: RealGateway) -> Iterator[httpx.Client]:
    with gateway.browser() as logged_in:
        yield logged_in


def test_the_rest_api_has_the_life_of_a_recurring_job(client: httpx.Client) -> None:
    asked = {"schedule": "0 4 * * *", "zone": "Europe/Berlin", "name": "web", "tasks": [{"command": "true"}]}
    made = client.post("/api/v1/recurring-jobs", json=asked)
    assert (made.status_code, made.json()["recurring_job"]["zone"]) == (201, "Europe/Berlin")
    path = f"/api/v1/recurring-jobs/{made.json()['recurring_job']['number']}"
    assert client.post("/api/v1/recurring-jobs", json=asked).status_code == 409
    changed = client.patch(path, json={"schedule": "@daily", "end": 4e9})
    assert changed.json()["recurring_job"]["end"] == 4e9
    assert client.patch(path, json={"end": 0}).json()["recurring_job"]["end"] is None
    assert client.post(f"{path}/suspend").json()["recurring_job"]["state"] == "Suspended"
    assert client.post(f"{path}/resume").json()["recurring_job"]["state"] == "Active"
    job = client.post(f"{path}/run").json()["job"]
    assert client.get(path).json()["recurring_job"]["last"][0]["job"] == job
    assert client.delete(path).status_code == 200
    assert client.get(path).status_code == 404


def test_a_table_is_text_in_the_rest_api(client: httpx.Client) -> None:
    table = "@daily true\n"
    done = client.put("/api/v1/recurring-table", content=table, headers={"Content-Type": "text/plain"})
    assert [one["name"] for one in done.json()["recurring_jobs"]] == ["true"]
    assert client.get("/api/v1/recurring-table").json()["text"] == table
    wrong = client.put("/api/v1/recurring-table", content="61\n", headers={"Content-Type": "text/plain"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "crontab")
    assert client.put("/api/v1/recurring-table", json={"text": ""}).json()["recurring_jobs"] == []


def test_the_sdk_has_methods_for_recurring_jobs(gateway: RealGateway) -> None:
    with HeadnodeClient(url=gateway.address, token=gateway.token()) as client:
        verbs = client.verbs
        made = verbs.create_recurring_job("@every 2h", name="sdk", tasks=[{"command": "true"}]).recurring_job
        assert made.next[1] - made.next[0] == 7200
        assert [one.name for one in verbs.recurring_jobs().recurring_jobs] == ["sdk"]
        with pytest.raises(BadRequest, match="more often"):
            verbs.modify_recurring_job("sdk", schedule="@every 1s")
        other = CreateJobRequest(tasks=[{"command": "echo other"}])
        assert verbs.modify_recurring_job("sdk", job=other).recurring_job.command == "echo other"
        with pytest.raises(BadRequest, match="beside another job"):
            verbs.modify_recurring_job("sdk", job=other, terms={"runtime": "1h"})
        someone = CreateJobRequest(tasks=[{"command": "true"}], terms={"user": "nobody"})
        with pytest.raises(BadRequest, match="cannot be that of 'nobody'"):
            verbs.modify_recurring_job("sdk", job=someone)
        assert verbs.remove_recurring_job("sdk").removed == made.number
