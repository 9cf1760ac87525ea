"""``hn simulate --html``: a page that opens anywhere, says what was found, and cannot be misused by a log."""

import json
import os
import re
import subprocess
import sys
import zlib
from array import array
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import hn, hn_alone, no_room_for_files
from lxml import html
from plotly.graph_objects import Figure

from headnode.apps.simulate.html.page import page
from headnode.apps.simulate.html.study import study
from headnode.apps.simulate.scenario import Variant
from headnode.apps.simulate.simulation import ReplaySetup, Simulation, simulate

HEADER = "; MaxProcs: 4\n; UnixStartTime: 843480031\n; TimeZoneString: Europe/Stockholm\n; Computer: Crab\n"
# number, submit, -, run time, allocated, -, -, requested, estimate
JOBS = (
    (1, 0, 1000, 3, 1000),
    (2, 0, 1000, 4, 1000),
    (3, 100, 900, 1, 900),
    (4, 100, 2000, 1, 2000),
    (5, 150, 700, 2, 900),
)


def line(number: int, submit: float, run_time: float, processors: int, estimate: float) -> str:
    return f"{number} {submit} -1 {run_time} {processors} -1 -1 {processors} {estimate}" + " -1" * 9 + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text(HEADER + "".join(line(*job) for job in JOBS))
    return path


def run(*words: object) -> "subprocess.CompletedProcess[str]":
    return hn("simulate", *map(str, words), state=Path("/nowhere"))


def drawn(log: Path, *words: object) -> Any:
    """Return the page about a log, read."""
    report = log.with_suffix(".html")
    result = run(log, *words, "--html", report)
    assert result.returncode == 0, result.stderr
    return parsed(report.read_bytes())


def parsed(written: bytes) -> Any:
    return html.document_fromstring(written, html.HTMLParser(encoding="utf-8", huge_tree=True))


def known(document: Any) -> Any:
    """Return what the program of the page knows."""
    return json.loads(document.get_element_by_id("known").text)


def unpacked(column: dict[str, str]) -> list[Any]:
    content = zlib.decompress(b64decode(column["data"]))
    kinds = {"Int32": "i", "Float64": "d"}
    return (
        content.decode().split("\n")
        if column["type"] == "Text"
        else list(array(kinds[column["type"]], content))
    )


def table(document: Any, title: str) -> list[list[str]]:
    """Return the rows of the table of that title, its head first."""
    [found] = [one for one in document.iter("table") if one.findtext("caption") == title]
    return [[cell.text_content() for cell in row] for row in found.iter("tr")]


def test_the_page_says_first_what_was_found(log: Path) -> None:
    document = drawn(log, "--compare", "fcfs,easy")
    assert document.findtext(".//h1") == document.findtext(".//title") == "fcfs and easy on small.swf"
    [found] = [one.text_content() for one in document.find_class("found")]
    assert found == (
        "Under easy, 20 % of the jobs start earlier than under fcfs and none later; "
        "the mean wait falls from 22 min 10 s to 15 min 50 s, and utilisation stays at 70.6 %."
    )
    [about] = [one.text_content() for one in document.find_class("about")]
    assert about == (
        "5 jobs · 4 processors · Mon 23 Sep 1996, 14:00 to Mon 23 Sep 1996, 15:07 · ties ends-first · Crab"
    )


def test_the_figures_are_those_of_the_simulation(log: Path) -> None:
    words = ("--compare", "fcfs,easy,conservative")
    printed = json.loads(run(log, *words, "--json").stdout)
    head, *rows = table(drawn(log, *words), "Figures of each policy")
    assert [row[0] for row in rows] == ["fcfs", "easy", "conservative"]
    for row, figures in zip(rows, printed, strict=True):
        shown = dict(zip(head, row, strict=True))
        assert shown["Bounded slowdown"] == f"{figures['mean_bounded_slowdown']:.2f}"
        assert shown["Utilisation"] == f"{figures['utilisation'] * 100:.1f} %"
    assert [row[-2:] for row in rows] == [["", ""], ["1", "0"], ["1", "0"]]


def test_the_page_holds_every_job_as_it_was_simulated(log: Path, tmp_path: Path) -> None:
    held = known(drawn(log, "--compare", "fcfs,easy"))
    jobs = {name: unpacked(column) for name, column in held["jobs"].items()}
    for policy in held["policies"]:
        starts = tmp_path / "starts.csv"
        run(log, "--policy", policy["name"], "--starts", starts)
        waits = unpacked(policy["waits"])
        assert starts.read_text().splitlines()[1:] == [
            f"{number},{submit},{submit + wait},{submit + wait + run_time},{count}"
            for number, submit, wait, run_time, count in zip(
                jobs["numbers"], jobs["submits"], waits, jobs["runTimes"], jobs["processors"], strict=True
            )
        ]
        strips = unpacked(policy["strips"])
        assert sum(strips[1::2]) == sum(jobs["processors"])
        assert len(strips) == 2 * sum(unpacked(policy["stripCounts"]))


