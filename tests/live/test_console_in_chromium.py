"""The console in Chromium: by mouse, by keyboard, without JavaScript, at three widths, light and dark."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import WIDTHS, axe_source, chromium, tab_to, troubles_of_pages, window
from gateways import RealGateway, gateway_fixture, real_gateway

from heads import RealHead, real_head, shared_head_fixture

pytestmark = pytest.mark.timeout(300)  # seconds: a browser that hangs must not stop the others

HOSTILE = "<img src=x onerror=alert(1)> \"'& {{7*7}} " + "n" * 180
PAGES = [
    "/",
    "/jobs?state=all",
    "/plan",
    "/nodes",
    "/nodes?view=map&metric=used&metric=jobs",
    "/new",
    "/new?way=form",
]
PAGES += [
    "/new?way=file",
    "/lab",
    "/reservations",
    "/templates",
    "/templates/Default",
    "/settings",
    "/heads",
    "/people",
    "/audit",
    "/run",
    "/recurring?of=all",
    "/plan?rows=class&by=state",
    "/jobs?state=all&sort=name&col=start&col=priority",
]
JOB_FILE = (
    '<Job Name="dropped" MinCores="1" MaxCores="1"><Tasks><Task CommandLine="sleep 600"/></Tasks></Job>'
)

head = shared_head_fixture(nodes=2)
gateway = gateway_fixture(scope="module")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def addresses(head: RealHead) -> list[str]:
    """Pages of the cluster, of a running, a waiting and a failed job, and of a node; names are hostile."""
    repeated = {"schedule": "0 4 * * *", "zone": "Europe/Berlin", "name": HOSTILE[:60].replace("/", "")}
    made = head.ask("create_recurring_job", tasks=[{"command": f"echo '{'n' * 180}'"}], **repeated)
    recurring = made["recurring_job"]["number"]
    head.wait(head.ask("run_recurring_job", recurring=str(recurring))["job"])
    failed = head.submit("printf '\\033[31moh no\\033[0m <b>'; exit 3", terms={"jobname": "failing"})
    head.wait(failed)
    sweep = head.submit("echo *", parametric="1-9")
    head.wait(sweep)
    running = head.submit(
        "sleep 600", terms={"jobname": HOSTILE[:200], "project": HOSTILE[:200], "numprocessors": "3"}
    )
    head.wait_for(running, "Running")
    waiting = head.submit("sleep 600", terms={"jobname": "waits", "numprocessors": "4", "runtime": "1h"})
    head.ask(
        "create_reservation",
        name="course",
        count=1,
        start=4e9,
        end=4e9 + 3600,
        users=["root"],
        ignore_running=True,
    )
    node = head.ask("nodes")["nodes"][0]["name"]
    read = head.ask("submit_job", jobfile=JOB_FILE.replace("<Job ", '<Job Colour="red" '))["job"]
    parts = ("", "/tasks", "/output", "/source", "/history", "/change", "/shell", "/tasks/1/change")
    return [
        *PAGES,
        f"/nodes/{node}",
        f"/jobs/{failed}",
        f"/jobs/{waiting}",
        f"/jobs/{sweep}/tasks?sweep=1",
        *(f"/jobs/{running}{part}" for part in parts),
        f"/jobs/{read}/source",
        f"/recurring/{recurring}",
        "/nowhere",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_on_no_page_axe_finds_anything_or_is_anything_cut_off_or_the_frame_printed_or_unwanted_motion(
    browser: Any, gateway: RealGateway, addresses: list[str], width: int
) -> None:
    with window(browser, gateway, width, bypass_csp=True) as page:
        assert troubles_of_pages(page, gateway, addresses, width) == {}


def test_a_file_is_dropped_checked_submitted_watched_and_canceled(
    head: RealHead, gateway: RealGateway, browser: Any
) -> None:
    with window(browser, gateway) as page:
        page.get_by_role("link", name="New job", exact=True).first.click()
        page.get_by_role("link", name="File", exact=True).click()
        page.wait_for_url("**/new?way=file")
        page.get_by_label("Job file").wait_for()
        page.evaluate(
            "text => { const data = new DataTransfer(); data.items.add(new File([text], 'job.xml'));"
            " document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true})) }",
            JOB_FILE,
        )
        expect = pytest.importorskip("playwright.sync_api").expect
        expect(page.get_by_label("Job file")).to_have_value(JOB_FILE)
        page.get_by_role("button", name="Check").click()
        page.get_by_text("Nothing was submitted.").wait_for()
        page.get_by_role("button", name="Submit", exact=True).click()
        page.wait_for_url("**/jobs/*")
        page.get_by_role("heading", name="dropped").wait_for()
        job = int(page.url.rpartition("/")[2])
        assert head.ask("job", job=job)["job"]["state"] in ("Queued", "Running")
        head.ask("set_progress", job=job, percent=42)
        page.get_by_text("Progress 42 %").wait_for()  # the page asks for news by itself
        page.locator("summary", has_text="Cancel").click()
        page.get_by_role("button", name=f"Cancel job {job}").click()
        page.get_by_text(f"Job {job} is being canceled.").wait_for()
    assert head.wait(job)["state"] == "Canceled"


def test_a_page_that_loses_its_stream_says_so_and_goes_on_by_itself(
    head: RealHead, gateway: RealGateway, browser: Any
) -> None:
    job = head.submit("sleep 300", terms={"jobname": "watched"})
    with window(browser, gateway, tolerated="ERR_INTERNET_DISCONNECTED") as page:
        page.goto(f"{gateway.address}/jobs/{job}")
        page.get_by_role("heading", name="watched").wait_for()
        page.wait_for_function("() => stream !== null && stream.readyState === 1")
        page.context.set_offline(True)
        page.evaluate("hang(); lose(); again()")  # an open connection survives the emulation
        page.get_by_text("The gateway does not answer.").wait_for()
        head.ask("set_progress", job=job, percent=17)
        page.context.set_offline(False)
        page.get_by_text("Progress 17 %").wait_for()
        page.locator("#lost").wait_for(state="hidden")  # the stream may come after the news
    head.ask("cancel_job", job=job)


def test_news_change_a_page_in_place_and_keep_what_the_reader_has_chosen(
    head: RealHead, gateway: RealGateway, browser: Any
) -> None:
    first, second = (
        head.ask("submit_job", tasks=[{"command": "true"}], terms={"hold": "true"})["job"] for _ in "ab"
    )
    with window(browser, gateway) as page:
        page.goto(gateway.address + "/jobs")
        page.get_by_label(f"Select job {first}").check()
        row = page.locator(f"#job-{second}")
        page.evaluate("row => { window.before = row }", row.element_handle())
        page.get_by_label(f"Select job {first}").focus()
        third = head.ask("submit_job", tasks=[{"command": "true"}], terms={"hold": "true"})["job"]
        page.locator(f"#job-{third}").wait_for()
        assert page.get_by_label(f"Select job {first}").is_checked()
        assert page.evaluate("document.activeElement.value") == str(first)
        assert page.evaluate("row => row === window.before", row.element_handle())  # not made anew
    for job in (first, second, third):
        head.ask("cancel_job", job=job)


def test_output_is_followed_as_it_grows_and_only_what_is_new_is_fetched(
    head: RealHead, gateway: RealGateway, browser: Any, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    command = (
        f"printf 'begun \\033[31mred '; until test -e {gate}; do sleep 0.1; done; printf 'still <red>\\n'"
    )
    job = head.submit(command, terms={"priority": "Highest"})
    head.wait_for(job, "Running")
    with window(browser, gateway) as page:
        fetched: list[str] = []
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(f"{gateway.address}/jobs/{job}/output")
        box = page.get_by_role("log")
        box.get_by_text("red").wait_for()
        gate.touch()
        news = box.locator("span.a31", has_text="still <red>")  # the colour goes on
        news.wait_for()
        assert any("from=15" in url for url in fetched), fetched
    head.wait(job)


def test_the_plan_zooms_by_drag_wheel_and_keyboard_and_back_goes_back(
    gateway: RealGateway, browser: Any, addresses: list[str]
) -> None:
    assert addresses  # jobs are there
    with window(browser, gateway) as page:
        page.goto(gateway.address + "/plan")

        def span() -> float:
            return float(page.evaluate("(() => { const { begin, end } = drawn(); return end - begin })()"))

        def until_span(low: float, high: float) -> None:
            page.wait_for_function(
                "([low, high]) => { if (typeof drawn !== 'function') return false;"  # a new page is loading
                " const { begin, end } = drawn(); return low < end - begin && end - begin < high }",
                arg=[low, high],
            )

        box = page.locator("#plan .chart").bounding_box()
        assert (round(span()), box is not None) == (6 * 3600, True)
        y = box["y"] + box["height"] - 26
        page.mouse.move(box["x"] + box["width"] * 0.4, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=4)
        page.mouse.up()
        until_span(4000, 6000)
        assert "from=" in page.url
        zoomed = span()
        page.keyboard.down("Control")
        page.mouse.wheel(0, 120)
        page.keyboard.up("Control")
        until_span(zoomed * 1.2, zoomed * 1.3)
        page.locator("#plan").focus()
        page.keyboard.press("-")
        until_span(zoomed * 2.4, zoomed * 2.6)
        page.go_back()
        until_span(zoomed * 1.2, zoomed * 1.3)
        page.locator("#plan").focus()
        page.keyboard.press("0")
        until_span(6 * 3600 - 1, 6 * 3600 + 1)


def test_the_names_of_the_rows_of_the_plan_stay_in_sight_on_a_telephone(
    gateway: RealGateway, browser: Any, addresses: list[str]
) -> None:
    with window(browser, gateway, WIDTHS[0]) as page:
        page.goto(gateway.address + "/plan")
        for left in (0, 150, 300):
            page.evaluate("left => { document.getElementById('plan').scrollLeft = left; }", left)
            page.wait_for_function(
                "() => Math.abs(document.querySelector('#plan .labels text').getBoundingClientRect().left"
                " - document.getElementById('plan').getBoundingClientRect().left) < 2"
            )


def test_a_cluster_has_its_own_colour(browser: Any, tmp_path: Path) -> None:
    with (
        real_head(tmp_path) as head,
        real_gateway(head, "--colour", "red") as red,
        window(browser, red) as page,
    ):
        mark = "getComputedStyle(document.querySelector('.cluster'), '::before').backgroundColor"
        assert page.evaluate(mark) == "rgb(195, 38, 43)"


def test_a_shell_of_a_job_is_a_terminal_and_shows_hostile_output_as_text(
    head: RealHead, gateway: RealGateway, browser: Any
) -> None:
    job = head.submit("sleep 300", terms={"priority": "Highest"})
    head.wait_for(job, "Running")
    with window(browser, gateway, 900) as page:
        page.goto(f"{gateway.address}/jobs/{job}/shell")
        page.get_by_text(re.compile("^On ")).wait_for()
        rows = page.locator(".xterm-rows > div")

        def type_line(text: str) -> None:
            page.keyboard.type(text)
            page.keyboard.press("Enter")

        type_line("echo job=$CCP_JOBID on $TERM")
        rows.get_by_text(f"job={job} on xterm-256color").wait_for(timeout=120_000)  # the profile runs first
        type_line("printf '\\033[31mred\\033[0m <b>bold</b> \\342\\200\\256flip\\n'")
        rows.get_by_text("<b>bold</b> \ufffdflip").wait_for()
        type_line("clear; printf '\\033[5;7Hplace\\033[9;1H'")  # a program that fills the screen
        page.wait_for_function(
            "() => document.querySelectorAll('.xterm-rows > div')[4].textContent.startsWith('      place')"
        )
        type_line("stty size")
        shown = rows.filter(has_text=re.compile(r"^\d+ \d+"))
        shown.first.wait_for()
        before = shown.first.text_content()
        page.set_viewport_size({"width": 560, "height": 700})
        type_line("clear; stty size")
        page.wait_for_function(
            "before => [...document.querySelectorAll('.xterm-rows > div')].some(row =>"
            " /^\\d+ \\d+/.test(row.textContent) && row.textContent !== before)",
            arg=before,
        )
        type_line("sleep 200")
        page.get_by_role("button", name="Ctrl-C").click()
        page.keyboard.press("Control+Shift+L")
        assert page.evaluate("document.activeElement.id") == "leave"
        page.locator(".xterm-helper-textarea").focus()
        type_line("exit 7")
        page.get_by_text("The shell has ended with exit code 7").wait_for()
        assert not page.get_by_role("button", name="Ctrl-C").is_visible()
    head.ask("cancel_job", job=job)


def test_a_token_is_made_on_the_page_and_shown_once(gateway: RealGateway, browser: Any) -> None:
    with window(browser, gateway, 360, bypass_csp=True) as page:
        page.goto(gateway.address + "/people")
        page.get_by_label("Name").fill("plots")
        page.get_by_label("It may do").select_option("only read")
        page.get_by_role("button", name="Create token").click()
        shown = page.get_by_role("region", name="Token")
        token = shown.text_content()
        page.wait_for_load_state("load")
        assert page.evaluate("stream") is None  # no news: the page is not fetched again over the token
        page.evaluate(axe_source())
        assert page.evaluate("() => axe.run().then(found => found.violations.map(one => one.id))") == []
        page.get_by_role("link", name="Done").click()
        page.wait_for_url("**/people")
        assert token not in page.content()
        row = page.locator("tr", has_text="plots")
        row.get_by_role("button", name="Revoke").click()
        page.get_by_text("is revoked").wait_for()
    answer = httpx.get(f"{gateway.address}/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401


def test_a_file_is_chosen_and_its_findings_are_shown(gateway: RealGateway, browser: Any) -> None:
    with window(browser, gateway, 360) as page:
        page.goto(gateway.address + "/new?way=file")
        page.get_by_label("Or choose a file").set_input_files(
            {"name": "job.xml", "mimeType": "text/xml", "buffer": JOB_FILE.encode()}
        )
        page.get_by_role("button", name="Check").click()
        page.get_by_text("Nothing was submitted.").wait_for()
        assert "dropped" in page.get_by_label("Job file").input_value()


def test_a_job_is_submitted_and_canceled_by_keyboard_alone(
    head: RealHead, gateway: RealGateway, browser: Any
) -> None:
    with window(browser, gateway) as page:
        tab_to(page, "New job")
        page.keyboard.press("Enter")
        page.wait_for_url("**/new")
        assert page.evaluate("document.activeElement.name") == "command"
        page.keyboard.type("sleep 500")
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs/*")
        job = int(page.url.rpartition("/")[2])
        tab_to(page, "Cancel")
        page.keyboard.press("Enter")
        tab_to(page, f"Cancel job {job}")
        page.keyboard.press("Enter")
        page.get_by_text(f"Job {job} is being canceled.").wait_for()
        page.keyboard.press("/")
        page.keyboard.type(str(job))
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/jobs/{job}")
    assert head.wait(job)["state"] == "Canceled"


def test_without_javascript_a_job_is_submitted_seen_and_canceled(
    head: RealHead, gateway: RealGateway, browser: Any
) -> None:
    with window(browser, gateway, 360, java_script_enabled=False) as page:
        page.goto(gateway.address + "/new")
        page.get_by_label("Command").fill("sleep 400")
        page.get_by_role("button", name="Check").click()
        page.get_by_text("Nothing was submitted.").wait_for()
        page.get_by_role("button", name="Submit", exact=True).click()
        page.wait_for_url("**/jobs/*")
        job = int(page.url.rpartition("/")[2])
        page.goto(gateway.address + "/jobs?state=all")
        page.get_by_label(f"Select job {job}").check()
        page.get_by_role("button", name="Show what will happen").click()
        page.get_by_role("button", name="Cancel 1 job").click()
        page.get_by_text("Cancel: 1 job.").wait_for()
    assert head.wait(job)["state"] == "Canceled"


def test_five_questions_are_answered_within_three_clicks(
    head: RealHead, gateway: RealGateway, browser: Any, addresses: list[str]
) -> None:
    waiting = int(addresses[len(PAGES) + 2].rpartition("/")[2])
    node = head.ask("nodes")["nodes"][0]["name"]
    head.ask("set_parameters", values={"SchedulingPolicy": "conservative"})
    expect = pytest.importorskip("playwright.sync_api").expect
    with window(browser, gateway) as page:
        search = page.get_by_role("searchbox")
        search.fill(str(waiting))  # why does this job wait?
        search.press("Enter")
        expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
        search.fill(node)  # who uses this node?
        search.press("Enter")
        expect(page.get_by_role("heading", name="Jobs on this node")).to_be_visible()
        page.get_by_role("link", name="Overview", exact=True).first.click()
        page.get_by_role("link", name="failed in the last hour").click()  # what failed?
        expect(page.get_by_text("failing").first).to_be_visible()
        page.get_by_role("link", name="Overview", exact=True).first.click()  # when is the cluster empty?
        expect(page.get_by_text("The end of the queue is not known").first).to_be_visible()
        page.get_by_role("link", name="Settings", exact=True).first.click()  # who changed the policy?
        changed = page.locator("tr", has_text="SchedulingPolicy").filter(has_text="conservative")
        expect(changed).to_contain_text(head.ask("whoami")["user"])
    head.ask("set_parameters", values={"SchedulingPolicy": None})


@pytest.mark.parametrize("path", ["/", "/jobs?state=all", "/plan", "/new", "/nodes"])
def test_a_first_view_is_under_200_kilobytes(
    gateway: RealGateway, browser: Any, addresses: list[str], path: str
) -> None:
    assert addresses  # jobs are there
    with window(browser, gateway) as page:
        page.context.clear_cookies(name="nothing")
        sizes: dict[str, int] = {}
        page.on("response", lambda answer: sizes.update({answer.url: _size(answer)}))
        page.goto(gateway.address + path, wait_until="load")
        whole = {url: size for url, size in sizes.items() if "/news" not in url}
        assert 0 < sum(whole.values()) < 200_000, whole


def _size(answer: Any) -> int:
    return int(answer.headers.get("content-length") or 0)


def test_a_chart_is_drawn_and_without_javascript_its_table_has_the_same(
    gateway: RealGateway, browser: Any
) -> None:
    with window(browser, gateway) as page:
        page.goto(gateway.address + "/")
        page.locator("#plot-load canvas").wait_for()
        page.set_viewport_size({"width": 700, "height": 900})
        page.wait_for_function("() => document.querySelector('#plot-load canvas').clientWidth < 700")
        page.emulate_media(color_scheme="dark")
        page.locator("#plot-load canvas").wait_for()
    with window(browser, gateway, java_script_enabled=False) as page:
        page.goto(gateway.address + "/")
        page.get_by_text("The same as a table").click()
        assert page.locator("figure table tbody tr").count() > 20
