"""A head explains: what is in a job's way, what would let it start, and what submitting would do."""

from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run

from headnode.apps.cli.screens.explain import explanation_page
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId, SortKey
from headnode.core.scheduling.policies import POLICIES, OrderedPolicy
from headnode.core.scheduling.view import View
from headnode.core.state import join as c
from headnode.core.state.cluster_state import ClusterState

NOW = 1_000_000.0
KEYS = {
    "job", "name", "state", "policy", "refused", "reasons", "ahead", "jobs_ahead", "planned_start",
    "would_start", "reservation", "blocked_by", "changes", "searched", "incomplete", "expected", "tasks",
    "deadline", "dependencies", "site", "score",
}  # fmt: skip
FILE = '<Job xmlns="http://www.microsoft.com/ComputeCluster/" MinimumNumberOfProcessors="{0}" \
MaximumNumberOfProcessors="{0}"><Tasks><Task CommandLine="x" MinimumNumberOfProcessors="{0}" \
MaximumNumberOfProcessors="{0}"/></Tasks></Job>'


async def submitted(peer: Peer, processors: str, command: str = "x", **terms: str) -> int:
    sizes = {"numprocessors": processors}
    task = {"command": command} if "-" in processors else {"command": command} | sizes
    answer = await peer.done(verb="submit_job", tasks=[task], terms=sizes | terms)
    return int(answer["job"])


async def explained(peer: Peer, job: int) -> dict[str, Any]:
    answer = await peer.done(verb="explain_job", job=job)
    assert set(answer) == KEYS | {"ok"}
    return answer


def changed_texts(answer: dict[str, Any]) -> list[str]:
    return [change["text"] for change in answer["changes"]]


def journal_of(scene: Scene) -> tuple[Any, ...]:
    """Return everything that a submission would leave behind."""
    cluster: ClusterState = scene.engine.cluster
    events = list(scene.engine.journal.replay())
    return events, cluster.next_job, cluster.next_order, dict(cluster.queue.by_request), scene.engine.number


