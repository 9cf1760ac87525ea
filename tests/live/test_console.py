"""The console of a real gateway beside a real head, without a browser: pages, actions, hostile words."""

import re
from collections.abc import Iterator

import httpx
import pytest
from gateways import RealGateway, real_gateway

from heads import RealHead, real_head

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7*7 }}{% raw %}",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "n" * 200,
]
PAGES = [
    "/",
    "/jobs?state=all",
    "/plan",
    "/nodes",
    "/nodes?view=map",
    "/new",
    "/new?way=form",
    "/new?way=file",
]
PAGES += [
    "/lab",
    "/reservations",
    "/templates",
    "/templates/Default",
    "/templates/new",
    "/settings",
    "/people",
    "/audit",
]
PARTS = ["", "/tasks", "/output", "/source", "/history", "/change"]
FIRST_VIEW = 200_000  # bytes


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(head: RealHead) -> Iterator[RealGateway]:
    with real_gateway(head) as running:
        yield running


@pytest.fixture
def browser(gateway: RealGateway) -> Iterator[httpx.Client]:
    with gateway.browser() as client:
        yield client


def secret_of(page: httpx.Response) -> str:
    """Return the token of the session that the forms of a page have."""
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def press(browser: httpx.Client, path: str, /, **fields: str) -> httpx.Response:
    """Send a form as a page of this session does; return the page after it."""
    fields["csrf"] = secret_of(browser.get("/jobs"))
    return browser.post(path, data=fields, follow_redirects=True)


def test_every_page_answers_and_its_data_is_beside_it(head: RealHead, browser: httpx.Client) -> None:
    job = head.submit("echo hello", terms={"jobname": "hello"})
    head.wait(job)
    for path in [
        *PAGES,
        "/nodes/" + head.ask("nodes")["nodes"][0]["name"],
        *(f"/jobs/{job}{part}" for part in PARTS),
    ]:
        page = browser.get(path)
        assert page.status_code == 200, (path, page.text[-2000:])
        assert len(page.content) < FIRST_VIEW
        name, _, query = path.partition("?")
        data = browser.get(f"{'/index' if name == '/' else name}.json?{query}")
        assert (data.status_code, data.headers["content-type"]) == (200, "application/json"), path
        assert data.json()["title"]


def test_no_page_has_script_or_style_inside_and_every_static_file_is_there(
    head: RealHead, browser: httpx.Client
) -> None:
    job = head.submit("echo hello")
    assets = set()
    for path in [*PAGES, f"/jobs/{job}"]:
        text = browser.get(path).text
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", text), path
        assets |= set(re.findall(r'(?:src|href)="(/static/[^"]+)"', text))
    assert assets
    for path in assets:
        assert browser.get(path).status_code == 200, path


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_and_output_are_text_on_every_page(
    head: RealHead, browser: httpx.Client, word: str
) -> None:
    name = "".join(char for char in word if char.isprintable())
    made = {"jobname": name, "project": name, "hold": "true", "description": word.replace("\x1b", "")}
    held = head.ask("submit_job", tasks=[{"command": f"echo {name[:20]}"}], terms=made)["job"]
    printed = head.submit("printf '%s' \"$WORD\"", env={"WORD": word.replace("'", "")})
    head.wait(printed)
    for path in [*PAGES, *(f"/jobs/{job}{part}" for job in (held, printed) for part in PARTS)]:
        text = browser.get(path).text
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
        assert "\x1b" not in text, path
        assert "\u202e" not in text, path
        assert "49" not in re.findall(r"<h1>.*?</h1>", text, re.DOTALL)[:1], path
    head.ask("cancel_job", job=held)


