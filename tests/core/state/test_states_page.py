"""The page of states says what the tables say."""

from pathlib import Path

from documents.transition_pages import states_page
from headnode.core.state.advance_job import RULES
from headnode.core.state.transitions import (
    INSTANCE_TRANSITIONS,
    JOB_TRANSITIONS,
    NODE_TRANSITIONS,
    PHASE_TRANSITIONS,
)

PAGE = Path(__file__).parents[3] / "docs" / "contracts" / "02-job-task-node-states.md"


def test_the_page_of_states_is_printed_from_the_tables() -> None:
    assert PAGE.read_text() == states_page()


def test_every_row_of_every_table_is_on_the_page() -> None:
    page = states_page()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    tables = (JOB_TRANSITIONS, INSTANCE_TRANSITIONS, PHASE_TRANSITIONS, NODE_TRANSITIONS)
    assert len(rows) == sum(map(len, tables))
    assert "| running | `JobAutoRequeued` | queued |" in rows
    assert "| ending | `JobEnded` | canceled, failed, finished |" in rows
    assert "    queued --> running: JobStarted" in page
    assert page.count("```mermaid") == 4


def test_the_page_says_what_follows_for_a_job_of_each_state_in_order() -> None:
    rules = states_page().partition("## What follows for a job")[2]
    assert [rules.index(f"`{state}`:") for state in RULES] == sorted(
        rules.index(f"`{state}`:") for state in RULES
    )
    assert "\n4. Nodes are prepared before their first task" in rules
