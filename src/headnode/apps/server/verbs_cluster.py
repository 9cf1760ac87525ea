"""The verbs of the local protocol that are about nodes and the cluster."""

import asyncio
import os
import secrets
import time
from typing import Any, Final

from headnode import __version__
from headnode.apps.server import answers_nodes as show
from headnode.apps.server import wishes as w
from headnode.apps.server.answers_jobs import count_by_state
from headnode.apps.server.desk import Desk
from headnode.apps.server.node_history import told
from headnode.apps.server.program_trials import try_programs
from headnode.apps.server.verbs_access import whoami
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.permission import must_administer
from headnode.core.lifecycle.states import ACTIVE, JobState
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.engine.roster import Roster
from headnode.engine.settings import check_parameter, parameters_with

Object = dict[str, Any]

_LEFT_BEHIND: Final = 3600.0  # seconds after which a copy of the journal was forgotten by who asked for it
LONGEST_HISTORY = 10_000  # events of a node in one answer
EMPTIED = 5.0  # seconds for a node that is taken offline by force to tell that nothing runs there
BETWEEN_LOOKS = 0.02  # seconds


async def ping(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001
    """Say who answers."""
    return {
        "version": __version__,
        "cluster": desk.name,
        "pid": os.getpid(),
        "state_directory": str(desk.state),
    }


async def defaults(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001
    """Say what a job takes from the shell of its submitter, if it says nothing itself."""
    settings = desk.engine.settings
    return {
        "work_directory": settings.text("DefaultWorkDirectory"),
        "environment": settings.text("SubmitterEnvironment"),
    }


async def nodes(desk: Desk, by: User, wish: w.NodesWish) -> Object:  # noqa: ARG001
    """Show the nodes."""
    wanted = {state.strip().lower() for state in wish.states} - {"all", "*", ""}
    known = {word.lower() for word in show.NODE_WORDS}
    if wanted - known:
        raise BadRequest(
            code="state",
            what=f"{sorted(wanted - known)[0]!r} is not a state of a node",
            fix=f"use {', '.join(show.NODE_WORDS)} or all",
        )
    now = desk.now()
    shown = [
        show.node_object(desk.cluster, node, now)
        for _, node in sorted(desk.cluster.nodes.items())
        if not wanted or show.node_state(desk.cluster, node, now).lower() in wanted
    ]
    return {"nodes": shown}


async def node(desk: Desk, by: User, wish: w.NodeWish) -> Object:  # noqa: ARG001
    """Show one node."""
    return {"node": detailed(desk, wish.node)}


def detailed(desk: Desk, name: str) -> Object:
    """Return a node with its jobs and processors, when it was heard last, and when it will be given up."""
    now, contact, left = desk.now(), desk.contacts.get(name), desk.given_up_in(name)
    return show.detailed_node(desk.cluster, desk.cluster.node(name), now) | {
        "heard": None if contact is None else contact.at,
        "load": None if contact is None else contact.load,
        "given_up": None if left is None else now + left,
    }


async def node_history(desk: Desk, by: User, wish: w.NodeHistoryWish) -> Object:  # noqa: ARG001
    """Tell what happened to a node, also to one that was removed."""
    events = desk.lookups.archive.node_history(wish.node, min(wish.limit, LONGEST_HISTORY))
    if not events:
        desk.cluster.node(wish.node)  # refuses a name that nobody has had
    return {"history": [{"at": at, "text": text} for at, text in told(events)]}


async def approve_node(desk: Desk, by: User, wish: w.NodeWish) -> Object:
    """Let a pending node take jobs."""
    return await _change(desk, by, wish, "approve")


async def pause_node(desk: Desk, by: User, wish: w.NodeWish) -> Object:
    """Start no new jobs on a node."""
    return await _change(desk, by, wish, "pause")


async def resume_node(desk: Desk, by: User, wish: w.NodeWish) -> Object:
    """Let a paused or drained node take jobs again."""
    return await _change(desk, by, wish, "resume")


async def drain_node(desk: Desk, by: User, wish: w.DrainWish) -> Object:
    """Start no new jobs on a node but those that are over by a date; by force nothing runs there then."""
    closes = None if wish.closes is None else Instant(wish.closes)
    await desk.ask(c.DrainNode(by=by, node=wish.node, closes=closes, reason=wish.reason, force=wish.force))
    if wish.force:
        await _until_empty(desk, wish.node)
    return {"node": detailed(desk, wish.node)}


async def _until_empty(desk: Desk, node: str) -> None:
    """Wait until jobs have nothing of a node any more, but not long: its agent may not answer."""
    until = time.monotonic() + EMPTIED
    while desk.cluster.on_node(node) and time.monotonic() < until:
        await asyncio.sleep(BETWEEN_LOOKS)


async def _change(desk: Desk, by: User, wish: w.NodeWish, what: str) -> Object:
    await desk.ask(c.ChangeNode(by=by, node=wish.node, wish=what))
    return {"node": detailed(desk, wish.node)}


async def cluster(desk: Desk, by: User, wish: w.Wish) -> Object:
    """Show the cluster."""
    journal = desk.state / "journal.db"
    files = (journal, journal.with_name(journal.name + "-wal"))
    ended = desk.lookups.archive.count_ended(owner=None)
    return {
        "cluster": {
            "name": desk.name,
            "version": __version__,
            "started": desk.started,
            "jobs": count_by_state(desk.cluster, ended),
            "policy": desk.engine.settings.text("SchedulingPolicy"),
            "mode": desk.engine.settings.text("SchedulingMode"),
            **_plug_ins(desk),
            "notices": _notices(desk),
            "licence_trouble": desk.licences.problem,
            "you": await whoami(desk, by, wish),
            "state_directory": str(desk.state),
            "journal": {
                "events": desk.engine.number,
                "bytes": sum(file.stat().st_size for file in files if file.exists()),
                "damage": desk.lookups.archive.damage(),
            },
        }
        | show.cluster_counts(desk.cluster, desk.now())
    }


def _notices(desk: Desk) -> Object:
    """Say how many notices wait to be brought, and why the last one that was not brought was not."""
    if desk.notices is None:
        return {"waiting": 0, "problem": ""}
    return {"waiting": desk.notices.waiting(), "problem": desk.notices.problem}


def _plug_ins(desk: Desk) -> Object:
    """Say what is wrong with the policy in use, and which plug-ins there are."""
    roster = desk.engine.policies
    if not isinstance(roster, Roster):
        return {"policy_trouble": "", "plug_ins": []}
    return {
        "policy_trouble": roster.trouble(desk.engine.settings.text("SchedulingPolicy")),
        "plug_ins": [{"name": name, "trouble": trouble} for name, trouble in roster.troubles().items()],
    }


async def params(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001
    """Show the cluster's parameters."""
    settings = desk.engine.settings
    return {
        "params": [
            {
                "name": known.name,
                "value": settings.text(known.name),
                "default": known.default,
                "unit": known.unit,
                "doc": known.doc,
                "choices": known.choices,
            }
            for known in parameters_with(desk.engine.policies).values()
        ]
    }


async def set_params(desk: Desk, by: User, wish: w.ParamsWish) -> Object:
    """Set cluster parameters; all of them or, if one is wrong, none."""
    there_are = parameters_with(desk.engine.policies)
    known = [(check_parameter(name, value, there_are), value) for name, value in wish.values.items()]
    await try_programs(desk, {parameter.name: value for parameter, value in known})
    for parameter, value in known:
        await desk.ask(c.SetParameter(by=by, name=parameter.name, value=value))
    return await params(desk, by, w.Wish())


async def backup(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001
    """Copy the journal into a new file in the state directory, which the asker takes away."""
    must_administer(by, "make a backup")
    for left in desk.state.glob("backup-*.db*"):
        if time.time() - left.stat().st_mtime > _LEFT_BEHIND:
            left.unlink(missing_ok=True)
    copy = desk.state / f"backup-{secrets.token_hex(8)}.db"
    try:
        await asyncio.to_thread(desk.copy_journal, copy)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    return {"journal": str(copy), "cluster": desk.name, "done": True}


async def down(desk: Desk, by: User, wish: w.DownWish) -> Object:
    """End the head.  Running tasks go on and the next head learns how they ended, or all are canceled."""
    must_administer(by, "stop the head")
    if wish.cancel_jobs:
        active = (JobState.QUEUED, JobState.ENDING, *ACTIVE)
        jobs = [job for job, record in sorted(desk.cluster.jobs.items()) if record.state in active]
        why = "the cluster went down"
        await desk.ask_together([c.StopJob(by=by, job=job, outcome="canceled", message=why) for job in jobs])
        while desk.cluster.flows:
            await asyncio.sleep(0.02)
    running = show.cluster_counts(desk.cluster, desk.now())["tasks_running"]
    desk.going_down = True
    return {"running_tasks": running}
