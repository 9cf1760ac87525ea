"""Every verb against every role: the table of who may is what happens, and changes are written down."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run

from headnode.adapters.identity.users import Account
from headnode.adapters.wire.frames import listen
from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbUsers
from headnode.apps.server.doors.conversation import serve_client
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state.job_record import encode_spec
from headnode.core.state.nodes import SetParameter
from headnode.core.state.recurring_record import CreateRecurring, RecurringJob
from headnode.core.state.submit import CreateJob
from testbed.function_door import KnownCaller

OWNER = User(name="ada", uid=1001, gid=1001)
OTHER = User(name="bob", uid=1002, gid=1002)
OPERATOR = User(name="olga", uid=1003, gid=1003, operator=True)
ADMINISTRATOR = User(name="root", uid=0, gid=0, administrator=True)
ROLES = (OWNER, OTHER, OPERATOR, ADMINISTRATOR)
PERMISSION = {"not-owner", "not-administrator", "not-operator"}
MAY = {
    VerbUsers.EVERYBODY: ROLES,
    VerbUsers.OVERSEER: (OWNER, OPERATOR, ADMINISTRATOR),
    VerbUsers.OWNER: (OWNER, ADMINISTRATOR),
    VerbUsers.OPERATOR: (OPERATOR, ADMINISTRATOR),
    VerbUsers.ADMINISTRATOR: (ADMINISTRATOR,),
}
ABOUT: dict[str, dict[str, Any]] = {
    "modify_job": {"terms": {"priority": "BelowNormal"}},
    "replace_job": {"tasks": [{"command": "true"}]},
    "add_tasks": {"tasks": [{"command": "true"}]},
    "cancel_task": {"task": 1},
    "requeue_task": {"task": 1},
    "hold_task": {"task": 1},
    "release_task": {"task": 1},
    "finish_task": {"task": 1},
    "modify_task": {"task": 1, "terms": {"name": "other"}},
    "read_output": {"task": 1},
    "signal_job": {"signal": "USR1"},
    "end_allocation": {"exit_code": 0},
    "modify_recurring_job": {"keep": 3},
    "set_parameters": {"values": {"SchedulingDepth": "7"}},
}
"""What a verb is asked with, beside the job that it is about."""
RECURRING = tuple(f"{does}_recurring_job" for does in ("modify", "suspend", "resume", "remove", "run"))
GROUPS = ("submit_group", "cancel_group", "finish_group")


@asynccontextmanager
async def asking(scene: Scene, by: User) -> AsyncIterator[Peer]:
    """Let somebody talk to the head."""

    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve_client(scene.context, KnownCaller(by), (reader, writer))
        except ConnectionError:
            pass  # the one who asks has heard enough
        finally:
            writer.close()
            over.set()

    path = scene.state / f"{by.name}.sock"
    async with await asyncio.start_unix_server(serve, sock=listen(path, 0o600)):
        reader, writer = await asyncio.open_unix_connection(str(path))
        try:
            yield Peer(reader, writer)
        finally:
            writer.close()
            await over.wait()


def described(name: str = "nightly") -> RecurringJob:
    """Return a recurring job as a client describes it."""
    return RecurringJob(
        number=0, name=name, owner="", uid=0, gid=0, schedule="@daily", zone="UTC",
        spec=encode_spec(JobSpec(tasks=(TaskSpec(command="true"),))), created=Instant(0), anchor=Instant(0),
    )  # fmt: skip


async def job_of_the_owner(scene: Scene, verb: str) -> int:
    """Return a job of the owner's, in a group, in a state in which the verb means something."""
    if verb in RECURRING:
        await scene.batcher.ask(CreateRecurring(by=OWNER, owner=OWNER, recurring=described()))
    spec = JobSpec(tasks=(TaskSpec(command="true", rerunnable=True),), job_group="g", suspendable=True)
    made = CreateJob(by=OWNER, spec=spec, submit=verb not in ("submit_job", "submit_group"))
    return int((await scene.batcher.ask(made))[0].job)  # type: ignore[attr-defined]


def question(verb: str, job: int) -> dict[str, Any]:
    if verb in GROUPS:
        return {"verb": verb, "group": "g", "owner": OWNER.name}
    if verb in RECURRING:
        return {"verb": verb, "recurring": "1", **ABOUT.get(verb, {})}
    needs_job = VERBS[verb].access.who in (VerbUsers.OVERSEER, VerbUsers.OWNER)
    return {"verb": verb, **({"job": job} if needs_job else {}), **ABOUT.get(verb, {})}


