"""The local protocol held to its page: what it answers, and that bad input costs one connection at most."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters.clock import VirtualClock
from headnode.adapters.nodes.streams import Sessions
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import listen, read_frame
from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.streams import JobWatchers
from headnode.apps.server.api.verbs import Verb, VerbKind
from headnode.apps.server.command_batcher import CommandBatcher, EffectsInOrder
from headnode.apps.server.doors.conversation import MAX_REQUEST
from headnode.apps.server.doors.unix import UnixDoor
from headnode.apps.server.server_context import ContextParts, ServerContext
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state import join as c
from headnode.engine.engine import Engine
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import VerbRequest
from journal_model import ModelJournal
from testbed.answer_schemas import check_schema
from testbed.in_process import InProcessNodes

PROTOCOL = Path(__file__).parents[2] / "docs" / "contracts" / "01-local-protocol.md"


class Peer:
    """A client that may send anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def written(self, message: bytes) -> bytes:
        """Return a message in the form of the door."""
        return frame(message)

    def send(self, **request: Any) -> None:
        self.writer.write(self.written(json.dumps(request).encode()))

    async def ask(self, **request: Any) -> dict[str, Any]:
        self.send(**request)
        answer = await self.receive()
        check_schema(str(request.get("verb")), answer)
        return answer

    async def receive(self) -> dict[str, Any]:
        answer = await read_frame(self.reader, MAX_REQUEST)
        assert answer is not None, "the head hung up"
        found: dict[str, Any] = json.loads(answer)
        return found

    async def done(self, **request: Any) -> dict[str, Any]:
        answer = await self.ask(**request)
        assert answer["ok"], answer
        return answer

    async def refused(self, **request: Any) -> str:
        answer = await self.ask(**request)
        assert not answer["ok"], answer
        assert answer["what"]
        assert answer["exit_status"] in (1, 2)
        return str(answer["code"])


