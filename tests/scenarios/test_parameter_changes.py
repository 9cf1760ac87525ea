"""Who changed which setting of the cluster, from where, and what it was before."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters.clock import VirtualClock
from headnode.apps.cli.screens.cluster import change_row
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.engine.engine import Engine
from journal_model import ModelJournal
from testbed.function_door import call
from testbed.in_process import InProcessNodes

ROOT = User(name="root", uid=0, gid=0, administrator=True, origin="10.0.0.7:1")
ADA = User(name="ada", uid=1001, gid=1001)


class Head:
    """A context with an engine behind it, and a journal in memory."""

    def __init__(self, state: Path) -> None:
        self.clock, self.journal = VirtualClock(Instant(1_000_000.0)), ModelJournal()
        self.engine = Engine(self.journal, self.clock, dict(POLICIES), InProcessNodes())
        self.context = ServerContext(
            self.engine, self.journal, CommandBatcher(self.engine, self.journal.close), state, "test"
        )

    def ask(self, by: User, verb: str, **fields: Any) -> dict[str, Any]:
        self.clock.advance(Seconds(1.0))
        return asyncio.run(call(self.context, by, verb, **fields))

    def changes(self, by: User, *names: str) -> list[tuple[Any, ...]]:
        found = self.ask(by, "parameter_history", names=list(names))["changes"]
        return [(x["name"], x["before"], x["value"], x["by"], x["from"]) for x in found]


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def test_each_change_says_what_was_before_who_did_it_and_from_where(head: Head) -> None:
    for value in ("60", "45", None):
        head.ask(ROOT, "set_parameters", values={"HeartbeatInterval": value})
    head.ask(ROOT, "set_parameters", values={"Licences": "solver:8"})
    who = ("root", "10.0.0.7:1")
    beats = [("HeartbeatInterval", before, value, *who) for before, value in (
        (None, "60"), ("60", "45"), ("45", None),
    )]  # fmt: skip
    assert head.changes(ROOT) == [*beats, ("Licences", None, "solver:8", *who)]
    assert head.changes(ROOT, "heartbeatinterval") == beats
    newest = head.ask(ROOT, "parameter_history", limit=2)["changes"]
    assert [(x["name"], x["before"]) for x in newest] == [("HeartbeatInterval", "45"), ("Licences", None)]
    assert newest[0]["at"] < newest[1]["at"]


def test_everybody_sees_what_changed_and_only_administrators_who_did_it(head: Head) -> None:
    head.ask(ROOT, "set_parameters", values={"HeartbeatInterval": "60"})
    assert head.changes(ADA) == [("HeartbeatInterval", None, "60", None, None)]


def test_what_changes_nothing_is_no_change_and_what_is_no_parameter_is_refused(head: Head) -> None:
    head.ask(ROOT, "set_parameters", values={"HeartbeatInterval": "60"})
    head.ask(ROOT, "set_parameters", values={"HeartbeatInterval": "60"})
    assert len(head.changes(ROOT)) == 1
    with pytest.raises(BadRequest, match="no-such-parameter"):
        head.changes(ROOT, "HeartbeatInterwal")


def test_the_screen_names_the_default_and_leaves_out_what_is_not_reported() -> None:
    found = {"at": 0.0, "name": "Licences", "before": None, "value": "a:1", "by": None, "from": None}
    row = change_row(found)
    assert (row["Before"], row["After"], row["By"], row["From"]) == ("(default)", "a:1", "", "")


@pytest.mark.parametrize(
    ("parameter", "value", "named"),
    [
        ("Administrators", "root,nosuchuser", "the user 'nosuchuser'"),
        ("Operators", "@nosuchgroup,@root", "the group 'nosuchgroup'"),
        ("SiteKeyRoles", "nosuchuser", "the user 'nosuchuser'"),
        ("UserLimits", "*:jobs=9;nosuchuser:jobs=1;@root:jobs=2", "the user 'nosuchuser'"),
        ("GroupLimits", "root:jobs=9;nosuchgroup:jobs=1", "the group 'nosuchgroup'"),
        ("UserShares", "chem/nosuchuser:3;root:2;*:1", "the user 'nosuchuser'"),
    ],
)
def test_a_parameter_that_names_an_unknown_account_is_set_with_a_note(
    head: Head, parameter: str, value: str, named: str
) -> None:
    answer = head.ask(ROOT, "set_parameters", values={parameter: value})
    (note,) = answer["notes"]
    assert note.startswith(f"{parameter} names {named}, and this machine has no such")
    assert [each["value"] for each in answer["parameters"] if each["name"] == parameter] == [value]
    assert not head.ask(ROOT, "set_parameters", values={parameter: value})["notes"]  # noted before


def test_known_accounts_and_numbers_of_users_have_no_note(head: Head) -> None:
    values = {"Administrators": "root,@root,4711", "ProjectShares": "nosuchproject:2"}
    assert not head.ask(ROOT, "set_parameters", values=values)["notes"]


def test_a_long_list_of_unknown_accounts_has_ten_notes(head: Head) -> None:
    names = ",".join(f"nosuchuser{number}" for number in range(50))
    assert len(head.ask(ROOT, "set_parameters", values={"Administrators": names})["notes"]) == 10


@pytest.mark.parametrize("parameter", ["SubmissionFilterProgram", "ActivationFilterProgram"])
def test_a_plug_in_that_is_not_installed_is_refused_as_a_missing_program_is(
    head: Head, parameter: str
) -> None:
    for filters in ("plugin:nosuch", "/bin/true; template=Big plugin:nosuch"):
        with pytest.raises(BadRequest, match="no installed package has a filter 'nosuch'"):
            head.ask(ROOT, "set_parameters", values={parameter: filters})
    assert head.changes(ROOT, parameter) == []
