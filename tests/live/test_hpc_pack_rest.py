"""HPC Pack's REST API on a real gateway: what programs written for it do, works."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateways import real_gateway

from headnode.apps.client.tls_connection import redeem_login
from headnode.apps.web.hpc_pack.property_lists import date_text, read_date
from headnode.apps.web.hpc_pack.routes import PATHS
from heads import RealHead, real_head
from testbed.processes import free_address

PAGE = Path(__file__).parents[2] / "docs/contracts/06-hpc-pack-rest.md"
SLEEPS = (
    '<Job MinCores="1" MaxCores="1"><Tasks>'
    '<Task CommandLine="sleep 60" MinCores="1" MaxCores="1" /></Tasks></Job>'
)
STAYS = (
    '<Job Name="stays" MinCores="1" MaxCores="1" RunUntilCanceled="True"><Tasks>'
    '<Task Name="first" CommandLine="echo Hello" MinCores="1" MaxCores="1" /></Tasks></Job>'
)
SHORT = (
    '<Job Name="short"><Tasks>'
    '<Task Name="first" CommandLine="echo $colour %colour%" MinCores="1" MaxCores="1" />'
    '<Task Name="second" CommandLine="echo $colour" MinCores="1" MaxCores="1" /></Tasks></Job>'
)
SWEEP = (
    '<Job Name="sweep" MinCores="1" MaxCores="1"><Tasks><Task Name="s" CommandLine="{}" StartValue="1" '
    'EndValue="3" IncrementValue="1" Type="ParametricSweep" MinCores="1" MaxCores="1" /></Tasks></Job>'
)


class Hpc:
    """A program that knows only HPC Pack's REST API."""

    def __init__(self, head: RealHead, client: httpx.Client) -> None:
        self.head, self.client = head, client

    def get(self, path: str, **query: Any) -> Any:
        answer = self.client.get(f"/hpc{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.client.post(f"/hpc{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def properties(self, path: str, *names: str) -> dict[str, str]:
        query = {"properties": ",".join(names)} if names else {}
        return {each["Name"]: each["Value"] for each in self.get(path, **query)}

    def create(self, xml: str) -> int:
        job: int = self.post("/jobs/jobFile", xml)
        assert isinstance(job, int)
        return job

    def submitted(self, xml: str) -> int:
        job = self.create(xml)
        self.post(f"/jobs/{job}/submit")
        return job

    def becomes(self, path: str, *states: str) -> dict[str, str]:
        self.head.until(lambda: self.properties(path, "State")["State"] in states)
        return self.properties(path)

    def status(self, method: str, path: str, **more: Any) -> int:
        return self.client.request(method, f"/hpc{path}", **more).status_code


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("hpc"), processors=4, listen=free_address()) as running:
        yield running


@pytest.fixture(scope="module")
def hpc(head: RealHead) -> Iterator[Hpc]:
    token = redeem_login(head.ask("create_token")["login"]).token
    user = head.ask("whoami")["user"]
    with (
        real_gateway(head) as gateway,
        httpx.Client(base_url=gateway.address, auth=(user, token), timeout=30) as client,
    ):
        yield Hpc(head, client)


def test_the_cluster_says_what_it_is(hpc: Hpc) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+", hpc.get("/cluster/version"))
    assert hpc.get("/cluster/activeHeadNode")
    assert hpc.get("/cluster/info/dateTimeFormat") == "M/d/yyyy h:mm:ss tt"
    assert hpc.get("/cluster/userRoles") == ["User", "Administrator"]
    assert "Default" in hpc.get("/jobs/templates")
    assert hpc.get("/cluster/operations", limit=5)


def test_who_is_no_user_of_the_cluster_is_asked_to_log_in(hpc: Hpc) -> None:
    for auth in (("root", "wrong"), ("another", hpc.client.auth._auth_header[6:])):
        answer = httpx.get(f"{hpc.client.base_url}/hpc/jobs", auth=auth)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")


def test_nodes_are_listed_both_ways_and_taken_offline(hpc: Hpc) -> None:
    rows = hpc.get("/nodes", **{"$filter": "NodeState eq Online", "rowsPerRead": 2})
    (name,) = [each["Value"] for each in rows[0]["Properties"] if each["Name"] == "Name"]
    assert hpc.properties(f"/nodes/{name}")["Name"] == name
    assert hpc.get(f"/cluster/nodes/{name}")["State"] == "Online"
    assert hpc.status("GET", "/nodes/nosuchnode") == 404
    assert hpc.status("POST", f"/cluster/nodes/{name}/operations/takeOffline") == 202
    assert hpc.get("/cluster/nodes/stats/state") == [{"Name": "Offline", "Value": 1}]
    assert hpc.status("POST", f"/cluster/nodes/{name}/operations/bringOnline") == 202
    assert hpc.get("/cluster/nodes/stats/health") == [{"Name": "OK", "Value": 1}]
    assert [each["Name"] for each in hpc.get("/cluster/nodes", state="Online")] == [name]
    assert hpc.get("/cluster/nodes", state="Offline") == []
    metrics = hpc.get("/cluster/nodes/metrics", metricNames="HPCCoresInUse")
    assert [each["NodeName"] for each in metrics] == [name]
    assert hpc.status("POST", f"/cluster/nodes/{name}/operations/reboot") == 400


def test_groups_have_the_nodes_that_were_put_into_them(hpc: Hpc) -> None:
    (node,) = hpc.get("/nodes/groups/ComputeNodes")
    change = {"Operation": "add", "NodeNames": [node]}
    assert hpc.client.patch("/hpc/cluster/nodeGroups/fast/nodes", json=change).json() == [node]
    assert {each["Name"] for each in hpc.get("/cluster/nodeGroups")} == {"ComputeNodes", "fast"}
    groups = [each["Value"] for row in hpc.get("/nodes/groups") for each in row["Properties"]]
    assert {"ComputeNodes", "fast"} <= set(groups)
    assert hpc.status("DELETE", "/cluster/nodeGroups/fast") == 204
    assert hpc.status("GET", "/cluster/nodeGroups/fast") == 404


def test_a_group_is_made_without_nodes_and_renamed(hpc: Hpc) -> None:
    (node,) = hpc.get("/nodes/groups/ComputeNodes")
    assert hpc.post("/cluster/nodeGroups", {"Name": "new", "Description": "x"})["Name"] == "new"
    assert hpc.get("/cluster/nodeGroups/new/nodes") == []
    for name in ("new", "ComputeNodes", "", "a,b", 7):
        assert hpc.status("POST", "/cluster/nodeGroups", json={"Name": name}) in (400, 409), name
    change = {"Operation": "add", "NodeNames": [node]}
    assert hpc.client.patch("/hpc/cluster/nodeGroups/new/nodes", json=change).json() == [node]
    assert hpc.status("PUT", "/cluster/nodeGroups/new", json={"Name": "newer"}) == 200
    assert hpc.get("/cluster/nodeGroups/newer/nodes") == [node]
    assert hpc.status("GET", "/cluster/nodeGroups/new") == 404
    assert hpc.status("PUT", "/cluster/nodeGroups/ComputeNodes", json={"Name": "all"}) == 409
    assert hpc.status("DELETE", "/cluster/nodeGroups/newer") == 204
    assert {each["Name"] for each in hpc.get("/cluster/nodeGroups")} == {"ComputeNodes"}


def test_changes_that_come_at_once_are_all_kept(hpc: Hpc) -> None:
    names = [f"once{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as at_once:
        list(at_once.map(lambda name: hpc.post("/cluster/nodeGroups", {"Name": name}), names))
    assert {each["Name"] for each in hpc.get("/cluster/nodeGroups")} == {"ComputeNodes", *names}
    for name in names:
        assert hpc.status("DELETE", f"/cluster/nodeGroups/{name}") == 204
    path = f"/jobs/{hpc.create(SHORT)}/tasks/1/envVariables"
    with ThreadPoolExecutor(len(names)) as at_once:
        list(at_once.map(lambda name: hpc.post(path, [{"Name": name, "Value": "x"}]), names))
    assert {each["Name"] for each in hpc.get(path)} >= {*names}


def test_processors_in_use_and_ended_jobs_have_a_history(hpc: Hpc) -> None:
    job = hpc.submitted('<Job MinCores="2" MaxCores="2"><Tasks><Task CommandLine="sleep 1" /></Tasks></Job>')
    hpc.becomes(f"/jobs/{job}", "Finished")
    (metric,) = hpc.get("/cluster/metrics/definitions")
    begin = datetime.fromtimestamp(time.time() - 600, UTC).isoformat()
    span = {"fromTime": begin, "toTime": "2999-01-01T00:00:00Z"}
    (instance,) = hpc.get(f"/cluster/metrics/history/{metric['Name']}", **span)["Instances"]
    assert 10 <= len(instance["Values"]) <= 11
    assert sum(each["Value"] for each in instance["Values"]) > 0
    week = {each["InstanceName"]: each["Values"] for each in hpc.get("/cluster/metrics/jobs")["Instances"]}
    assert week["Number of finished jobs"][-1]["Value"] >= 1
    assert week["Number of finished jobs"][0]["Value"] == 0
    years = {"fromTime": "2000-01-01", "toTime": "2999-01-01"}
    assert len(hpc.get("/cluster/metrics/history/hpccoresinuse", **years)["Instances"][0]["Values"]) <= 1000
    assert hpc.status("GET", "/cluster/metrics/history/other", params=span) == 404
    backwards = {"fromTime": "2999-01-01", "toTime": "2026-01-01"}
    for query in ({}, {"fromTime": "x", "toTime": "y"}, backwards):
        assert hpc.status("GET", f"/cluster/metrics/history/{metric['Name']}", params=query) == 400, query


def test_an_operation_is_found_by_its_id_and_a_subtask_sends_to_its_task(hpc: Hpc) -> None:
    (newest,) = hpc.get("/cluster/operations", limit=1)
    assert hpc.get(f"/cluster/operations/{newest['Id']}") == newest
    assert hpc.get("/cluster/operations/first")["Id"] <= newest["Id"]
    assert hpc.status("GET", "/cluster/operations/nothing") == 404
    job = hpc.create(SWEEP.format("echo *"))
    refused = hpc.client.put(f"/hpc/jobs/{job}/tasks/1/subtasks/1", json=[{"Name": "Name", "Value": "x"}])
    assert (refused.status_code, refused.json()["code"]) == (409, "subtask-properties")
    known = hpc.properties(f"/jobs/{job}/tasks/1/subtasks/1", "Name", "CommandLine", "InstanceId")
    same = [{"name": name.lower(), "value": value} for name, value in known.items()]
    assert hpc.status("PUT", f"/jobs/{job}/tasks/1/subtasks/1", json=same) == 204


def test_jobs_are_listed_by_the_node_group_that_they_ran_on(hpc: Hpc) -> None:
    job = hpc.submitted('<Job><Tasks><Task CommandLine="true" /></Tasks></Job>')
    hpc.becomes(f"/jobs/{job}", "Finished")
    for group, found in (("ComputeNodes", True), ("nowhere", False)):
        rows = hpc.get("/jobs", **{"$filter": f"NodeGroup eq {group}", "rowsPerRead": "1000"})
        ids = [each["Value"] for row in rows for each in row["Properties"] if each["Name"] == "Id"]
        assert (str(job) in ids) is found


def test_a_job_is_made_of_properties_and_of_tasks(hpc: Hpc) -> None:
    job = hpc.post("/jobs", [{"Name": "Name", "Value": "TestJob"}])
    assert hpc.properties(f"/jobs/{job}", "Id", "State") == {"Id": str(job), "State": "Configuring"}
    for command in ("echo Hello", "echo World"):
        fields = [{"Name": "Name", "Value": command[5:]}, {"Name": "CommandLine", "Value": command}]
        assert isinstance(hpc.post(f"/jobs/{job}/tasks", fields), int)
    hpc.post(f"/jobs/{job}/submit")
    hpc.becomes(f"/jobs/{job}", "Finished")
    rows = hpc.get(f"/jobs/{job}/tasks", properties="TaskId,State,ExitCode")
    assert [[each["Value"] for each in row["Properties"]] for row in rows] == [
        [f"{job}.1", "Finished", "0"],
        [f"{job}.2", "Finished", "0"],
    ]


@pytest.mark.parametrize(("operation", "state"), [("cancel", "Canceled"), ("finish", "Finished")])
def test_a_job_is_stopped_with_a_message(hpc: Hpc, operation: str, state: str) -> None:
    job = hpc.submitted(STAYS)
    hpc.becomes(f"/jobs/{job}", "Running")
    hpc.post(f"/jobs/{job}/{operation}", "by a program")
    found = hpc.becomes(f"/jobs/{job}", state)
    assert operation == "finish" or "by a program" in found["ErrorMessage"]


def test_a_canceled_job_is_requeued(hpc: Hpc) -> None:
    job = hpc.submitted(STAYS)
    hpc.becomes(f"/jobs/{job}", "Running")
    hpc.post(f"/jobs/{job}/cancel")
    hpc.becomes(f"/jobs/{job}", "Canceled")
    hpc.post(f"/jobs/{job}/requeue")
    hpc.becomes(f"/jobs/{job}", "Queued", "Running")
    hpc.post(f"/jobs/{job}/finish", "done")
    hpc.becomes(f"/jobs/{job}", "Finished")


def test_lists_go_on_where_the_page_before_ended(hpc: Hpc) -> None:
    begin = datetime.now(UTC).strftime("%m/%d/%Y %H:%M:%S")
    jobs = [hpc.submitted(SHORT) for _ in range(4)]
    user = hpc.head.ask("whoami")["user"]
    query = {"rowsPerRead": 3, "owner": user, "properties": "Id,Owner,ChangeTime"}
    query["$filter"] = f"ChangeTimeFrom eq {begin}"
    found: list[dict[str, str]] = []
    while True:
        answer = hpc.client.get("/hpc/jobs", params=query)
        page = [{each["Name"]: each["Value"] for each in row["Properties"]} for row in answer.json()]
        assert len(page) <= 3
        found += page
        if "x-ms-continuation-queryid" not in answer.headers:
            break
        query["queryId"] = answer.headers["x-ms-continuation-queryid"]
    assert [int(row["Id"]) for row in found][:4] == jobs[::-1]
    assert all(read_date(row["ChangeTime"]) >= read_date(begin) and row["Owner"] == user for row in found)
    rows = hpc.client.get(
        "/hpc/jobs", params={"startRow": 1, "rowsPerRead": 2, "sortJobsBy": "Id", "asc": "true"}
    )
    assert int(rows.headers["x-ms-row-count"]) >= 4
    assert len(rows.json()) == 2
    assert hpc.status("GET", f"/jobs/{jobs[-1] + 1000}") == 404
    for job in jobs:
        hpc.becomes(f"/jobs/{job}", "Finished")


def test_variables_are_in_the_environment_and_custom_properties_are_not(hpc: Hpc) -> None:
    pair = [{"Name": "colour", "Value": "Dark Red"}, {"Name": "other", "Value": "x"}]
    for place, of_task_two in (("", True), ("/tasks/1", False)):
        job = hpc.create(SHORT)
        hpc.post(f"/jobs/{job}{place}/envVariables", pair)
        hpc.post(f"/jobs/{job}/submit")
        hpc.becomes(f"/jobs/{job}", "Finished")
        shown = hpc.get(f"/jobs/{job}{place}/envVariables", names="colour")
        assert shown == [{"Name": "colour", "Value": "Dark Red"}]
        assert "Dark Red" in hpc.properties(f"/jobs/{job}/tasks/1", "Output")["Output"]
        assert ("Dark Red" in hpc.properties(f"/jobs/{job}/tasks/2", "Output")["Output"]) is of_task_two
        assert (hpc.get(f"/jobs/{job}/tasks/2/envVariables") == []) is True
    for place in ("", "/tasks/1"):
        job = hpc.create(SHORT)
        hpc.post(f"/jobs/{job}{place}/customProperties", pair)
        hpc.post(f"/jobs/{job}/submit")
        hpc.becomes(f"/jobs/{job}", "Finished")
        shown = hpc.get(f"/jobs/{job}{place}/customProperties", names="colour")
        assert shown == [{"Name": "colour", "Value": "Dark Red"}]
        assert "Dark Red" not in hpc.properties(f"/jobs/{job}/tasks/1", "Output")["Output"]


def test_properties_are_changed_as_long_as_the_job_lasts(hpc: Hpc) -> None:
    job = hpc.submitted(STAYS)
    hpc.becomes(f"/jobs/{job}", "Running")
    renamed = [{"name": "Name", "value": "Updated Name"}]
    assert hpc.status("PUT", f"/jobs/{job}", json=renamed) == 204
    assert hpc.properties(f"/jobs/{job}", "Name") == {"Name": "Updated Name"}
    hpc.post(f"/jobs/{job}/cancel")
    hpc.becomes(f"/jobs/{job}", "Canceled")
    assert 400 <= hpc.status("PUT", f"/jobs/{job}", json=renamed) < 500
    for xml in (SHORT, SWEEP.format("echo *")):
        job = hpc.create(xml)
        assert hpc.status("PUT", f"/jobs/{job}/tasks/1", json=renamed) == 204
        assert hpc.properties(f"/jobs/{job}/tasks/1", "Name") == {"Name": "Updated Name"}
        hpc.post(f"/jobs/{job}/submit")
        hpc.becomes(f"/jobs/{job}", "Finished")


def test_a_job_that_counts_gpus_is_told_and_changed_as_one_of_sockets_is(hpc: Hpc) -> None:
    job = hpc.create(
        '<Job UnitType="Gpu" MinSockets="1" MaxSockets="2">'
        '<Tasks><Task CommandLine="a" UnitType="Gpu" MinSockets="1" MaxSockets="1" /></Tasks></Job>'
    )
    sizes = ("UnitType", "MinSockets", "MaxSockets")
    assert hpc.properties(f"/jobs/{job}", *sizes) == dict(zip(sizes, ("Gpu", "1", "2"), strict=True))
    larger = [{"name": name, "value": value} for name, value in zip(sizes, ("Gpu", "2", "4"), strict=True)]
    assert hpc.status("PUT", f"/jobs/{job}", json=larger) == 204
    assert hpc.properties(f"/jobs/{job}", *sizes) == dict(zip(sizes, ("Gpu", "2", "4"), strict=True))
    alone = [{"name": "MinSockets", "value": "2"}, {"name": "MaxSockets", "value": "3"}]
    for place in (f"/jobs/{job}", f"/jobs/{job}/tasks/1"):
        assert hpc.status("PUT", place, json=alone) == 204
        assert hpc.properties(place, *sizes) == dict(zip(sizes, ("Gpu", "2", "3"), strict=True))


def test_tasks_are_found_by_their_state_page_by_page(hpc: Hpc) -> None:
    names = ("echo a", "echo b", "echo c", "nosuchprogram")
    tasks = "".join(f'<Task CommandLine="{name}" MinCores="1" MaxCores="1" />' for name in names)
    job = hpc.submitted(f"<Job><Tasks>{tasks}</Tasks></Job>")
    hpc.becomes(f"/jobs/{job}", "Failed")
    first = hpc.client.get(f"/hpc/jobs/{job}/tasks", params={"rowsPerRead": 3})
    assert len(first.json()) == 3
    follow = {"rowsPerRead": 3, "queryId": first.headers["x-ms-continuation-queryid"]}
    last = hpc.client.get(f"/hpc/jobs/{job}/tasks", params=follow)
    assert (len(last.json()), "x-ms-continuation-queryid" in last.headers) == (1, False)
    assert len(hpc.get(f"/jobs/{job}/tasks", **{"$filter": "TaskState eq Failed"})) == 1
    assert hpc.status("GET", f"/jobs/{job}/tasks/5") == 404


@pytest.mark.parametrize("place", ["/tasks/1", "/tasks/1/subtasks/1"])
@pytest.mark.parametrize(("operation", "state"), [("cancel", "Failed"), ("finish", "Finished")])
def test_a_task_is_stopped_with_a_message(hpc: Hpc, place: str, operation: str, state: str) -> None:
    job = hpc.submitted(SWEEP.format("sleep 60") if "sub" in place else SLEEPS)
    hpc.becomes(f"/jobs/{job}{place}", "Running")
    hpc.post(f"/jobs/{job}{place}/{operation}", "by a program")
    assert "by a program" in hpc.becomes(f"/jobs/{job}{place}", state)["ErrorMessage"]
    hpc.status("POST", f"/jobs/{job}/cancel")
    hpc.becomes(f"/jobs/{job}", "Canceled", "Failed", "Finished")


@pytest.mark.parametrize("place", ["/tasks/1", "/tasks/1/subtasks/1"])
def test_a_task_is_requeued(hpc: Hpc, place: str) -> None:
    xml = SWEEP.format("sleep 60") if "sub" in place else SLEEPS
    job = hpc.submitted(xml.replace("<Job", '<Job RunUntilCanceled="True"', 1))
    hpc.becomes(f"/jobs/{job}{place}", "Running")
    hpc.post(f"/jobs/{job}{place}/cancel")
    hpc.becomes(f"/jobs/{job}{place}", "Failed")
    hpc.post(f"/jobs/{job}{place}/requeue")
    hpc.becomes(f"/jobs/{job}{place}", "Queued", "Running")
    hpc.post(f"/jobs/{job}/cancel")
    hpc.becomes(f"/jobs/{job}", "Canceled")


def test_a_sweep_is_listed_by_its_instances_or_as_one(hpc: Hpc) -> None:
    job = hpc.submitted(SWEEP.format("echo *"))
    hpc.becomes(f"/jobs/{job}", "Finished")
    assert len(hpc.get(f"/jobs/{job}/tasks")) == 3
    assert len(hpc.get(f"/jobs/{job}/tasks", expandParametric="false")) == 1


def test_an_administrator_makes_jobs_for_others_and_acts_only_on_theirs(hpc: Hpc) -> None:
    other = {"x-ms-as-user": "daemon"}
    job = hpc.post("/jobs/jobFile", SHORT, **other)
    assert hpc.properties(f"/jobs/{job}", "Owner") == {"Owner": "daemon"}
    own = hpc.create(SHORT)
    assert hpc.status("POST", f"/jobs/{own}/cancel", headers=other) == 403
    for each in (job, own):
        hpc.post(f"/jobs/{each}/cancel")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/jobs", {"Name": "x"}),
        ("POST", "/jobs", [{"Name": "<bad>", "Value": "x"}]),
        ("POST", "/jobs/jobFile", {"xml": 1}),
        ("POST", "/jobs/jobFile", "<Job"),
        ("PUT", "/jobs/1", [{"Name": "Id", "Value": "2"}]),
        ("GET", "/jobs?rowsPerRead=x", None),
        ("GET", "/jobs?$filter=Nothing eq 1", None),
        ("GET", "/jobs?$filter=ChangeTimeFrom eq yesterday", None),
        ("GET", "/jobs/x", None),
    ],
)
def test_wrong_requests_are_refused_as_problems(hpc: Hpc, method: str, path: str, body: Any) -> None:
    answer = hpc.client.request(method, f"/hpc{path}", json=body)
    assert 400 <= answer.status_code < 500, answer.text
    assert json.loads(answer.content)["code"]


@pytest.mark.parametrize("text", ["1/2/2026 3:04:05 PM", "12/31/2026 12:00:00 AM", "11/22/2026 12:30:01 PM"])
def test_a_date_is_written_as_it_was_read(text: str) -> None:
    assert date_text(read_date(text)) == text


def test_every_path_is_there_once_and_the_page_names_its_test() -> None:
    assert len({(method, path) for method, path, _ in PATHS}) == len(PATHS)
    rows = re.findall(r"^\| (`/.*`) \| `(test_\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    found = [path for paths, _ in rows for path in re.findall("`([^`]+)`", paths)]
    assert sorted(found) == sorted({path for _, path, _ in PATHS})
    assert {test for _, test in rows} <= globals().keys()
