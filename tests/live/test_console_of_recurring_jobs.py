"""Recurring jobs in the console of a real gateway: made by a form, changed, run, suspended and removed."""

import re
from collections.abc import Iterator

import httpx
import pytest
from gateways import RealGateway, gateway_fixture
from test_console import press

from headnode.core.model import bounds
from heads import RealHead, shared_head_fixture


@pytest.fixture(scope="module", autouse=True)
def far_east() -> Iterator[None]:
    """Where the year 10000 begins first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        yield


head = shared_head_fixture()
gateway = gateway_fixture(scope="module")


@pytest.fixture
def browser(gateway: RealGateway) -> Iterator[httpx.Client]:
    with gateway.browser() as client:
        yield client


def made_by_form(browser: httpx.Client, **fields: str) -> str:
    """Create a recurring job by the form for new jobs; return the path of its page."""
    form = {"way": "", "command": "true", "do": "submit", "schedule": "@daily"} | fields
    page = press(browser, "/new", **form)
    assert page.status_code == 200, page.text
    return page.url.path


def test_a_form_with_a_schedule_makes_a_recurring_job_and_no_job(
    head: RealHead, browser: httpx.Client
) -> None:
    before = head.ask("jobs")["jobs"]
    form = {"jobname": "nightly", "schedule": "30 4 * * *", "zone": "Europe/Berlin", "once": "k1"}
    path = made_by_form(browser, **form)
    assert made_by_form(browser, **form) == path  # sent twice
    page = browser.get(path).text
    assert "nightly" in page
    assert "<code>30 4 * * *</code>, Europe/Berlin" in page
    assert "It makes its next job at" in page
    assert head.ask("jobs")["jobs"] == before
    assert path in browser.get("/recurring").text


def test_a_check_of_a_schedule_shows_its_next_times_and_what_is_wrong(browser: httpx.Client) -> None:
    page = press(browser, "/new", way="", command="true", do="check", schedule="@every 2h", zone="UTC")
    assert "Its next times" in page.text
    assert len(re.findall(r"<li><time", page.text)) == 5
    wrong = press(browser, "/new", way="", command="true", do="submit", schedule="61 * * * *", zone="UTC")
    assert wrong.status_code == 422
    assert "is not a schedule" in wrong.text
    assert 'value="61 * * * *"' in wrong.text


@pytest.mark.parametrize(
    ("way", "fields"),
    [
        ("form", {"job-name": "of-form", "task-1-command": "true"}),
        ("file", {"jobfile": '{"name": "of-file", "tasks": [{"command": "true"}]}'}),
    ],
)
def test_every_way_to_describe_a_job_can_be_repeated(
    head: RealHead, browser: httpx.Client, way: str, fields: dict[str, str]
) -> None:
    path = press(browser, "/new", way=way, do="create", schedule="@weekly", **fields).url.path
    number = path.rpartition("/")[2]
    made = head.ask("recurring_job", recurring=number)["recurring_job"]
    assert (made["state"], made["schedule"]) == ("Suspended", "@weekly")


def test_a_recurring_job_is_changed_run_suspended_resumed_and_removed_by_its_page(
    head: RealHead, browser: httpx.Client
) -> None:
    path = made_by_form(browser, jobname="turns")
    number = path.rpartition("/")[2]
    before = head.ask("recurring_job", recurring=number)["recurring_job"]
    press(browser, path, schedule="@hourly", zone=before["zone"], runs="7", keep="3", end="2100-01-01T00:00")
    after = head.ask("recurring_job", recurring=number)["recurring_job"]
    assert (after["schedule"], after["runs"], after["keep"], after["end"] > 4e9) == ("@hourly", 7, 3, True)
    press(browser, path, runs="", end="")
    again = head.ask("recurring_job", recurring=number)["recurring_job"]
    assert (again["schedule"], again["runs"], again["end"]) == ("@hourly", 0, None)
    ran = press(browser, f"{path}/run")
    job = int(ran.url.path.rpartition("/")[2])
    head.wait(job)
    assert f'<a href="{path}">turns</a>' in browser.get(f"/jobs/{job}").text
    assert f'href="/jobs/{job}"' in browser.get(path).text
    assert "It is suspended" in press(browser, f"{path}/suspend").text
    assert "It makes its next job at" in press(browser, f"{path}/resume").text
    assert press(browser, f"{path}/remove").url.path == "/recurring"
    assert browser.get(path).status_code == 404


def test_a_wrong_change_is_reported_at_its_field_and_changes_nothing(
    head: RealHead, browser: httpx.Client
) -> None:
    path = made_by_form(browser, jobname="stays")
    for field, value, words in [
        ("schedule", "never", "is not a schedule"),
        ("zone", "Mars/Base", "knows no time zone"),
        ("runs", "many", "is not a number of jobs"),
        ("end", "soon", "is not a date"),
    ]:
        page = press(browser, path, **{field: value})
        assert page.status_code == 422
        assert words in page.text
        assert f'id="w-{field}"' in page.text
    after = head.ask("recurring_job", recurring=path.rpartition("/")[2])["recurring_job"]
    assert (after["schedule"], after["runs"], after["end"]) == ("@daily", 0, None)


def test_an_entry_of_a_table_has_no_form_that_changes_it(head: RealHead, browser: httpx.Client) -> None:
    head.ask("set_recurring_table", text="@monthly sleep 1\n", zone="UTC")
    (entry,) = head.ask("recurring_table")["recurring_jobs"]
    page = browser.get(f"/recurring/{entry['number']}").text
    assert "scrontab -e" in page
    assert "Change recurring job" not in page
    assert "Remove recurring job" not in page
    refused = press(browser, f"/recurring/{entry['number']}/remove")
    assert refused.status_code == 409
    head.ask("set_recurring_table", text="")


def test_the_page_shows_a_recurring_job_that_ends_with_the_last_second_there_is(
    head: RealHead, browser: httpx.Client
) -> None:
    end = bounds.TIME.most
    made = head.ask(
        "create_recurring_job", name="for-ever", tasks=[{"command": "true"}], schedule="@daily", end=end
    )
    page = browser.get(f"/recurring/{made['recurring_job']['number']}")
    assert page.status_code == 200
    assert 'value="10000-01-01T08:59"' in page.text