def test_a_job_is_submitted_changed_held_released_and_canceled_by_forms(
    head: RealHead, browser: httpx.Client
) -> None:
    page = press(browser, "/new", way="", do="submit", command="sleep 1000", numprocessors="99", runtime="1h")
    assert page.status_code == 422
    assert "no eligible node" in page.text or "processors" in page.text
    page = press(browser, "/new", way="", do="submit", command="sleep 1000", numprocessors="2", runtime="1h")
    job = int(page.url.path.rpartition("/")[2])
    assert f"Job {job} is submitted." in page.text
    other = int(press(browser, "/new", way="", do="submit", command="sleep 1").url.path.rpartition("/")[2])
    page = press(browser, f"/jobs/{other}/hold", message="not yet")
    assert "is held" in page.text
    assert [hold["message"] for hold in head.ask("job", job=other)["job"]["holds"]] == ["not yet"]
    press(browser, f"/jobs/{other}/release")
    assert head.ask("job", job=other)["job"]["holds"] == []
    press(browser, f"/jobs/{other}/change", **{"term-runtime": "10m"})
    assert head.ask("job", job=other)["job"]["run_time"] == 600.0
    page = browser.get(f"/jobs/choice?do=cancel&job={job}&job={other}")
    assert "Cancel 2 jobs" in page.text
    press(browser, f"/jobs/{job}/cancel", message="enough")
    press(browser, "/jobs/choice", do="cancel", job=str(other))
    assert head.wait(job)["state"] == head.wait(other)["state"] == "Canceled"
    assert head.ask("job", job=job)["job"]["message"].endswith("enough")


def test_a_file_of_any_language_is_checked_and_then_submitted(head: RealHead, browser: httpx.Client) -> None:
    text = '<Job Name="old" MinCores="1" MaxCores="1"><Tasks><Task CommandLine="echo 7"/></Tasks></Job>'
    before = head.ask("jobs", limit=1)["jobs"][0]["id"]
    page = press(browser, "/new", way="file", do="check", jobfile=text)
    assert page.status_code == 200
    assert "Nothing was submitted." in page.text
    assert head.ask("jobs", limit=1)["jobs"][0]["id"] == before
    page = press(browser, "/new", way="file", do="submit", jobfile=text)
    job = int(page.url.path.rpartition("/")[2])
    assert head.ask("job", job=job)["job"]["name"] == "old"
    wrong = press(browser, "/new", way="file", do="check", jobfile="<Job><Tusks/></Job>")
    assert "<Tusks" not in wrong.text
    for dialect in ("ccs", "hpcpack", "native", "native-json"):
        shown = browser.get(f"/jobs/{job}/source.txt?as={dialect}")
        assert shown.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in shown.headers["content-security-policy"]


def test_the_form_writes_the_file_that_could_have_been_dropped(browser: httpx.Client) -> None:
    fields = {"way": "form", "job-jobname": "swept", "task-1-command": "echo *", "task-1-parametric": "1-3"}
    page = press(browser, "/new", do="show", **{"as": "native"}, **fields)
    assert "echo 1\necho 2\necho 3" in page.text
    shown = re.search(r'aria-label="Job file">(.*?)</pre>', page.text, re.DOTALL)
    assert shown
    assert "swept" in shown[1]
    assert "1-3" in shown[1]


@pytest.mark.parametrize(
    "path", ["/jobs/1/cancel", "/jobs/choice", "/new", "/settings", "/nodes", "/reservations"]
)
def test_a_change_without_the_secret_of_the_session_is_refused(browser: httpx.Client, path: str) -> None:
    assert browser.post(path, data={"do": "submit", "command": "true"}).status_code == 403
    assert browser.post(path, data={"csrf": "guessed", "command": "true"}).status_code == 403
    own = secret_of(browser.get("/jobs"))
    another = {"Sec-Fetch-Site": "cross-site"}
    assert browser.post(path, data={"csrf": own}, headers=another).status_code == 403


