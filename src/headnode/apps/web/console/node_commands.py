"""A command on many nodes, and the shell of a job, in pages."""

import base64
import secrets
from collections import defaultdict
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final

from starlette.datastructures import FormData

from headnode.apps.web.console.job import frame
from headnode.apps.web.console.job_output import styled
from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    FormAgain,
    HeadAnswer,
    Model,
    Visit,
    numbers,
    texts,
)
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.node import folded_names, natural_order

USUAL_TIME: Final = 30  # seconds that a command may run on a node
MAX_TIME: Final = 300
MAX_OF_NODE: Final = 64 * 1024  # bytes of what a command says on a node
MAX_OF_ALL: Final = 1024 * 1024


async def show_run(visit: Visit) -> Model:
    """Return the empty form for a command on nodes."""
    return await _model(visit, {"nodes": visit.query.get("nodes", ""), "timeout": str(USUAL_TIME)})


async def _model(visit: Visit, filled: HeadAnswer) -> Model:
    nodes = (await visit.ask("nodes"))["nodes"]
    return {
        "title": "Run a command on nodes",
        "groups": sorted({group for node in nodes for group in node["groups"]}),
        "filled": filled,
        "error": None,
        "results": None,
        "cut": False,
    }


async def run(visit: Visit, form: FormData) -> FormAgain:
    """Run a command on nodes; show its output, once for all nodes with the same output."""
    filled = {name: texts(form, name) for name in ("command", "nodes", "group", "user", "timeout")}
    model = await _model(visit, filled)
    try:
        outputs = await _output_by_node(visit, _fields(filled))
    except HeadnodeError as error:
        return FormAgain("node_commands.html", model | {"error": {"what": error.what, "fix": error.fix}})
    cut = any(one["cut"] for one in outputs.values())
    return FormAgain("node_commands.html", model | {"results": same_together(outputs), "cut": cut}, 200)


def _fields(filled: HeadAnswer) -> HeadAnswer:
    """Return the fields of the verb that the form describes.

    Raises:  BadRequest ``empty``, ``no-nodes``, ``time``.
    """
    if not filled["command"]:
        raise BadRequest(code="empty", what="there is no command", fix="write the command to run")
    if not filled["nodes"] and not filled["group"]:
        raise BadRequest(
            code="no-nodes", what="no node is named", fix="name nodes, such as node[1-4], or a group"
        )
    seconds = numbers([filled["timeout"]])
    if not seconds or not 0 < seconds[0] <= MAX_TIME:
        raise BadRequest(
            code="time",
            what=f"{filled['timeout']!r} is not a time limit for a page",
            fix=f"write 1 to {MAX_TIME} seconds; for longer commands use hn run",
        )
    return {
        "command": filled["command"],
        "nodes": filled["nodes"],
        "groups": [filled["group"]] if filled["group"] else [],
        "timeout": float(seconds[0]),
        **({"user": filled["user"]} if filled["user"] else {}),
    }


async def _output_by_node(visit: Visit, fields: HeadAnswer) -> dict[str, HeadAnswer]:
    """Return what the command says on each node, and how it ends there.

    Raises:  what refuses it.
    """
    outputs: dict[str, HeadAnswer] = defaultdict(
        lambda: {"data": b"", "exit": None, "problem": "", "cut": False}
    )
    left = MAX_OF_ALL
    async with aclosing(visit.run_on_nodes(fields)) as lines:
        async for line in lines:
            if "node" not in line:
                outputs |= {node: outputs[node] for node in line.get("nodes", ())}
                continue
            one = outputs[line["node"]]
            data = base64.b64decode(line.get("out") or line.get("err") or "")
            room = max(0, min(MAX_OF_NODE - len(one["data"]), left))
            one["data"] += data[:room]
            one["cut"] = one["cut"] or len(data) > room
            left -= min(len(data), room)
            if "exit" in line:
                one |= {"exit": line["exit"], "problem": line.get("problem", "")}
    return outputs


def same_together(outputs: dict[str, HeadAnswer]) -> list[Model]:
    """Return what was said, failures first, nodes with the same output and end as one."""
    together: dict[tuple[bytes, int | None, str], list[str]] = defaultdict(list)
    for node, one in outputs.items():
        together[one["data"], one["exit"], one["problem"]].append(node)
    return [
        {
            "nodes": ", ".join(folded_names(sorted(nodes, key=natural_order))),
            "count": len(nodes),
            "exit": end,
            "problem": problem,
            "pieces": [piece._asdict() for piece in styled(data.decode(errors="replace"))],
        }
        for (data, end, problem), nodes in sorted(together.items(), key=_failures_first)
    ]


def _failures_first(entry: tuple[tuple[bytes, int | None, str], Iterable[str]]) -> tuple[bool, int]:
    (_, end, _), nodes = entry
    return end == 0, -len(list(nodes))


async def show_shell(visit: Visit) -> Model:
    """Return the page of a shell in a job; its script opens the conversation."""
    visit.nonce = secrets.token_urlsafe(16)
    return await frame(visit, "shell")


COMMAND_PAGES: Final = (
    ConsolePage("/run", "node_commands.html", show_run),
    ConsolePage("/jobs/{job:int}/shell", "shell.html", show_shell),
)
COMMAND_ACTIONS: Final = (ConsoleAction("/run", run),)
