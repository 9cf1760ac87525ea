"""The console of a real gateway beside a real head, without a browser: pages, actions, hostile words."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import httpx
import pytest
from gateways import RealGateway, gateway_fixture
from lxml.html import fromstring

from heads import RealHead, shared_head_fixture

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
    "/heads",
    "/people",
    "/audit",
    "/run",
    "/recurring",
    "/recurring?of=all",
]
PARTS = ["", "/tasks", "/output", "/source", "/history", "/change", "/tasks/1/change", "/shell"]
FIRST_VIEW = 200_000  # bytes

head = shared_head_fixture()
gateway = gateway_fixture(scope="module")


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


def test_the_page_of_a_job_has_its_signal(head: RealHead, browser: httpx.Client) -> None:
    job = head.submit("true", terms={"runtime": "10m", "signal": "USR1@120"})
    assert "USR1, 120 s before the limit, to all processes" in browser.get(f"/jobs/{job}").text


def test_the_page_of_a_job_has_what_it_requested_and_used(head: RealHead, browser: httpx.Client) -> None:
    job = head.submit("true", numprocessors="2", terms={"runtime": "60"})
    head.wait(job)
    page = browser.get(f"/jobs/{job}").text
    facts = page.partition("<h3>Requested and used</h3>")[2].partition("</dl>")[0]
    assert re.search(r"<dt>Time</dt><dd>[^<]+ of 1 h<", facts), page
    assert re.search(r"<dt>Processor time</dt><dd>[^<]+ of [^<]+<", facts), page
    assert "Next time:" not in page  # it was too short


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
    flow = head.ask(
        "submit_job",
        tasks=[{"command": "true", "name": f"{name[:50]}"}, {"command": "true", "depend": f"{name[:50]}"}],
        terms={"hold": "true"},
    )["job"]
    printed = head.submit("printf '%s' \"$WORD\"", env={"WORD": word.replace("'", "")})
    head.wait(printed)
    paths = [*PAGES, *(f"/jobs/{job}{part}" for job in (held, printed, flow) for part in PARTS)]
    for path in [*paths, "/plan?rows=project", "/plan?rows=owner", f"/jobs/choice?do=cancel&job={held}"]:
        text = browser.get(path).text
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
        assert "\x1b" not in text, path
        assert "\u202e" not in text, path
        assert "49" not in re.findall(r"<h1>.*?</h1>", text, re.DOTALL)[:1], path
    head.ask("cancel_job", job=held)


def number_of(page: httpx.Response) -> int:
    """Return the number of the job that a page is about."""
    return int(page.url.path.rpartition("/")[2])


@pytest.mark.parametrize("do", ["submit", "create"])
@pytest.mark.parametrize("way", ["", "form", "file"])
def test_a_form_for_a_new_job_that_is_sent_twice_makes_one_job(
    head: RealHead, browser: httpx.Client, way: str, do: str
) -> None:
    filled = {
        "": {"command": "sleep 0.1"},
        "form": {"task-1-command": "sleep 0.1"},
        "file": {"jobfile": "#!/bin/sh\n#SBATCH --ntasks=1\nsleep 0.1\n"},
    }[way]
    once = field_of(browser.get(f"/new?way={way}").text, "once")
    form = {"way": way, "do": do, "once": once, **filled}
    first = press(browser, "/new", **form)
    assert "sent again" not in first.text
    second = press(browser, "/new", **form)
    assert number_of(first) == number_of(second)
    assert "The form was sent again and made no second job" in second.text
    with ThreadPoolExecutor(4) as clicks:
        again = form | {"once": field_of(browser.get("/new").text, "once")}
        pages = list(clicks.map(lambda _: press(browser, "/new", **again), range(4)))
    assert {number_of(page) for page in pages} == {number_of(first) + 1}
    for job in (number_of(first), number_of(first) + 1) if do == "create" else ():
        head.ask("cancel_job", job=job)


def test_a_form_for_a_new_job_makes_another_when_its_contents_were_changed(browser: httpx.Client) -> None:
    once = field_of(browser.get("/new").text, "once")
    wrong = press(browser, "/new", way="", do="submit", once=once, command="true", numprocessors="x")
    assert wrong.status_code == 422
    assert field_of(wrong.text, "once") == once
    first = press(browser, "/new", way="", do="submit", once=once, command="true")
    other = press(browser, "/new", way="", do="submit", once=once, command="true", jobname="other")
    assert number_of(first) != number_of(other)
    assert "sent again" not in other.text


def field_of(page: str, name: str) -> str:
    """Return the value of a hidden field of a page."""
    (value,) = re.findall(f'<input type="hidden" name="{name}" value="([^"]+)">', page)
    return str(value)


def test_a_job_is_submitted_changed_held_released_and_canceled_by_forms(
    head: RealHead, browser: httpx.Client
) -> None:
    page = press(browser, "/new", way="", do="submit", command="sleep 1000", numprocessors="99", runtime="1h")
    assert page.status_code == 422
    assert "no eligible node" in page.text or "processors" in page.text
    page = press(browser, "/new", way="", do="submit", command="x", numgpus="2", corespergpu="4")
    assert page.status_code == 422
    assert "needs 2 GPUs" in page.text
    page = press(browser, "/new", way="", do="submit", command="sleep 1000", numprocessors="2", runtime="1h")
    job = int(page.url.path.rpartition("/")[2])
    assert f"Job {job} is submitted." in page.text
    assert head.ask("job", job=job)["job"]["spec"]["tasks"][0]["minimum"] == 2
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
    before = max((job["id"] for job in head.ask("jobs", limit=1)["jobs"]), default=0)
    page = press(browser, "/new", way="file", do="check", jobfile=text)
    assert page.status_code == 200
    assert "Nothing was submitted." in page.text
    assert head.ask("jobs", limit=1)["jobs"][0]["id"] == before
    page = press(browser, "/new", way="file", do="submit", jobfile=text)
    job = int(page.url.path.rpartition("/")[2])
    assert head.ask("job", job=job)["job"]["name"] == "old"
    odd = press(
        browser, "/new", way="file", do="check", jobfile=text.replace("<Job ", "<Job\n Colour='red' ")
    )
    assert "&lt;Job" in odd.text
    assert "Colour" in odd.text
    wrong = press(browser, "/new", way="file", do="check", jobfile="<Job><Tusks/></Job>")
    assert "<Tusks" not in wrong.text
    for dialect in ("ccs", "hpcpack", "native", "native-json"):
        shown = browser.get(f"/jobs/{job}/source.txt?as={dialect}")
        assert shown.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in shown.headers["content-security-policy"]


def test_the_file_of_a_job_is_shown_with_each_finding_at_its_line(
    head: RealHead, browser: httpx.Client
) -> None:
    text = '<Job Name="read" Colour="red">\n<Tasks><Task CommandLine="true"/></Tasks></Job>'
    job = head.ask("submit_job", jobfile=text)["job"]
    page = browser.get(f"/jobs/{job}/source")
    assert re.search(r"Colour=&#34;red&#34;&gt;\n<span class=\"note not-supported\">", page.text)
    assert "as submitted" in page.text
    assert browser.get(f"/jobs/{job}/source.txt?as=submitted").text == text
    plain = browser.get(f"/jobs/{head.submit('true')}/source")
    assert ">as submitted<" not in plain.text
    assert "it was submitted without one" in plain.text
    assert "command = &#34;true&#34;" in plain.text


def test_the_form_orders_tasks_draws_their_flow_and_is_saved(head: RealHead, browser: httpx.Client) -> None:
    fields = {"way": "form", "as": "native", "task-1-command": "echo b", "task-1-name": "b"}
    fields |= {"task-1-depend": "a", "task-2-command": "echo a", "task-2-name": "a"}
    fields |= {"task-2-env": "COLOUR=red;blue\nSIZE=1", "task-2-failjobonfailure": "true"}
    page = press(browser, "/new", do="up-2", **fields)
    assert re.search(r'name="task-1-name" value="a"', page.text)
    assert re.search(r'name="task-2-depend" value="a"', page.text)
    checked = press(browser, "/new", do="check", **fields)
    assert 'aria-label="b: queued, after a"' in unescape(checked.text)
    saved = press(browser, "/new", do="save", **fields)
    assert 'filename="job.toml"' in saved.headers["content-disposition"]
    job = head.ask("submit_job", jobfile=saved.text)["job"]
    tasks = head.ask("job", job=job)["job"]["spec"]["tasks"]
    assert [task["name"] for task in tasks] == ["b", "a"]
    assert tasks[1]["environment"] == {"COLOUR": "red;blue", "SIZE": "1"}
    assert tasks[1]["fail_job_on_failure"] is True
    wrong = press(browser, "/new", do="save", **{**fields, "as": "nothing"})
    assert (wrong.status_code, "no job language" in wrong.text) == (422, True)


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


def test_a_wrong_address_is_a_page_to_browsers_and_a_problem_to_programs(browser: httpx.Client) -> None:
    page = browser.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert page.status_code == 404
    assert "There is nothing at this address." in page.text
    assert "<nav" in page.text
    for path in ("/nowhere", "/api/v1/nowhere", "/hpc/nowhere"):
        answer = browser.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "no-path"), path


def test_a_browser_without_a_session_is_led_to_the_log_in(gateway: RealGateway) -> None:
    with httpx.Client(base_url=gateway.address) as stranger:
        answer = stranger.get("/jobs/7?x=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fjobs%2F7%3Fx%3D1")
        assert stranger.get("/login").status_code == 200
        assert stranger.get("/jobs.json").status_code == 401
        assert stranger.post("/jobs/7/cancel").status_code == 401


def test_the_news_of_a_page_tell_that_something_changed_and_nothing_else(
    head: RealHead, gateway: RealGateway, browser: httpx.Client
) -> None:
    with httpx.Client(base_url=gateway.address) as stranger:
        assert stranger.get("/news").status_code == 401
    assert browser.get("/news?job=all").status_code == 400
    with browser.stream("GET", "/news") as news:
        lines = news.iter_lines()
        assert [next(lines) for _ in range(2)] == ["retry: 2000", ": headnode"]
        job = head.submit("true", terms={"jobname": "secret-name", "hold": "true"})
        assert next(line for line in lines if line.startswith("data")) == "data: changed"
    head.ask("cancel_job", job=job)


def test_a_node_is_drained_with_a_reason_and_resumed(head: RealHead, browser: httpx.Client) -> None:
    node = head.ask("nodes")["nodes"][0]["name"]
    assert press(browser, f"/nodes/{node}/drain").status_code == 400
    page = press(browser, f"/nodes/{node}/drain", reason="new <b>disk</b>")
    assert "new &lt;b&gt;disk&lt;/b&gt;" in page.text
    assert "1 node needs you." in browser.get("/").text
    press(browser, f"/nodes/{node}/resume")
    assert head.ask("node", node=node)["node"]["state"] == "Ready"


def test_an_administrator_gives_and_takes_roles(head: RealHead, browser: httpx.Client) -> None:
    press(browser, "/people/roles", name="daemon", role="operator")
    press(browser, "/people/roles", name="@games", role="administrator")
    page = press(browser, "/people/roles", name="daemon", role="administrator")
    assert "daemon is administrator now." in page.text
    values = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert (values["Administrators"], values["Operators"]) == ("@games,daemon", "")
    for name in ("daemon", "@games"):
        page = press(browser, "/people/roles", name=name, role="")
    assert "No user has a role." in page.text
    assert press(browser, "/people/roles", name="a,b", role="operator").status_code == 400


def test_parameters_change_together_and_a_wrong_one_is_reported_at_its_field(
    head: RealHead, browser: httpx.Client
) -> None:
    page = press(
        browser, "/settings", known="1", **{"param-SchedulingDepth": "50", "param-HeartbeatInterval": "soon"}
    )
    assert page.status_code == 422
    assert 'id="p-HeartbeatInterval" name="param-HeartbeatInterval" value="soon"' in page.text
    values = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert values["SchedulingDepth"] == "100"
    asked = press(browser, "/settings", **{"param-SchedulingDepth": "50"})
    assert "Nothing is changed yet." in asked.text
    assert "/lab?param-SchedulingDepth=50" in asked.text
    values = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert values["SchedulingDepth"] == "100"
    press(browser, "/settings", known="1", **{"param-SchedulingDepth": "50"})
    values = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert values["SchedulingDepth"] == "50"
    head.ask("set_parameters", values={"SchedulingDepth": None})


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
    assert [row["variant"] for row in run["rows"]] == ["easy", "conservative"]
    assert [each["user"] for each in run["users"]] == [head.ask("whoami")["user"]]
    shown = browser.get(path).text
    assert "Set SchedulingPolicy to conservative" in shown
    assert [each["name"] for each in run["charts"]] == ["waiting", "used", "waits"]
    assert "Processors in use over time" in shown
    asked = press(browser, "/settings", **{"param-SchedulingPolicy": "conservative"})
    assert "In this past the mean wait of" in asked.text  # the lab's answer, before the change
    assert head.ask("cluster")["cluster"]["policy"] == "easy"
    changed = press(
        browser, "/lab", since="1d", **{"param-PreemptionType": "Graceful", "param-SchedulingMode": "Queued"}
    )
    head.until(lambda: browser.get(f"{changed.url.path}.json").json()["done"])
    run = browser.get(f"{changed.url.path}.json").json()
    assert run["problem"] == ""
    assert [row["variant"] for row in run["rows"]] == ["easy", "easy+PreemptionType=Graceful"]
    assert run["offers"][0]["values"] == {"PreemptionType": "Graceful"}
    wrong = press(browser, "/lab", since="1d", **{"param-RebalancingInterval": "soon"})
    head.until(lambda: browser.get(f"{wrong.url.path}.json").json()["done"])
    assert "RebalancingInterval" in browser.get(f"{wrong.url.path}.json").json()["problem"]
    assert press(browser, "/lab", since="1d").status_code == 400


def test_a_flow_is_drawn_and_its_tasks_are_added_changed_canceled_and_requeued(
    head: RealHead, browser: httpx.Client
) -> None:
    job = head.ask(
        "submit_job",
        tasks=[{"command": "exit 3", "name": "get"}, {"command": "true", "name": "use", "depend": "get"}],
        terms={"jobname": "flow", "rununtilcanceled": "true", "numprocessors": "1-2", "priority": "Highest"},
    )["job"]
    head.wait_for(job, "Failed")
    page = browser.get(f"/jobs/{job}/tasks").text
    assert 'aria-label="get: failed"' in page
    assert 'aria-label="use: ' in page
    press(browser, f"/jobs/{job}/tasks", command="sleep 1000", name="more", numprocessors="1")
    head.wait_for(job, "Running")
    press(browser, f"/jobs/{job}/tasks/3", do="cancel")
    head.until(lambda: head.task(job, 3)["message"].startswith("canceled by"))  # it ran: it has failed
    again = press(browser, f"/jobs/{job}/tasks/1", do="requeue")
    assert f"Task {job}.1: requeue is requested." in again.text
    head.ask("cancel_job", job=job)
    head.wait(job)
    held = head.ask("submit_job", tasks=[{"command": "true"}], terms={"hold": "true", "project": "kept"})[
        "job"
    ]
    made = head.ask("create_job", tasks=[{"command": "true"}])["job"]
    assert f"/jobs/{made}/tasks/1/change" in browser.get(f"/jobs/{made}/tasks").text
    assert 'name="term-runtime"' in browser.get(f"/jobs/{made}/tasks/1/change").text
    press(browser, f"/jobs/{made}/tasks/1/change", only="filled", **{"term-runtime": "5m", "term-name": ""})
    assert head.task(made)["spec"]["run_time"] == 300.0
    head.ask("cancel_job", job=made)
    press(browser, f"/jobs/{held}/change", only="filled", **{"term-runtime": "1h", "term-project": ""})
    answer = head.ask("job", job=held)["job"]
    assert (answer["run_time"], answer["project"]) == (3600.0, "kept")  # an empty field changes nothing
    head.ask("cancel_job", job=held)


def test_a_job_that_failed_says_what_to_change_and_a_press_submits_it_so(
    head: RealHead, browser: httpx.Client
) -> None:
    job = head.submit("echo begun; sleep 100", terms={"runtime": "1s", "priority": "Highest"})
    head.wait(job)
    page = browser.get(f"/jobs/{job}").text
    assert "The run time limit was too short." in page
    term = re.search(r'name="term-runtime" value="([^"]+)"', page)
    assert term
    after = press(browser, f"/jobs/{job}/change", again="1", **{"term-runtime": term[1]})
    copy = int(after.url.path.rpartition("/")[2])
    answer = head.ask("job", job=copy)["job"]
    assert copy != job
    assert answer["run_time"] > 1.0
    head.ask("cancel_job", job=copy)


def test_submitting_again_twice_makes_one_copy(head: RealHead, browser: httpx.Client) -> None:
    job = head.submit("sleep 100", terms={"runtime": "10m", "hold": "true"})
    filled = {"again": "what-this-form-has", "term-runtime": "20m"}
    first = press(browser, f"/jobs/{job}/change", **filled)
    newest = head.ask("jobs", limit=1)["jobs"][0]["id"]
    assert first.url.path == press(browser, f"/jobs/{job}/change", **filled).url.path == f"/jobs/{newest}"
    assert head.ask("jobs", limit=1)["jobs"][0]["id"] == newest
    other = press(browser, f"/jobs/{job}/change", **{**filled, "again": "what-another-form-has"})
    assert other.url.path not in (first.url.path, f"/jobs/{job}/change")
    for each in (newest, newest + 1):
        head.ask("cancel_job", job=each)


def test_what_cannot_be_submitted_again_leaves_no_new_job(head: RealHead, browser: httpx.Client) -> None:
    job = head.submit("sleep 100", terms={"runtime": "10m", "hold": "true"})
    refused = press(browser, f"/jobs/{job}/change", again="x", **{"term-runtime": "never"})
    assert refused.status_code == 400
    assert head.ask("jobs", states=["Configuring"], limit=10)["jobs"] == []
    assert head.ask("job", job=job)["job"]["state"] == "Queued"
    head.ask("cancel_job", job=job)


def test_settings_change_what_was_changed_in_this_form_only(head: RealHead, browser: httpx.Client) -> None:
    page = browser.get("/settings").text
    fields = re.findall(r'name="((?:param|was)-[A-Za-z]+)" value="([^"]*)"', page)
    form = {name: unescape(value) for name, value in fields}
    head.ask("set_parameters", values={"HeartbeatInterval": "7"})  # in another tab
    form["param-SchedulingDepth"] = "50"
    press(browser, "/settings", **form, known="1")
    now = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert (now["SchedulingDepth"], now["HeartbeatInterval"]) == ("50", "7")
    again = press(browser, "/settings", **{**form, "param-SchedulingDepth": "many"}, known="1")
    assert 'name="param-HeartbeatInterval" value="7s"' in again.text
    assert 'name="param-SchedulingDepth" value="many"' in again.text
    head.ask("set_parameters", values={"SchedulingDepth": None, "HeartbeatInterval": None})


def test_pages_show_the_shares_and_the_score_of_a_waiting_job(browser: httpx.Client, head: RealHead) -> None:
    values = {"PriorityWeights": "fair-share=1000,age=10", "ProjectShares": "chem:3"}
    head.ask("set_parameters", values=values)
    jobs = []
    try:
        for _ in range(2):
            terms = {"projectname": "chem", "numprocessors": "2", "runtime": "600"}
            jobs.append(head.ask("submit_job", tasks=[{"command": "sleep 600"}], terms=terms)["job"])
        for page in ("/settings", "/people"):
            section = fromstring(browser.get(page).text).get_element_by_id("shares")  # type: ignore[attr-defined]
            shown = " ".join(" ".join(section.itertext()).split())
            assert re.search(r"chem \(all\) 3 \d+\.\d % \d+\.\d \d+\.\d % [01]\.\d{3}", shown), shown
        assert re.search(r"Its score is \d+\.\d = fair share \d+\.\d", browser.get(f"/jobs/{jobs[1]}").text)
    finally:
        head.ask("set_parameters", values=dict.fromkeys(values))
        for job in jobs:
            head.ask("cancel_job", job=job)


def test_the_settings_show_limits_with_their_use_and_name_the_one_that_is_wrong(
    head: RealHead, browser: httpx.Client
) -> None:
    good = {
        "UserLimits": "*:jobs=1000",
        "ProjectLimits": "chem:processors=7",
        "GroupLimits": "students:processors=64",
    }
    try:
        press(browser, "/settings", **{f"param-{name}": value for name, value in good.items()})
        page = browser.get("/settings?find=ProjectLimits").text
        table = page.partition("Limits in use")[2]
        assert re.search(r"<td>chem</td>.*>project<.*>processors<.*>7<.*>0<.*>7<.*>chem<", table)
        assert re.search(r"<td>students</td>.*>group<.*>processors<.*>64<.*>0<.*>64<.*>students<", table)
        assert "chem" in browser.get("/people").text.partition("Limits in use")[2]
        assert 'id="p-ProjectLimits"' in page.partition("<h2>Limits of users, projects and groups</h2>")[2]
        wrong = press(browser, "/settings", **{"param-ProjectLimits": "chem:cores=7"})
        at_field = wrong.text.partition('id="p-ProjectLimits"')[2].partition("</li>")[0]
        assert "cores=7" in at_field
    finally:
        press(browser, "/settings", **{f"param-{name}": "" for name in good})
    assert "No limits of users, projects and groups are set." in browser.get("/settings").text


def test_the_heads_say_what_a_lost_machine_costs_and_what_to_type(browser: httpx.Client) -> None:
    page = browser.get("/heads").text
    assert "If the machine of the head is lost, all changes since the last backup are lost." in page
    assert "<code>hn standby invite</code>" in page
    assert "hn standby takeover" not in page  # there is none
    assert browser.get("/heads.json").json()["standbys"] == []


def test_roles_that_are_given_at_once_are_all_kept(head: RealHead, browser: httpx.Client) -> None:
    names = [f"person{number}" for number in range(8)]

    def give(name: str) -> httpx.Response:
        return press(browser, "/people/roles", name=name, role="operator")

    with ThreadPoolExecutor(len(names)) as at_once:
        list(at_once.map(give, names))
    now = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert {*names} <= {*now["Operators"].split(",")}
    head.ask("set_parameters", values={"Operators": None})


def test_output_is_searched_whole_and_shown_in_parts(head: RealHead, browser: httpx.Client) -> None:
    lines = 100_000  # 1.3 MB
    job = head.submit(f"seq -f 'line %08.0f' {lines}; printf 'the NEEDLE is last'")
    head.wait(job)
    whole = browser.get(f"/jobs/{job}/output.json").json()["output"]
    assert whole["size"] == 14 * lines + 18
    assert sum(len(piece["text"]) for piece in whole["pieces"]) <= 256 * 1024
    found = browser.get(f"/jobs/{job}/output.json?find=needle").json()["found"]
    assert [line["text"] for line in found["lines"]] == ["the NEEDLE is last"]
    some = browser.get(f"/jobs/{job}/output.json?find=00001").json()["found"]
    assert (len(some["lines"]), some["lines"][0]["text"]) == (200, "line 00000001")
    on = browser.get(some["following"].replace("/output?", "/output.json?")).json()["found"]
    assert on["lines"][0]["at"] > some["lines"][-1]["at"]
    part = browser.get(f"/jobs/{job}/output.json?at={14 * 5000}").json()
    assert part["output"]["pieces"][0]["text"].startswith("line 00005001\n")
    assert part["earlier"] == f"/jobs/{job}/output?at=0"
    following = browser.get(part["later"].replace("/output?", "/output.json?")).json()["output"]
    assert following["begin"] == part["output"]["next"]
    page = browser.get(f"/jobs/{job}/output").text
    address = re.search(r'href="(/api/v1/[^"]+)" download', page)
    assert address
    piece = browser.get(address[1], headers={"Range": "bytes=-18"})
    assert (piece.status_code, piece.text) == (206, "the NEEDLE is last")
    news = browser.get(f"/jobs/{job}/tasks/1/output.part?from={14 * lines}").json()
    assert (news["html"], news["over"]) == ("the NEEDLE is last", True)
    far = browser.get(f"/jobs/{job}/tasks/1/output.part?from=0").json()
    assert far["from"] == 14 * lines + 18 - 256 * 1024  # the page is too far behind: it begins near the end
    assert browser.get(f"/jobs/{job}/tasks/1/output.part?from=99999999").json()["from"] < 14 * lines


def test_a_command_runs_on_nodes_and_the_page_shows_its_ends_and_its_output(
    head: RealHead, browser: httpx.Client
) -> None:
    node = head.ask("nodes")["nodes"][0]["name"]
    chosen = press(browser, "/nodes", do="run", node=node)
    assert f'value="{node}"' in chosen.text
    page = press(browser, "/run", command="printf '<b>\\033[31mred'; exit 3", nodes=node, timeout="20")
    assert page.status_code == 200
    assert "exit 3" in page.text
    assert '&lt;b&gt;<span class="a31">red</span>' in page.text
    large = press(browser, "/run", command="head -c 3000000 /dev/zero | tr '\\0' x", nodes=node, timeout="20")
    assert "Long output is cut" in large.text
    assert len(large.content) < 100_000
    late = press(browser, "/run", command="sleep 100", nodes=node, timeout="1")
    assert "exit 0" not in late.text
    for wrong in (
        {"command": "true"},
        {"nodes": node},
        {"command": "true", "nodes": "nobody", "timeout": "5"},
    ):
        assert press(browser, "/run", **{"timeout": "20", **wrong}).status_code == 422


def test_jobs_are_sorted_over_all_pages_and_columns_are_those_of_the_address(
    head: RealHead, browser: httpx.Client
) -> None:
    group = head.ask(
        "submit_job", tasks=[{"command": "true"}], terms={"hold": "true", "jobname": "z-sorted"}
    )["job"]
    for number in range(130):
        head.ask(
            "submit_job",
            tasks=[{"command": "true"}],
            terms={"hold": "true", "jobname": f"sorted-{number:03}", "project": "order"},
        )
    first = browser.get("/jobs.json?name=sorted&sort=name").json()
    assert [row["name"] for row in first["rows"]] == [f"sorted-{number:03}" for number in range(100)]
    second = browser.get(first["next"].replace("/jobs?", "/jobs.json?")).json()
    assert [row["name"] for row in second["rows"][29:]] == ["sorted-129", "z-sorted"]
    assert second["next"] is None
    assert browser.get("/jobs.json?name=sorted&sort=-name").json()["rows"][0]["id"] == group
    page = browser.get("/jobs?name=sorted&col=priority&col=ended&col=nonsense").text
    assert re.findall(r'<th scope="col"[^>]*>(?:<a[^>]*>)?([A-Z]\w+)', page) == ["Job", "Priority", "Ended"]
    chosen = browser.get("/jobs/choice?do=cancel&all=1&project=order&state=queued&col=priority").text
    assert "Cancel 130 jobs" in chosen
    jobs = re.findall(r'name="job" value="(\d+)"', chosen)
    back = re.search(r'name="back" value="([^"]+)"', chosen)
    assert back
    done = browser.post(
        "/jobs/choice",
        data={
            "csrf": secret_of(browser.get("/jobs")),
            "do": "cancel",
            "job": jobs,
            "back": unescape(back[1]),
        },
    )
    assert done.headers["location"] == "/jobs?project=order&state=queued&col=priority"
    away = press(browser, "/jobs/choice", do="cancel", job=str(group), back="//evil.example/?a=1")
    assert (away.url.host, away.url.path) == ("127.0.0.1", "/jobs")


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


def test_a_task_that_has_not_run_has_no_output_to_download_and_says_so(
    head: RealHead, browser: httpx.Client
) -> None:
    job = head.submit("true", terms={"holds": "data"})
    page = browser.get(f"/jobs/{job}/output").text
    assert f"Task {job}.1 has not run: it is queued" in page
    assert " download" not in page
    head.ask("cancel_job", job=job)