def test_a_waiting_job_is_told_who_is_ahead_what_is_reserved_and_what_would_let_it_start(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await submitted(peer, "1", runtime="30")
            large = await submitted(peer, "2", runtime="10", jobname="large")
            mine = await submitted(peer, "1", runtime="60")
            answer = await explained(peer, mine)
            assert (answer["ahead"], [ahead["job"] for ahead in answer["jobs_ahead"]]) == (1, [large])
            behind = answer["blocked_by"]
            assert (behind["job"], behind["name"], behind["at"]) == (large, "large", NOW + 1800)
            assert behind["nodes"] == [{"node": "n1", "processors": 2}]
            assert {reason["kind"] for reason in answer["reasons"]} == {"priority", "reservation"}
            first = answer["changes"][0]
            assert first["text"] == "with a run time limit of at most 30m instead of 1h"
            assert (first["now"], first["at"]) == (True, NOW)
            assert first["command"] == f"hn job modify {mine} /runtime:30m"
            assert first["options"] == {"runtime": "30m"}
            assert first["nodes"] == [{"node": "n1", "processors": 1}]
            await peer.done(verb="modify_job", job=mine, terms=first["options"])
            assert (await peer.done(verb="job", job=mine))["job"]["state"] == "Running"
            assert (await explained(peer, large))["reservation"] == {
                "at": NOW + 1800,
                "nodes": behind["nodes"],
            }

    run(tmp_path, story)


def by_priority_and_size(view: View) -> dict[JobId, SortKey]:
    """Return keys that depend on what a user can change: the priority, and then the size."""
    return {turn.job: (-turn.priority, each.request.minimum) for each in view.queue for turn in each.turns}


def test_changes_are_tried_in_the_order_that_the_policy_gives_to_the_changed_job(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        policies = scene.engine.policies
        assert isinstance(policies, dict)
        policies.update({name: OrderedPolicy(by_priority_and_size, plan) for name, plan in POLICIES.items()})
        async with scene.peer() as peer:
            await submitted(peer, "1", runtime="30")
            await submitted(peer, "2", runtime="10", priority="Normal+1")
            mine = await submitted(peer, "1", runtime="60")
            answer = await explained(peer, mine)
            options = [change["options"] for change in answer["changes"] if "priority" in change["options"]]
            assert options == [{"priority": "Normal+1"}]  # then it is the smaller of two equals
            await peer.done(verb="modify_job", job=mine, terms=options[0])
            assert (await peer.done(verb="job", job=mine))["job"]["state"] == "Running"

    run(tmp_path, story)


def test_every_command_that_is_told_lets_the_job_start(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        facts = NodeFacts(name="n2", processors=2, memory=4000, groups=("fast",))
        async with scene.peer() as peer:
            await scene.batcher.ask(c.RegisterNode(facts=facts, approved=True))
            await submitted(peer, "2", runtime="600", requestednodes="n1")
            wishes: list[tuple[str, dict[str, str]]] = [
                ("3-4", {}),
                ("1-1", {"requestednodes": "n1"}),
                ("2-2", {"memorypernode": "8000"}),
                ("1-1", {"nodegroup": "fast,faster"}),
                ("1-1", {"corespernode": "3"}),
                ("1-1", {"excludednodes": "n2"}),
                ("2-2", {"requestednodes": "n1"}),
            ]
            await scene.batcher.ask(c.RegisterNode(facts=NodeFacts(name="n3", processors=1), approved=True))
            for size, terms in wishes:
                filler = await submitted(peer, "1", requestednodes="n3")
                made = await peer.ask(
                    verb="submit_job", tasks=[{"command": "y"}], terms=terms | {"numprocessors": size}
                )
                if not made["ok"]:
                    assert made["code"] == "never-fits"
                    await scene.end(filler)
                    continue
                answer = await explained(peer, made["job"])
                assert answer["changes"], (size, terms, answer)
                for change in answer["changes"]:
                    if change["now"] and change["command"]:
                        await peer.done(verb="modify_job", job=made["job"], terms=change["options"])
                        break
                assert (await peer.done(verb="job", job=made["job"]))["job"]["state"] == "Running", answer
                await scene.end(made["job"])
                await scene.end(filler)

    run(tmp_path, story)


def test_a_size_that_tasks_ask_for_themselves_is_reported_as_another_submission(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await submitted(peer, "1")
            waiting = await submitted(peer, "2")
            answer = await explained(peer, waiting)
            (change,) = answer["changes"]
            assert change["text"] == "with 1 processor instead of 2, submitted again"
            assert (change["command"], change["options"]) == ("", {"numprocessors": "1"})

    run(tmp_path, story)


def test_a_job_that_is_held_or_waits_for_parents_is_told_that_first_and_what_it_would_meet_in_the_line(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            held = await submitted(peer, "1", holduntil="30")
            answer = await explained(peer, held)
            assert [reason["kind"] for reason in answer["reasons"]] == ["hold"]
            assert (answer["planned_start"], answer["would_start"]) == (NOW + 1800, [])
            (lift,) = answer["changes"]
            assert (lift["text"], lift["command"]) == (
                "without the hold",
                f"hn job modify {held} /holduntil:",
            )
            await submitted(peer, "2")
            child = await submitted(peer, "1", parentjobids=str(held))
            answer = await explained(peer, child)
            assert [r["kind"] for r in answer["reasons"]] == ["dependency", "processors", "node"]
            assert (answer["changes"], answer["searched"], answer["planned_start"]) == ([], False, None)

    run(tmp_path, story)


def test_jobs_in_every_other_state_have_an_answer(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            draft = (await peer.done(verb="create_job", terms={"numprocessors": "1"}))["job"]
            await peer.done(verb="add_tasks", job=draft, tasks=[{"command": "x"}])
            assert (await explained(peer, draft))["would_start"] == [{"node": "n1", "processors": 1}]
            no_command = (await peer.done(verb="create_job", terms={}))["job"]
            await peer.done(verb="add_tasks", job=no_command, tasks=[{"command": " "}])
            assert (await explained(peer, no_command))["refused"]["code"] == "no-command"
            running = await submitted(peer, "2")
            assert (await explained(peer, running))["state"] == "Running"
            answer = await explained(peer, draft)
            assert answer["would_start"] == []
            assert answer["reasons"]
            await scene.end(running)
            over = await explained(peer, running)
            assert (over["state"], over["reasons"], over["changes"]) == ("Finished", [], [])

    run(tmp_path, story)


def test_a_dry_run_says_where_the_job_would_start_and_leaves_no_trace(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            before = journal_of(scene)
            answer = await peer.done(verb="check_job", tasks=[{"command": "x"}], terms={"jobname": "try"})
            reply = answer["explanation"]
            assert set(reply) == KEYS
            assert reply["would_start"] == [{"node": "n1", "processors": 1}]
            assert (answer["job"]["id"], answer["job"]["name"], answer["job"]["state"]) == (
                None, "try", "Configuring",
            )  # fmt: skip
            file = await peer.done(verb="check_job", jobfile=FILE.format(2))
            assert file["explanation"]["would_start"] == [{"node": "n1", "processors": 2}]
            assert journal_of(scene) == before

    run(tmp_path, story)


def test_a_dry_run_of_a_job_that_would_wait_is_explained_like_one_that_waits(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await submitted(peer, "1", runtime="30")
            before = journal_of(scene)
            task = {"command": "x", "numprocessors": "2"}
            terms = {"numprocessors": "2"}
            answer = (await peer.done(verb="check_job", tasks=[task], terms=terms))["explanation"]
            assert (answer["planned_start"], answer["expected"]["promise"]) == (NOW + 1800, NOW + 1800)
            (change,) = answer["changes"]
            assert (change["text"], change["options"]) == (
                "with 1 processor instead of 2", {"numprocessors": "1"},
            )  # fmt: skip
            assert change["command"] == ""
            file = (await peer.done(verb="check_job", jobfile=FILE.format(2)))["explanation"]
            assert [change["options"] for change in file["changes"]] == [{}]  # the file itself must say so
            held = await peer.done(verb="check_job", tasks=[{"command": "x"}], terms={"holduntil": "5"})
            assert [r["kind"] for r in held["explanation"]["reasons"]] == ["hold"]
            assert journal_of(scene) == before

    run(tmp_path, story)


def test_a_job_behind_others_that_is_not_submitted_yet_is_told_when_it_would_start_by_limits(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            for _ in range(3):
                await submitted(peer, "2", runtime="30")
            answer = (await peer.done(verb="check_job", tasks=[{"command": "x"}]))["explanation"]
            assert (answer["ahead"], answer["expected"]["promise"]) == (2, NOW + 3 * 1800)

    run(tmp_path, story)


def test_a_dry_run_of_a_job_that_was_made_shows_what_submitting_it_would_do(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            draft = (await peer.done(verb="create_job", terms={"numprocessors": "1"}))["job"]
            await peer.done(verb="add_tasks", job=draft, tasks=[{"command": "x"}])
            before = journal_of(scene)
            answer = await peer.done(verb="check_job", job=draft, terms={"numprocessors": "2"})
            assert answer["explanation"]["would_start"] == [{"node": "n1", "processors": 2}]
            assert answer["job"]["id"] == draft
            assert journal_of(scene) == before
            running = await submitted(peer, "1")
            assert await peer.refused(verb="check_job", job=running) == "already-submitted"
            await scene.end(running)
            assert await peer.refused(verb="check_job", job=running) == "already-submitted"
            answer = await peer.ask(verb="submit_job", job=running)
            assert answer["fix"] == f"submit a copy: hn job clone {running}"  # it finished: no requeue

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("fields", "code", "status"),
    [
        ({"tasks": [{"command": " "}]}, "no-command", 2),
        ({"tasks": [{"command": "x"}], "terms": {"runtime": "soon"}}, "run-time", 2),
        ({"tasks": [{"command": "x"}], "terms": {"numprocessors": "3"}}, "never-fits", 2),
        ({"tasks": [{"command": "x"}], "terms": {"parentjobids": "99"}}, "no-such-parent", 1),
        ({"jobfile": "<Job"}, "not-xml", 2),
        ({"job": 99}, "no-such-job", 1),
        ({"job": 99, "tasks": [{"command": "x"}]}, "id-and-description", 2),
    ],
)
def test_a_dry_run_is_refused_as_the_submission_would_be(
    tmp_path: Path, fields: dict[str, Any], code: str, status: int
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            tried, real = [await peer.ask(verb=verb, **fields) for verb in ("check_job", "submit_job")]
            assert tried == real
            assert (tried["code"], tried["exit_status"]) == (code, status)

    run(tmp_path, story)


def test_a_busy_node_names_the_jobs_that_hold_it_and_when_they_end(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            first = await submitted(peer, "1", runtime="30")
            second = await submitted(peer, "1")
            mine = await submitted(peer, "1")
            me = (await peer.done(verb="job", job=mine))["job"]["owner"]
            (busy,) = [each for each in (await explained(peer, mine))["reasons"] if each["subject"] == "n1"]
            assert busy["text"] == "node 'n1' has all 2 processors in use"
            assert busy["holders"] == [
                {"job": first, "processors": 1, "until": NOW + 1800, "owner": me},
                {"job": second, "processors": 1, "until": None, "owner": me},
            ]
            answer = await peer.done(verb="explain_job", job=mine)
            shown = explanation_page(answer, (await peer.done(verb="job", job=mine))["job"], now=NOW)
            row = " ".join(shown[shown.index("Node by node") :].split())
            assert (
                f"n1 has all 2 processors in use: job {first} of {me} holds 1 and ends in 30 min "
                f"at the latest; job {second} of {me} holds 1 and has no run time limit"
            ) in row

    run(tmp_path, story)


def test_a_node_that_could_not_serve_the_job_if_it_was_free_names_nobody(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.batcher.ask(c.RegisterNode(facts=NodeFacts(name="n2", processors=1), approved=True))
        async with scene.peer() as peer:
            await submitted(peer, "2", runtime="30")
            await submitted(peer, "1", runtime="30")
            mine = await submitted(peer, "1", requestednodes="n1")
            reasons = {each["subject"]: each for each in (await explained(peer, mine))["reasons"]}
            assert "holders" in reasons["n1"]
            assert "holders" not in reasons.get("n2", {})

    run(tmp_path, story)
