"""Prometheus reads the metrics of a real gateway; the dashboard asks for metrics that there are."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
from gateways import real_gateway
from prometheus_client.parser import text_string_to_metric_families

from heads import real_head

DASHBOARD = Path(__file__).parents[2] / "packaging" / "grafana" / "headnode.json"


def test_prometheus_reads_what_jobs_did(tmp_path: Path) -> None:
    with real_head(tmp_path) as head, real_gateway(head) as gateway:
        for command in ("/bin/true", "exit 3"):
            head.wait(head.submit(command))
        assert httpx.get(f"{gateway.address}/metrics").status_code == 401
        for recurring in (1, 2, 3):
            head.ask(
                "create_recurring_job",
                schedule="@daily",
                name=f"r{recurring}",
                suspended=recurring == 3,
                tasks=[{"command": "true"}],
            )
        with gateway.browser() as client:
            text = client.get("/metrics").text
            with closing(sqlite3.connect(head.state / "notices.db")) as outbox, outbox:
                outbox.execute("alter table waiting rename column notice to lost")  # reading fails
            head.submit("/bin/true")  # after which the outbox is read
            head.until(lambda: "headnode_failed_parts 1.0" in client.get("/metrics").text)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["headnode_jobs_ended_total", "finished"] == 1
    assert samples["headnode_jobs_ended_total", "failed"] == 1
    assert samples["headnode_tasks_ended_total", "failed"] == 1
    assert samples["headnode_job_wait_seconds_count", "Default"] == 2
    assert samples["headnode_processors", "total"] == 2
    assert samples["headnode_agents_connected",] == 1
    assert samples["headnode_failed_parts",] == 0
    assert samples["headnode_recurring_jobs", "active"] == 2
    assert samples["headnode_recurring_jobs", "suspended"] == 1
    assert samples["headnode_recurring_jobs_refused",] == 0
    assert samples["headnode_commit_seconds_count",] > 0
    names = {name for name, *_ in samples}
    asked = {name for panel in panels() for name in re.findall(r"headnode_\w+", panel)}
    assert asked
    assert asked - names == {"headnode_prediction_coverage_ratio"}  # no start was predicted here


def panels() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
