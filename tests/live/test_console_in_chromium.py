"""The console in Chromium: by mouse, by keyboard, without JavaScript, at three widths, light and dark."""

from collections.abc import Iterator
from typing import Any

import pytest
from chromium import WIDTHS, axe_source, chromium, tab_to, window
from gateways import RealGateway, real_gateway

from heads import RealHead, real_head

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
    "/people",
    "/audit",
]
JOB_FILE = (
    '<Job Name="dropped" MinCores="1" MaxCores="1"><Tasks><Task CommandLine="sleep 600"/></Tasks></Job>'
)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("chromium"), nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(head: RealHead) -> Iterator[RealGateway]:
    with real_gateway(head) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def addresses(head: RealHead) -> list[str]:
    """Pages of the cluster, of a running, a waiting and a failed job, and of a node; names are hostile."""
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
    parts = ("", "/tasks", "/output", "/source", "/history", "/change")
    return [
        *PAGES,
        f"/nodes/{node}",
        f"/jobs/{failed}",
        f"/jobs/{waiting}",
        f"/jobs/{sweep}/tasks?sweep=1",
        *(f"/jobs/{running}{part}" for part in parts),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_and_nothing_is_cut_off_on_any_page(
    browser: Any, gateway: RealGateway, addresses: list[str], width: int, scheme: str
) -> None:
    axe, found = axe_source(), {}
    with window(browser, gateway, width, color_scheme=scheme, bypass_csp=True) as page:
        for path in addresses:
            page.goto(gateway.address + path)
            page.evaluate(axe)
            broken = page.evaluate(
                "() => axe.run().then(found => found.violations.map(one =>"
                " one.id + ': ' + one.nodes.slice(0, 3).map(node => node.html).join(' | ')))"
            )
            wider = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            if broken or wider > 0:
                found[path] = [*broken, f"{wider} pixels too wide"]
    assert found == {}


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


def test_a_page_prints_without_its_frame_and_moves_nothing_where_motion_is_unwanted(
    gateway: RealGateway, browser: Any, addresses: list[str]
) -> None:
    with window(browser, gateway, reduced_motion="reduce") as page:
        page.goto(gateway.address + addresses[0])
        page.emulate_media(media="print")
        assert not page.locator("header.top").is_visible()
        assert not page.locator("nav.side").is_visible()
        assert page.locator("main").is_visible()