class Scene:
    """A head in this process with one node of two processors."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.nodes = InProcessNodes()
        self.watchers = JobWatchers()
        journal = ModelJournal()
        self.clock = VirtualClock(Instant(1_000_000.0))
        effects = EffectsInOrder(self.watchers, self.nodes)
        self.engine = Engine(journal, self.clock, dict(POLICIES), effects)
        self.batcher = CommandBatcher(self.engine, lambda: pytest.fail("the engine broke"))
        self.ended: list[bool] = []  # whether the head was told to end
        parts = ContextParts(
            self.watchers, Sessions(lambda *_: None), shut_down=lambda: self.ended.append(True)
        )
        self.context = ServerContext(self.engine, journal, self.batcher, state, "test", lambda _: parts)
        effects.effects += [self.context.feed, self.context.job_counters]

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        reader, writer = await asyncio.open_unix_connection(str(self.state / "head.sock"))
        try:
            yield Peer(reader, writer)
        finally:
            writer.close()

    async def end(self, job: int, exit_code: int = 0) -> None:
        for held in [held for held in self.nodes.running() if held.job == job]:
            await self.batcher.ask(self.nodes.ended(held, self.clock.now(), exit_code=exit_code))


def run(tmp_path: Path, story: Callable[[Scene], Awaitable[None]], seconds: float = 20) -> None:
    """Play a story against a head that lives as long as it."""

    async def play() -> None:
        scene = Scene(tmp_path)
        local = UnixDoor(scene.context)
        server = await asyncio.start_unix_server(local.serve, sock=listen(tmp_path / "head.sock", 0o666))
        await scene.batcher.ask(c.RegisterNode(facts=NodeFacts(name="n1", processors=2), approved=True))
        try:
            async with asyncio.timeout(seconds):
                await story(scene)
        finally:
            server.close()

    asyncio.run(play())


def test_a_job_goes_from_submission_to_the_archive_and_every_verb_shows_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = (await peer.done(verb="submit_job", tasks=[{"command": "/bin/true"}]))["job"]
            assert (await peer.done(verb="job", job=job))["job"]["state"] == "Running"
            await scene.end(job)
            shown = (await peer.done(verb="job", job=job))["job"]
            assert shown["state"] == "Finished"
            assert [h["text"] for h in shown["history"]][-1] == "Job Finished"
            task = (await peer.done(verb="tasks", job=job))["tasks"][0]
            assert (task["state"], task["exit_code"], task["node"]) == ("Finished", 0, "n1")
            page = await peer.done(verb="jobs")
            assert ([j["id"] for j in page["jobs"]], page["more"]) == ([job], None)
            assert (await peer.done(verb="cluster"))["cluster"]["jobs"] == {"Finished": 1}

    run(tmp_path, story)


@pytest.mark.parametrize("dialect", ["ccs", "hpcpack-2008", "hpcpack"])
def test_an_export_of_a_real_job_can_be_submitted_again(tmp_path: Path, dialect: str) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            terms = {"jobname": "twice", "numprocessors": "1-2"}
            tasks = [{"command": "a", "name": "t1"}, {"command": "b", "depend": "t1"}]
            job = (await peer.done(verb="submit_job", terms=terms, tasks=tasks))["job"]
            await scene.end(job)
            await scene.end(job, exit_code=3)
            text = (await peer.done(verb="export_job", job=job, dialect=dialect))["text"]
            again = (await peer.done(verb="submit_job", jobfile=text))["job"]
            first, second = [(await peer.done(verb="job", job=j))["job"]["spec"] for j in (job, again)]
            assert [t["command"] for t in second["tasks"]] == ["a", "b"]
            assert second["tasks"][1]["depends_on"] == ["t1"]
            assert (first["name"], first["maximum"]) == (second["name"], second["maximum"])
            assert "Failed" in text

    run(tmp_path, story)


def test_tasks_that_two_clients_add_at_once_are_all_there(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as one, scene.peer() as two:
            terms = {"numprocessors": "1", "rununtilcanceled": "true"}
            job = (await one.done(verb="submit_job", terms={"numprocessors": "1-1"} | terms))["job"]
            added = await asyncio.gather(
                one.done(verb="add_tasks", job=job, tasks=[{"command": "a"}]),
                two.done(verb="add_tasks", job=job, tasks=[{"command": "b"}]),
            )
            assert sorted(answer["tasks"] for answer in added) == [[1], [2]]
            commands = [task["command"] for task in (await one.done(verb="tasks", job=job))["tasks"]]
            assert sorted(commands) == ["a", "b"]

    run(tmp_path, story)


def test_a_job_says_how_far_it_is(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = (await peer.done(verb="submit_job", tasks=[{"command": "x"}]))["job"]
            await peer.done(verb="set_progress", job=job, percent=40, message="meshing")
            shown = (await peer.done(verb="job", job=job))["job"]
            assert (shown["progress"], shown["progress_message"]) == (40, "meshing")
            assert await peer.refused(verb="set_progress", job=job, percent=101) == "progress"

    run(tmp_path, story)


def test_pages_of_jobs_follow_each_other_without_gap_or_repetition(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            jobs = [(await peer.done(verb="submit_job", tasks=[{"command": "x"}]))["job"] for _ in range(9)]
            for job in jobs[:4]:
                await scene.end(job)
            seen: list[int] = []
            before: int | None = None
            while True:
                fields = {"before": before} if before is not None else {}
                page = await peer.done(verb="jobs", limit=2, **fields)
                seen += [job["id"] for job in page["jobs"]]
                before = page["more"]
                if before is None:
                    break
            assert seen == sorted(jobs, reverse=True)

    run(tmp_path, story)


def test_whoever_watches_hears_of_the_end_at_once(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer, scene.peer() as other:
            job = (await other.done(verb="submit_job", tasks=[{"command": "x"}]))["job"]
            first = await peer.done(verb="watch_jobs", job=[job])
            assert (first["done"], first["jobs"][0]["state"]) == (False, "Running")
            await scene.end(job, exit_code=1)
            last = await peer.receive()
            assert (last["done"], last["jobs"][0]["state"]) == (True, "Failed")

    run(tmp_path, story)


def test_a_watcher_of_many_jobs_is_told_of_those_that_change_and_of_all_at_the_end(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            jobs = [
                (await peer.done(verb="submit_job", tasks=[{"command": "x"}], terms={"numprocessors": "1"}))[
                    "job"
                ]
                for _ in range(2)
            ]
            answer = [await peer.done(verb="watch_jobs", job=jobs)]
            for job in jobs:
                await scene.end(job, exit_code=0)
                answer.append(await peer.receive())
            assert [[job["id"] for job in one["jobs"]] for one in answer] == [jobs, jobs[:1], jobs]
            assert [one["done"] for one in answer] == [False, False, True]

    run(tmp_path, story)


def test_an_explanation_names_what_is_missing_and_who_is_ahead(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            wide = {"numprocessors": "2"}
            await peer.done(verb="submit_job", tasks=[{"command": "x"}], terms=wide | {"runtime": "10"})
            second = (await peer.done(verb="submit_job", tasks=[{"command": "x"}], terms=wide))["job"]
            third = (await peer.done(verb="submit_job", tasks=[{"command": "x"}], terms=wide))["job"]
            answer = await peer.done(verb="explain_job", job=second)
            assert (answer["ahead"], answer["planned_start"]) == (0, 1_000_600.0)
            assert any(reason["kind"] == "processors" for reason in answer["reasons"])
            assert (await peer.done(verb="explain_job", job=third))["ahead"] == 1

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"verb": "submit_jbo"}, "verb"),
        ({"verb": "job"}, "field"),
        ({"verb": "job", "job": "seven"}, "field"),
        ({"verb": "job", "job": 7, "jbo": 7}, "field"),
        ({"verb": "job", "job": 7}, "no-such-job"),
        ({"verb": "task", "job": 7, "task": 1}, "no-such-job"),
        ({"verb": "jobs", "states": ["sleeping"]}, "state"),
        ({"verb": "nodes", "states": ["sleeping"]}, "state"),
        ({"verb": "node", "node": "n9"}, "no-such-node"),
        ({"verb": "watch_jobs", "job": []}, "no-jobs"),
        ({"verb": "submit_job", "jobfile": "<Job"}, "not-xml"),
        ({"verb": "submit_job", "tasks": [{"command": "x"}], "terms": {"runtime": "soon"}}, "run-time"),
        ({"verb": "submit_job", "tasks": [{"command": "x"}], "terms": {"priority": "4001"}}, "priority"),
        ({"verb": "submit_job", "tasks": [{"command": "x"}], "terms": {"prioritty": "1"}}, "unknown-option"),
        ({"verb": "submit_job", "tasks": [{"command": "x"}], "terms": {"numprocessors": "3"}}, "never-fits"),
        ({"verb": "submit_job", "tasks": [{"command": " "}]}, "no-command"),
        ({"verb": "set_parameters", "values": {"Nonsuch": "1"}}, "no-such-parameter"),
        ({"verb": "set_parameters", "values": {"SchedulingPolicy": "lottery"}}, "parameter-value"),
        ({"do": "job"}, "request"),
    ],
)
def test_bad_requests_are_refused_with_a_code_and_the_connection_goes_on(
    tmp_path: Path, request_fields: dict[str, Any], code: str
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            assert await peer.refused(**request_fields) == code
            assert (await peer.done(verb="ping"))["cluster"] == "test"
            assert not scene.engine.cluster.jobs

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("request_fields", "text"),
    [
        ({"verb": "job"}, "job: the field 'job' is missing"),
        ({"verb": "job", "job": "seven"}, "job: the field 'job' is of type str, and must be of type int"),
        ({"verb": "job", "job": 7, "jbo": 7}, "job: there is no field 'jbo'"),
    ],
)
def test_a_wrong_field_is_named_in_a_sentence(
    tmp_path: Path, request_fields: dict[str, Any], text: str
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            assert text in (await peer.ask(**request_fields))["what"]

    run(tmp_path, story)


LATE_TASK = [{"command": "x"}, {"command": "x", "depend": "nobody"}]
LATE_JOB = json.dumps(
    {"jobs": [{"command": "x"}, {"tasks": [{"command": "x"}, {"command": "x", "depends_on": "nobody"}]}]}
)
FAR_AHEAD = {"holduntil": "9999-01-01"}


@pytest.mark.parametrize(
    ("request_fields", "error_class", "path"),
    [
        ({"verb": "job", "job": "seven"}, "bad-input", ["job"]),
        ({"verb": "job", "job": 7}, "not-found", []),
        ({"verb": "submit_job", "tasks": [7]}, "bad-input", ["tasks", 0]),
        ({"verb": "submit_job", "tasks": [{}, {"runtime": "soon"}]}, "bad-input", ["tasks", 1, "runtime"]),
        ({"verb": "submit_job", "terms": {"runtime": "soon"}}, "bad-input", ["terms", "runtime"]),
        ({"verb": "submit_job", "tasks": LATE_TASK}, "bad-input", ["tasks", 1, "depends_on", 0]),
        ({"verb": "submit_job", "jobfile": LATE_JOB}, "bad-input", ["jobs", 1, "tasks", 1, "depends_on", 0]),
        ({"verb": "submit_job", "tasks": LATE_TASK[:1], "terms": FAR_AHEAD}, "bad-input", ["hold_until"]),
        ({"verb": "set_parameters", "values": {"SchedulingDepth": 7}}, "bad-input", ["values"]),
        ({"verb": "set_parameters", "values": {"Licences": "x" * 70_000}}, "bad-input", ["values"]),
        ({"verb": "read_output", "job": 1, "task": 1}, "busy", []),
        ({"verb": "submit_job", "job": 1}, "conflict", []),
    ],
)
def test_an_error_says_what_a_program_can_do_and_where_the_request_is_wrong(
    tmp_path: Path, request_fields: dict[str, Any], error_class: str, path: list[str | int]
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await peer.done(verb="submit_job", tasks=[{"command": "x"}])
            answer = await peer.ask(**request_fields)
            assert (answer["class"], answer["path"]) == (error_class, path), answer

    run(tmp_path, story)


@pytest.mark.parametrize(
    "bytes_sent",
    [b"\xff\xff\xff\xff", b"\0\0\0\x05ab", frame(b"{"), frame(b"[]"), frame(b"\xff\xfe"), frame(b"")],
    ids=["too large", "cut short", "no JSON", "no object", "no UTF-8", "empty"],
)
def test_garbage_costs_its_sender_one_connection_and_nobody_else_anything(
    tmp_path: Path, bytes_sent: bytes
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as bad, scene.peer() as good:
            bad.writer.write(bytes_sent)
            bad.writer.write_eof()
            answer = json.loads(await read_frame(bad.reader, MAX_REQUEST) or b"{}")
            assert answer["ok"] is False
            assert (await good.done(verb="ping"))["ok"]

    run(tmp_path, story)


def test_a_socket_whose_path_is_too_long_for_the_kernel_is_reached_all_the_same(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    listener = listen(deep / "head.sock", 0o600)
    with listener, socket.socket(socket.AF_UNIX) as client:
        directory = os.open(deep, os.O_PATH)
        client.connect(f"/proc/self/fd/{directory}/head.sock")
        os.close(directory)


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS.values() if verb.kind is VerbKind.ANSWER], ids=lambda verb: verb.name
)
def test_every_verb_declares_what_it_is_asked_and_what_it_answers(verb: Verb[Any, Any]) -> None:
    assert issubclass(verb.request, VerbRequest)
    assert issubclass(verb.answer, VerbAnswer)


def test_the_page_of_the_protocol_names_every_verb() -> None:
    page = PROTOCOL.read_text()
    assert [verb for verb in VERBS if f"`{verb}`" not in page] == []


def test_what_the_disk_refuses_is_said_and_nothing_of_it_has_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        def full(*args: object, **more: object) -> int:
            raise Unavailable(code="journal-full", what="the disk is full", fix="free space")

        async with scene.peer() as peer:
            kept = (await peer.done(verb="submit_job", tasks=[{"command": "x"}]))["job"]
            with monkeypatch.context() as patch:
                patch.setattr(scene.engine.journal, "append", full)
                assert await peer.refused(verb="submit_job", tasks=[{"command": "x"}]) == "journal-full"
                assert await peer.refused(verb="cancel_job", job=kept) == "journal-full"
                assert (await peer.done(verb="job", job=kept))["job"]["state"] == "Running"
            assert (await peer.done(verb="submit_job", tasks=[{"command": "x"}]))["job"] == kept + 1

    run(tmp_path, story)


def test_a_job_file_of_ten_thousand_tasks_is_one_request(tmp_path: Path) -> None:
    one = '<Task CommandLine="x" MinimumNumberOfProcessors="1" MaximumNumberOfProcessors="1"/>'
    file = f'<Job xmlns="http://www.microsoft.com/ComputeCluster/"><Tasks>{one * 10_000}</Tasks></Job>'

    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = (await peer.done(verb="submit_job", jobfile=file))["job"]
            assert (await peer.done(verb="job", job=job))["job"]["tasks"]["total"] == 10_000

    run(tmp_path, story)