def test_jobs_on_described_nodes_are_drawn_where_the_head_put_them(log: Path) -> None:
    document = drawn(log, "--nodes", "2x2", "--whole-nodes")
    data = known(document)
    assert data["nodes"] == [["node1", 0], ["node2", 2]]
    assert data["gantt"]["layout"]["yaxis"]["ticktext"] == ["node1", "node2"]
    assert "4 processors on 2 whole nodes" in document.find_class("about")[0].text_content()
    [policy] = data["policies"]
    assert unpacked(policy["stripCounts"]) == [1] * len(JOBS)
    asked = {job[0]: job[3] for job in JOBS}
    strips = unpacked(policy["strips"])
    for number, begin, count in zip(asked, strips[::2], strips[1::2], strict=True):
        assert begin in (0, 2)
        assert count == -(-asked[number] // 2) * 2


def test_who_gains_most_and_loses_most_is_listed(log: Path) -> None:
    document = drawn(log, "--compare", "fcfs,easy")
    _, *gain = table(document, "easy: jobs that start earlier by most than under fcfs")
    assert gain == [
        ["3", "Mon 23 Sep 1996, 14:02", "1", "15 min", "15 min", "31 min 40 s", "0 s", "31 min 40 s"]
    ]
    assert "Under easy, no job starts later." in document.text_content()


def test_a_single_policy_is_told_without_comparing(log: Path) -> None:
    document = drawn(log, "--policy", "fcfs")
    assert document.findtext(".//h1") == "fcfs on small.swf"
    assert "changes" not in {one.get("id") for one in document.iter("section")}
    assert set(known(document)["charts"]) == {"over-time", "by-size", "by-run-time"}
    _, *longest = table(document, "Jobs that wait longest")
    assert [row[0] for row in longest] == ["3", "4", "5", "2"]


def test_what_was_left_out_of_the_log_is_on_the_page(log: Path) -> None:
    log.write_text(log.read_text() + line(6, 200, 10, 5, 10))
    found = [item.text for item in drawn(log).get_element_by_id("log").iter("li")]
    assert found == ["line 10: left out: more processors than the machine has"]
    assert found[0] in run(log).stderr


def test_the_curve_of_processors_is_in_percent_of_the_machine(log: Path) -> None:
    used, jobs, asked = known(drawn(log, "--policy", "fcfs"))["charts"]["over-time"]["data"]
    assert max(most for _, _, most in used["customdata"]) == 100
    assert used["y"][0] == 75
    assert (max(jobs["y"]), max(asked["y"])) == (4, 8)


def test_every_chart_has_its_place_a_name_and_units(log: Path) -> None:
    document = drawn(log, "--compare", "fcfs,easy")
    charts = {one.get("id"): one for one in document.find_class("chart")}
    data = known(document)
    assert set(charts) == {f"{name}-chart" for name in [*data["charts"], "gantt"]}
    assert all(one.get("aria-label") for one in charts.values())
    layout = data["charts"]["over-time"]["layout"]
    titles = [layout[axis]["title"]["text"] for axis in ("yaxis", "yaxis2", "yaxis3", "xaxis")]
    assert titles == ["Processors in use (%)", "Jobs waiting", "Processors requested", "date (UTC+02:00)"]


def test_plotly_knows_every_property_of_the_charts(log: Path) -> None:
    data = known(drawn(log, "--compare", "fcfs,easy"))
    for chart in (*data["charts"].values(), {"layout": data["gantt"]["layout"]}):
        assert json.loads(Figure(chart).to_json())["layout"]["yaxis"] == chart["layout"]["yaxis"]


def test_the_example_is_called_by_what_it_is(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    run("--example", "--html", report)
    assert parsed(report.read_bytes()).findtext(".//h1") == "easy on a week of made-up jobs"


def test_curves_of_a_long_log_can_be_looked_at_in_finer_steps(tmp_path: Path) -> None:
    long = tmp_path / "long.swf"
    long.write_text(
        "; MaxProcs: 4\n" + "".join(line(day, day * 86400, 90000, 3, 90000) for day in range(1, 300))
    )
    document = drawn(long)
    data = known(document)
    assert [option.get("value") for option in document.get_element_by_id("detail")] == ["2 d", "6 h"]
    coarse, fine = data["details"].values()
    for row in (1, 2):
        assert max(coarse["y"][row]) == max(fine["y"][row])
    assert data["charts"]["over-time"]["layout"]["xaxis"]["tickprefix"] == "day "


def test_the_page_needs_no_network_and_may_use_none(log: Path) -> None:
    document = drawn(log, "--compare", "fcfs,easy")
    for one in document.iter():
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            assert one.get(name, "#").startswith("#")
    [rules] = [one.get("content") for one in document.iter("meta") if one.get("http-equiv")]
    assert rules.startswith("default-src 'none'; ")
    assert "http" not in rules
    [style] = [one.text for one in document.iter("style")]
    assert "url(" not in style
    assert "@import" not in style


def test_no_button_sends_jobs_to_anybody(log: Path) -> None:
    *_, program = (one.text for one in drawn(log).iter("script"))
    assert 'showSendToCloud: false, plotlyServerURL: ""' in program


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def simulated(log: Path, policies: tuple[str, ...] = ("fcfs", "easy")) -> Simulation:
    found = simulate(str(log), ("fcfs", "easy"), ReplaySetup())
    outcomes = tuple(
        one._replace(variant=Variant(name, name)) for one, name in zip(found.outcomes, policies, strict=True)
    )
    return Simulation(found.log, outcomes)


def test_whatever_a_log_or_a_policy_is_called_is_shown_and_not_obeyed(log: Path) -> None:
    log.write_text(log.read_text().replace("Crab", EVIL + "\x00\x1b[31m"), encoding="latin-1")
    evil = simulated(log, (EVIL, "%{x}<b>" + EVIL))
    written = page(study(f"{EVIL}.swf", evil, [EVIL]))
    document = parsed(written)
    assert not list(document.iter("img"))
    assert [one.get("id") for one in document.iter("script")] == ["known", None, None]
    assert EVIL in document.text_content()
    assert [policy["name"] for policy in known(document)["policies"]] == [one.name for one in evil.outcomes]
    charts = json.dumps(known(document)["charts"])
    assert "<img" not in charts
    assert "&lt;img src=x" in charts
    assert b"\x1b" not in written.split(b"plotly.js v")[0]


def test_the_page_is_well_formed(log: Path) -> None:
    written = page(study("small.swf", simulated(log), []))
    assert written.startswith(b"<!DOCTYPE html>")
    document = parsed(written)
    ids = [one.get("id") for one in document.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    assert {link.get("href") for link in document.iter("a")} <= {f"#{name}" for name in ids}
    labelled = {one for one in document.iter("select", "input") if one.getparent().tag == "label"}
    assert labelled == set(document.iter("select", "input"))
    assert "every line of the log was replayed" in document.text_content()


def test_what_the_page_program_looks_for_is_on_the_page(log: Path) -> None:
    document = parsed(page(study("small.swf", simulated(log), [])))
    *_, program = (one.text for one in document.iter("script"))
    named = set(re.findall(r'\bat\("([a-z-]+)"\)', program))
    assert named >= {"gantt-policy", "jobs-body", "job-number"}
    assert named - {"detail"} <= {one.get("id") for one in document.iter() if one.get("id")}


def test_the_size_of_the_report_is_said(log: Path) -> None:
    report = log.with_suffix(".html")
    result = run(log, "--html", report)
    assert result.stderr == f"hn: report written to {str(report)!r}, {report.stat().st_size / 1e6:.1f} MB\n"


def test_a_terminal_is_told_that_the_report_is_being_drawn(log: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    report = str(log.with_suffix(".html"))
    command = [sys.executable, "-m", "headnode.apps.cli", "simulate", str(log), "--html", report]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert "drawing the report …\r\x1b[Khn: report written to " in shown


def test_a_report_that_cannot_be_written_is_refused_before_the_simulation(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere" / "report.html", tmp_path):
        result = run(tmp_path / "no-such-log", "--html", place)
        assert result.returncode == 2
        assert f"report {str(place)!r} cannot be written: " in result.stderr
        assert "name a file in a directory that exists" in result.stderr


def test_a_report_that_was_there_is_left_alone_when_writing_fails(log: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("kept")
    with no_room_for_files():
        result = hn_alone("simulate", str(log), "--html", str(report), state=Path("/nowhere"))
    assert "cannot be written: File too large" in result.stderr
    assert result.returncode == 2
    assert report.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "small.swf"]


def test_without_the_library_the_report_says_what_to_install_before_simulating(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['plotly'] = None; sys.argv[0] = 'hn'\n"
        "from headnode.apps.cli.__main__ import main; raise SystemExit(main())"
    )
    words = ["simulate", str(tmp_path / "no-such-log"), "--html", str(tmp_path / "report.html")]
    result = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, env=os.environ
    )
    assert result.returncode == 1
    assert "the report is drawn with plotly, which is not installed" in result.stderr
    assert f"{sys.executable} -m pip install 'plotly>=6'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_what_draws_is_not_loaded_when_no_report_is_asked_for(log: Path) -> None:
    program = (
        "import sys; sys.argv[0] = 'hn'\n"
        "from headnode.apps.cli.__main__ import main\n"
        "assert main() == 0; assert not {'plotly', 'jinja2', 'lxml'} & set(sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "simulate", str(log)], capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
