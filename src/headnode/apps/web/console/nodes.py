"""The nodes as a list and as a heat map of one selection, and the page of one node with its actions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.datastructures import FormData

from headnode.apps.cli.screens import node as node_screen
from headnode.apps.readable_values import counted
from headnode.apps.web.console.job_rows import as_listed, job_rows, node_mark
from headnode.apps.web.console.load_chart import node_chart
from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    GoTo,
    HeadAnswer,
    Model,
    PageMessage,
    Visit,
    texts,
)
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.node import folded_names, natural_order

STATES: Final = ("", "Ready", "Pending", "Paused", "Draining", "Drained", "Unreachable", "Not-ready")
METRICS: Final[Mapping[str, str]] = {
    "used": "Processors in use, %",
    "free": "Free processors",
    "jobs": "Jobs",
    "processors": "Processors",
    "memory": "Memory, MB",
}
MAX_METRICS: Final = 3
STEPS: Final = 9  # of the colours of a heat map
JOBS_SHOWN: Final = 50
HISTORY_SHOWN: Final = 50


async def show_nodes(visit: Visit) -> Model:
    """Return the nodes that fit the address, as a list or as tiles."""
    every = (await visit.ask("nodes"))["nodes"]
    state, group = visit.query.get("state", "").capitalize(), visit.query.get("group", "")
    name = visit.query.get("name", "").strip()
    chosen = [node for node in every if _fits(node, state, group, name)]
    tiles = visit.query.get("view") == "map"
    metrics = [word for word in visit.request.query_params.getlist("metric") if word in METRICS][:MAX_METRICS]
    metrics = metrics or ["used"]
    return {
        "title": "Nodes",
        "rows": [node_row(node) for node in chosen],
        "tiles": heat_map(chosen, metrics, visit.query.get("scale", "")) if tiles else None,
        "metrics": [{"word": word, "name": text, "on": word in metrics} for word, text in METRICS.items()],
        "scale": visit.query.get("scale", ""),
        "views": [("List", visit.here(view=None), not tiles), ("Heat map", visit.here(view="map"), tiles)],
        "groups": sorted({group for node in every for group in node["groups"]}),
        "query": {"state": visit.query.get("state", ""), "group": group, "name": name},
        "chips": [
            {
                "name": word.replace("-", " ") or "All",
                "count": sum(_fits(node, word, "", "") for node in every),
                "path": visit.here(state=word.lower() or None),
                "here": word == state,
            }
            for word in STATES
            if not word or any(_fits(node, word, "", "") for node in every)
        ],
        "total": len(every),
    }


def _fits(node: HeadAnswer, state: str, group: str, name: str) -> bool:
    if state == "Not-ready":
        fits = node["state"] != "Ready"
    else:
        fits = not state or node["state"] == state
    pattern = name if any(char in name for char in "*?[") else f"*{name}*"
    return fits and (not group or group in node["groups"]) and fnmatchcase(node["name"], pattern)


def node_row(node: HeadAnswer) -> Model:
    """Return what a row shows of a node; the words are those of ``hn node list``."""
    row = node_screen.row(node)
    return {
        **{name: node[name] for name in ("name", "state", "processors", "used", "free", "groups", "memory")},
        "mark": node_mark(node),
        "jobs": node["jobs"] if isinstance(node["jobs"], int) else len(node["jobs"]),
        "reason": row.get(node_screen.REASON, ""),
        "path": f"/nodes/{quote(node['name'], safe='')}",
    }


def heat_map(nodes: Sequence[HeadAnswer], metrics: Sequence[str], scale: str) -> list[Model]:
    """Return a tile for each node with a step of colour, 0 to 9, for each metric.

    `scale` is "quantile", or the value of the darkest colour; else the largest value has it.
    """
    values = {word: [_metric(node, word) for node in nodes] for word in metrics}
    tops = {word: _top(word, of_all, scale) for word, of_all in values.items()}
    ranks = {word: sorted(of_all) for word, of_all in values.items()}

    def step(word: str, value: float) -> int:
        if scale == "quantile":
            below = sum(each < value for each in ranks[word])
            return round(STEPS * below / max(1, len(nodes) - 1))
        return min(STEPS, round(STEPS * value / tops[word]))

    return [
        {
            **node_row(node),
            "values": [
                {
                    "name": METRICS[word],
                    "value": round(values[word][number]),
                    "step": step(word, values[word][number]),
                }
                for word in metrics
            ],
        }
        for number, node in enumerate(nodes)
    ]


def _top(word: str, values: Sequence[float], scale: str) -> float:
    if scale.isascii() and scale.isdigit() and int(scale[:12]) > 0:
        return float(scale[:12])
    return 100.0 if word == "used" else max([1.0, *values])


def _metric(node: HeadAnswer, word: str) -> float:
    if word == "used":
        return 100.0 * node["used"] / node["processors"] if node["processors"] else 0.0
    value = node[word]
    return float(len(value) if isinstance(value, list) else value)


# ---------------------------------------------------------------- one node

_TITLES: Final = {"Max": "Processors", "Run": "In Use", "Idle": "Free"}
"""The words of ``hn node view``, which are those of HPC Pack -> those of the page."""
_ELSEWHERE: Final = ("Jobs", "Node Name", "Availability")


async def show_node(visit: Visit) -> Model:
    """Return the facts of a node, the jobs on it, and its history."""
    name = visit.request.path_params["node"]
    node = (await visit.ask("node", node=name))["node"]
    jobs = [(await visit.ask("job", job=job))["job"] for job in node["jobs"][:JOBS_SHOWN]]
    history = (await visit.ask("node_history", node=name, limit=HISTORY_SHOWN))["history"]
    facts = node_screen.view(node)
    return {
        "title": f"Node {node['name']}",
        "name": node["name"],
        "path": f"/nodes/{quote(node['name'], safe='')}",
        "node": node,
        "mark": node_mark(node),
        "reason": node_row(node)["reason"],
        "actions": actions_of(node),
        "jobs": job_rows([as_listed(job) for job in jobs], visit.now),
        "chart": await node_chart(visit, node["name"], jobs, node["processors"]),
        "more_jobs": max(0, len(node["jobs"]) - JOBS_SHOWN),
        "facts": [(_TITLES.get(key, key), value) for key, value in facts.items() if key not in _ELSEWHERE],
        "history": history[::-1],
    }


def actions_of(node: HeadAnswer) -> list[str]:
    """Return what an administrator can do with a node in its state."""
    state = node["state"]
    first = {
        "Pending": ["approve"],
        "Ready": ["pause", "drain"],
        "Paused": ["resume", "drain"],
        "Draining": ["resume"],
        "Drained": ["resume"],
        "Unreachable": ["pause", "drain"],
    }.get(state, [])
    if node["drains"] and "resume" not in first:
        first = ["resume", *first]
    return [*first, "remove"]


_VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "approve": ("approve_node", "Node {node} takes jobs now."),
    "pause": ("pause_node", "Node {node} starts no new jobs."),
    "resume": ("resume_node", "Node {node} takes jobs again."),
    "remove": ("remove_node", "Node {node} is removed."),
    "drain": ("drain_node", "Node {node} is being drained."),
}


async def act_on_node(visit: Visit, form: FormData) -> GoTo:
    """Carry out an action on one node."""
    node, word = visit.request.path_params["node"], visit.request.path_params["word"]
    message = await _act(visit, node, word, form)
    path = "/nodes" if word == "remove" else f"/nodes/{quote(node, safe='')}"
    return GoTo(path, PageMessage(message))


async def _act(visit: Visit, node: str, word: str, form: FormData) -> str:
    """Carry out an action; return what to say of it.

    Raises:  BadRequest ``action``; the refusal of the head.
    """
    if word == "set":
        fields = {name: texts(form, name) for name in ("groups", "features")}
        names = {
            name: [each.strip() for each in text.split(",") if each.strip()] for name, text in fields.items()
        }
        await visit.ask("modify_node", node=node, comment=texts(form, "comment"), **names)
        return f"Node {node} is changed."
    if word not in _VERBS:
        raise BadRequest(
            code="action", what=f"there is no action {word!r}", fix=f"choose {', '.join(_VERBS)}"
        )
    verb, sentence = _VERBS[word]
    more = _drain_fields(form) if word == "drain" else {}
    await visit.ask(verb, node=node, **more)
    return sentence.format(node=node)


def _drain_fields(form: FormData) -> dict[str, Any]:
    """Return when a drain begins, why, and whether what runs is stopped.

    Raises:  BadRequest ``time``, ``reason``.
    """
    at, reason = texts(form, "closes"), texts(form, "reason")
    if not reason:
        raise BadRequest(code="reason", what="a drain needs a reason", fix="say why the node is drained")
    try:
        closes = datetime.fromisoformat(at).timestamp() if at else None
    except (ValueError, OverflowError):
        raise BadRequest(
            code="time", what=f"{at!r} is not a date", fix="write it as 2026-12-31T18:00"
        ) from None
    return {"closes": closes, "reason": reason, "force": bool(texts(form, "force"))}


async def act_on_nodes(visit: Visit, form: FormData) -> GoTo:
    """Carry out an action on several nodes; say how many took it.

    Raises:  BadRequest ``action``.
    """
    word, done, refused = texts(form, "do"), 0, []
    chosen = list(dict.fromkeys(each for each in form.getlist("node") if isinstance(each, str)))
    if word == "run":
        return GoTo(f"/run?{urlencode({'nodes': ','.join(folded_names(sorted(chosen, key=natural_order)))})}")
    if word not in ("approve", "pause", "resume", "drain"):
        raise BadRequest(
            code="action", what="no action was chosen", fix="choose approve, pause, resume or drain"
        )
    for node in chosen:
        try:
            await _act(visit, node, word, form)
            done += 1
        except HeadnodeError as error:
            refused.append((node, error))
    message = f"{word.capitalize()}: {counted(done, 'node')}"
    if not refused:
        return GoTo("/nodes", PageMessage(f"{message}."))
    node, why = refused[0]
    return GoTo(
        "/nodes", PageMessage(f"{message}; {len(refused)} refused. {node}: {why.what}.", "problem", why.fix)
    )


async def invite(visit: Visit, form: FormData) -> GoTo:
    """Make an invitation for a node; the message has the line to type there."""
    answer = await visit.ask(
        "invite_node", node=texts(form, "node") or None, approve=bool(texts(form, "approve"))
    )
    name = f" --name {answer['node']}" if answer["node"] else ""
    line = f"hn agent --join {answer['invitation']}{name}"
    return GoTo(
        "/nodes",
        PageMessage(
            f"On the new machine, type: {line}", "warning", "The invitation works once, for 24 hours."
        ),
    )


NODE_PAGES: Final = (
    ConsolePage("/nodes", "nodes.html", show_nodes),
    ConsolePage("/nodes/{node}", "node.html", show_node),
)
NODE_ACTIONS: Final = (
    ConsoleAction("/nodes/invite", invite),
    ConsoleAction("/nodes", act_on_nodes),
    ConsoleAction("/nodes/{node}/{word}", act_on_node),
)