def test_a_browser_without_a_session_is_led_to_the_log_in(gateway: RealGateway) -> None:
    with httpx.Client(base_url=gateway.address) as stranger:
        answer = stranger.get("/jobs/7?x=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fjobs%2F7%3Fx%3D1")
        assert stranger.get("/login").status_code == 200
        assert stranger.get("/jobs.json").status_code == 401
        assert stranger.post("/jobs/7/cancel").status_code == 401


def test_a_node_is_drained_with_a_reason_and_resumed(head: RealHead, browser: httpx.Client) -> None:
    node = head.ask("nodes")["nodes"][0]["name"]
    assert press(browser, f"/nodes/{node}/drain").status_code == 400
    page = press(browser, f"/nodes/{node}/drain", reason="new <b>disk</b>")
    assert "new &lt;b&gt;disk&lt;/b&gt;" in page.text
    assert "1 node needs you." in browser.get("/").text
    press(browser, f"/nodes/{node}/resume")
    assert head.ask("node", node=node)["node"]["state"] == "Ready"


def test_parameters_change_together_and_a_wrong_one_is_told_at_its_field(
    head: RealHead, browser: httpx.Client
) -> None:
    page = press(browser, "/settings", **{"param-SchedulingDepth": "50", "param-HeartbeatInterval": "soon"})
    assert page.status_code == 422
    assert 'id="p-HeartbeatInterval" name="param-HeartbeatInterval" value="soon"' in page.text
    values = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert values["SchedulingDepth"] == "100"
    press(browser, "/settings", **{"param-SchedulingDepth": "50"})
    values = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert values["SchedulingDepth"] == "50"


def test_a_sweep_of_a_million_is_a_page_of_a_thousand_cells(head: RealHead, browser: httpx.Client) -> None:
    job = head.ask(
        "submit_job", tasks=[{"command": "true", "parametric": "1-1000000"}], terms={"hold": "true"}
    )["job"]
    page = browser.get(f"/jobs/{job}/tasks?sweep=1")
    assert len(page.content) < FIRST_VIEW
    assert page.text.count('<li><a class="queued"') == 1000
    assert "1,001 to 2,000: 1000 total: 1000 queued" in page.text
    one = browser.get(f"/jobs/{job}/tasks?sweep=1&after=1000&part=1001")
    assert one.text.count('<li><a class="queued"') == 1000
    head.ask("cancel_job", job=job)


def test_the_policy_lab_replays_the_past_and_offers_what_it_compared(
    head: RealHead, browser: httpx.Client
) -> None:
    for job in [head.submit("true", terms={"runtime": "1m", "jobname": f"past-{n}"}) for n in range(5)]:
        head.wait(job)
    page = press(browser, "/lab", policy="conservative", since="1d")
    path = page.url.path
    assert path.startswith("/lab/")
    head.until(lambda: browser.get(f"{path}.json").json()["done"])
    run = browser.get(f"{path}.json").json()
    assert run["problem"] == ""
    assert [row["policy"] for row in run["rows"]] == ["easy", "conservative"]
    assert [each["user"] for each in run["users"]] == [head.ask("whoami")["user"]]
    assert "Set SchedulingPolicy to conservative" in browser.get(path).text
    assert press(browser, "/lab", since="1d").status_code == 400


def test_a_search_finds_jobs_by_id_name_owner_and_project_and_nodes(
    head: RealHead, browser: httpx.Client
) -> None:
    job = head.submit("true", terms={"jobname": "needle", "project": "haystack"})
    node, owner = head.ask("nodes")["nodes"][0]["name"], head.ask("whoami")["user"]
    found = {
        word: browser.get("/search", params={"q": word}).headers["location"]
        for word in (str(job), node, owner, "haystack", "needle", "")
    }
    assert found == {
        str(job): f"/jobs/{job}",
        node: f"/nodes/{node}",
        owner: f"/jobs?state=all&owner={owner}",
        "haystack": "/jobs?state=all&project=haystack",
        "needle": "/jobs?state=all&name=needle",
        "": "/jobs",
    }