def codes(answer: dict[str, Any]) -> set[str]:
    """Return why anything was refused."""
    if not answer["ok"]:
        return {answer["code"]}
    return {each["code"] for each in answer.get("refused") or () if isinstance(each, dict)}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("by", ROLES, ids=lambda user: user.name)
def test_who_may_use_a_verb_is_whom_the_table_names(tmp_path: Path, verb: str, by: User) -> None:
    async def story(scene: Scene) -> None:
        job = await job_of_the_owner(scene, verb)
        async with asking(scene, by) as peer:
            answer = await peer.ask(**question(verb, job))
        assert bool(codes(answer) & PERMISSION) == (by not in MAY[VERBS[verb].access.who]), answer

    run(tmp_path, story)


def entries(scene: Scene) -> list[dict[str, Any]]:
    path = scene.state / "audit.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("by", [OTHER, ADMINISTRATOR], ids=lambda user: user.name)
def test_what_changes_something_and_what_was_not_allowed_is_written_down(
    tmp_path: Path, verb: str, by: User
) -> None:
    async def story(scene: Scene) -> None:
        job = await job_of_the_owner(scene, verb)
        async with asking(scene, by) as peer:
            answer = await peer.ask(**question(verb, job))
        expected = VERBS[verb].access.changes or bool({answer.get("code")} & PERMISSION)
        found = entries(scene)
        assert len(found) == expected, found
        for entry in found:
            assert (entry["user"], entry["uid"], entry["verb"]) == (by.name, by.uid, verb)
            assert entry["outcome"] == ("done" if answer["ok"] else answer["code"])

    run(tmp_path, story)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if VERBS[verb].access.changes])
def test_nothing_is_changed_that_cannot_be_written_down(tmp_path: Path, verb: str) -> None:
    async def story(scene: Scene) -> None:
        job = await job_of_the_owner(scene, verb)
        (tmp_path / "audit.log").mkdir()
        before = scene.engine.number
        async with asking(scene, ADMINISTRATOR) as peer:
            assert await peer.refused(**question(verb, job)) == "audit"
            assert await peer.done(verb="job", job=job)
        assert scene.engine.number == before

    run(tmp_path, story)


def test_the_log_says_what_a_request_was_about(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, ADMINISTRATOR) as peer:
            job = (await peer.done(verb="submit_job", tasks=[{"command": "echo secret"}]))["job"]
            await peer.done(verb="cancel_job", job=job, message="no")
            await peer.done(verb="set_parameters", values={"SchedulingDepth": "7"})
            await peer.done(verb="drain_node", node="n1", reason="dust")
            assert await peer.refused(verb="job", job=99) == "no-such-job"
            shown = (await peer.done(verb="audit_log", job=job))["entries"]
        about = ("verb", "job", "node", "parameters")
        found = [tuple(entry.get(name) for name in about) for entry in entries(scene)]
        assert found == [
            ("submit_job", job, None, None),
            ("cancel_job", job, None, None),
            ("set_parameters", None, None, {"SchedulingDepth": "7"}),
            ("drain_node", None, "n1", None),
        ]
        assert shown == entries(scene)[:2]
        assert "secret" not in (scene.state / "audit.log").read_text()
        assert {entry["from"] for entry in entries(scene)} == {"a test"}

    run(tmp_path, story)


def test_nobody_has_the_log_say_that_another_asked(tmp_path: Path) -> None:
    forged = {
        "user": "root",
        "uid": 0,
        "from": "elsewhere",
        "do": "ping",
        "outcome": "done",
        "when": "never",
    }

    async def story(scene: Scene) -> None:
        async with asking(scene, OTHER) as peer:
            assert await peer.refused(verb="cancel_job", job=1, **forged) == "field"
        (entry,) = entries(scene)
        assert (entry["user"], entry["uid"], entry["from"]) == (OTHER.name, OTHER.uid, "a test")
        assert (entry["verb"], entry["outcome"]) == ("cancel_job", "field")
        assert entry["when"].startswith("1970-01-12")

    run(tmp_path, story)


def test_roles_are_given_and_taken_by_parameters_at_once(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        person = Account("nobody-here", 4242, 4242)
        assert scene.context.roles.of(person).role == "user"
        for parameter, role in (("Operators", "operator"), ("Administrators", "administrator")):
            command = SetParameter(by=ADMINISTRATOR, name=parameter, value="ann, nobody-here")
            await scene.batcher.ask(command)
            assert scene.context.roles.of(person).role == role
        for parameter in ("Operators", "Administrators"):
            await scene.batcher.ask(SetParameter(by=ADMINISTRATOR, name=parameter, value=None))
        assert scene.context.roles.of(person).role == "user"

    run(tmp_path, story)
