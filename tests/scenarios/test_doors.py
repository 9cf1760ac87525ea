"""Requests are carried out the same way whatever door they come through: here a plain function call."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run
from test_who_may import ADMINISTRATOR, OTHER, OWNER, asking, entries

from headnode.adapters.wire.frame_codec import frame
from headnode.apps.client.creating_questions import CREATING_QUESTIONS
from headnode.apps.server.api.pipeline import VERBS, ClientSession, client_session
from headnode.apps.server.api.verbs import VerbKind
from headnode.apps.server.doors.conversation import LengthPrefixed, SocketStream
from headnode.core.model import bounds
from headnode.core.model.errors import BadRequest, NotAllowed, Unavailable
from headnode.protocol.stream_frames import ClientFrame, HeadFrame, RunStarted
from testbed.function_door import KnownCaller, call

SUBMISSION = {"tasks": [{"command": "x"}]}
QUESTIONS: list[dict[str, Any]] = [
    {"verb": "jobs"},
    {"verb": "job", "job": 1},
    {"verb": "tasks", "job": 1},
    {"verb": "explain_job", "job": 1},
    {"verb": "nodes"},
    {"verb": "node", "node": "n1"},
    {"verb": "whoami"},
    {"verb": "parameters"},
]


def question(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["verb"])
def test_a_plain_function_call_gets_the_answer_of_a_socket(tmp_path: Path, asked: dict[str, Any]) -> None:
    async def story(scene: Scene) -> None:
        await call(scene.context, OWNER, "submit_job", **SUBMISSION)
        async with asking(scene, OWNER) as peer:
            answer = await peer.done(**asked)
        fields = {name: value for name, value in asked.items() if name != "verb"}
        assert await call(scene.context, OWNER, asked["verb"], **fields) == answer

    run(tmp_path, story)


def test_a_call_is_checked_and_written_to_the_audit_log(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = (await call(scene.context, OWNER, "submit_job", **SUBMISSION))["job"]
        with pytest.raises(NotAllowed, match="not-owner"):
            await call(scene.context, OTHER, "cancel_job", job=job)
        await call(scene.context, ADMINISTRATOR, "cancel_job", job=job)
        with pytest.raises(NotAllowed, match="not-owner"):  # the answer to its owner would be that it is
            await call(scene.context, OTHER, "cancel_job", job=job)
        found = [(entry["user"], entry["verb"], entry["outcome"]) for entry in entries(scene)]
        assert found == [
            (OWNER.name, "submit_job", "done"),
            (OTHER.name, "cancel_job", "not-owner"),
            (ADMINISTRATOR.name, "cancel_job", "done"),
            (OTHER.name, "cancel_job", "not-owner"),
        ]

    run(tmp_path, story)


def test_a_call_from_afar_may_do_nothing_that_is_for_the_machine_of_the_head(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        caller = KnownCaller(ADMINISTRATOR, near=False)
        with (
            client_session(scene.context, caller) as session,
            pytest.raises(NotAllowed, match="not-here"),
        ):
            await session.carry_out(question(verb="backup"))

    run(tmp_path, story)


CHANGES = [name for name, verb in VERBS.items() if verb.access.changes or verb.kind is VerbKind.STREAM]


@pytest.mark.parametrize("verb", CHANGES)
def test_a_token_that_only_reads_is_refused_every_verb_that_does_more(tmp_path: Path, verb: str) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(NotAllowed, match="can only read"):
            await call(scene.context, ADMINISTRATOR.limited_to("reader"), verb, job=1)

    run(tmp_path, story)


def test_a_role_of_a_token_takes_rights_and_gives_none() -> None:
    assert ADMINISTRATOR.limited_to("all") == ADMINISTRATOR
    assert ADMINISTRATOR.limited_to("operator").role == "operator"
    assert ADMINISTRATOR.limited_to("user").role == "user"
    assert OWNER.limited_to("operator").role == "user"


def test_a_key_that_came_through_one_door_is_known_at_another(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            first = await peer.done(verb="submit_job", idempotency="k", **SUBMISSION)
        again = await call(scene.context, OWNER, "submit_job", idempotency="k", **SUBMISSION)
        assert (again["job"], again["repeated"]) == (first["job"], True)
        assert len(scene.context.cluster.jobs) == 1

    run(tmp_path, story)


def test_a_user_of_many_calls_lets_others_take_their_turn(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        order: list[str] = []

        async def ask(session: ClientSession, name: str) -> None:
            await session.carry_out(question(verb="ping"))
            order.append(name)

        with (
            client_session(scene.context, KnownCaller(OWNER)) as many,
            client_session(scene.context, KnownCaller(OTHER)) as one,
        ):
            await asyncio.gather(*(ask(many, "many") for _ in range(200)), ask(one, "one"))
        assert order.index("one") < 100

    run(tmp_path, story)


def test_sessions_of_a_user_are_counted_over_all_doors(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        sessions = [client_session(scene.context, KnownCaller(OTHER)) for _ in range(bounds.CONNECTIONS.most)]
        for session in sessions:
            session.__enter__()
        with pytest.raises(Unavailable, match="too-many-connections"):
            await call(scene.context, OTHER, "ping")
        for session in sessions:
            session.__exit__(None, None, None)
        assert (await call(scene.context, OTHER, "ping"))["cluster"] == "test"

    run(tmp_path, story)


def test_what_a_client_that_has_gone_still_asked_for_is_dropped(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        with (
            client_session(scene.context, KnownCaller(OWNER), lambda: True) as session,
            pytest.raises(ConnectionResetError),
        ):
            await session.carry_out(question(verb="submit_job", **SUBMISSION))
        assert not scene.context.cluster.jobs

    run(tmp_path, story)


def test_a_caller_follows_a_job_to_its_end(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = (await call(scene.context, OWNER, "submit_job", **SUBMISSION))["job"]
        with client_session(scene.context, KnownCaller(OWNER)) as session:
            updates = await session.carry_out(question(verb="watch_jobs", job=job))
            states = []
            async for answer in updates:
                states.append((answer.jobs[0].state, answer.done))
                await scene.end(job)
        assert states == [("Running", False), ("Finished", True)]

    run(tmp_path, story)


class Terminal:
    """A client with a stream for itself, which hangs up at once."""

    def __init__(self) -> None:
        self.received: list[HeadFrame] = []

    async def receive(self) -> None:
        return None

    async def send(self, expected: HeadFrame) -> None:
        self.received.append(expected)


def received(*text: bytes) -> ClientFrame | None:
    """Return the last of the frames that a client has sent."""

    async def receive() -> ClientFrame | None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(map(frame, text)))
        reader.feed_eof()
        stream = SocketStream(reader, None, LengthPrefixed(reader))
        found = [await stream.receive() for _ in text]
        assert await stream.receive() is None
        return found[-1]

    return asyncio.run(receive())


def test_a_client_sends_input_its_end_and_the_size_of_its_window() -> None:
    assert received(b'{"in": "bHMK"}') == ClientFrame(input=b"ls\n")
    assert received(b'{"in": ""}') == ClientFrame(input=b"")
    assert received(b'{"end": true}') == ClientFrame(end=True)
    assert received(b'{"in": "bHMK"}', b'{"window": [24, 80]}') == ClientFrame(window=(24, 80))


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"7", b"{}", b'{"in": 7}', b'{"in": "not base64!"}', b'{"in": "bHM"}', b'{"end": false}',
        b'{"end": 1}', b'{"window": [1]}', b'{"window": ["a", 2]}', b'{"window": [1, 2, 3]}', b'{"x": true}',
        b'{"end": true, "in": "bHMK"}', b'{"end": true, "x": 1}', b'{"window": [1' + b"0" * 30 + b', 2]}',
        b"[" * 100_000, b'{"in": "\xff"}',
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        received(text)
    assert refused.value.code == "said"


def test_a_verb_that_stays_needs_no_socket(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        terminal = Terminal()
        with client_session(scene.context, KnownCaller(ADMINISTRATOR)) as session:
            stream = await session.carry_out(question(verb="run_on_nodes", command="true", nodes="n1"))
            await stream(terminal)
        [started] = terminal.received
        assert isinstance(started, RunStarted)
        assert started.nodes == ["n1"]

    run(tmp_path, story)


def test_the_head_ends_when_the_client_that_told_it_so_has_its_answer(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        with client_session(scene.context, KnownCaller(ADMINISTRATOR)) as session:
            await session.carry_out(question(verb="stop_head"))
            with session.sending(10):
                assert not scene.ended
            session.answered()
            assert scene.ended

    run(tmp_path, story)


def test_an_unknown_verb_is_refused_by_name(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            assert isinstance(peer, Peer)
            answer = await peer.ask(verb="submit_jbo")
            assert (answer["code"], answer["fix"]) == ("verb", "did you mean 'submit_job'?")

    run(tmp_path, story)


def test_clients_send_a_key_with_verbs_that_change_something() -> None:
    assert all(VERBS[verb].access.changes for verb in CREATING_QUESTIONS)


def test_while_a_head_cancels_all_jobs_nothing_starts_and_nothing_new_is_taken(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        engine = scene.context.engine
        await call(scene.context, OWNER, "submit_job", terms={"numprocessors": "2"}, **SUBMISSION)
        waits = (await call(scene.context, OWNER, "submit_job", tasks=[{"command": "x"}] * 3))["job"]
        engine.close(closing=True)
        await scene.end(1)
        with pytest.raises(Unavailable, match="closing"):
            await call(scene.context, OWNER, "submit_job", **SUBMISSION)
        assert (await call(scene.context, OWNER, "job", job=waits))["job"]["state"] == "Queued"
        engine.close(closing=False)
        engine.tick()
        assert (await call(scene.context, OWNER, "job", job=waits))["job"]["state"] == "Running"
        engine.close(closing=True)
        held = scene.nodes.running()
        await scene.batcher.ask(scene.nodes.ended(held[0], scene.clock.now()))
        assert len(scene.nodes.running()) == len(held) - 1

    run(tmp_path, story)
