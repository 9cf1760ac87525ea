"""``hn check``: is this job file right?  Reads it here; no head is needed."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", _client: "Client", out: "Output") -> int:
    """Print what is wrong with each file and what will have no effect; 2 if anything is wrong."""
    from headnode.apps.cli.fidelity import WORTH_TELLING, line
    from headnode.apps.cli.job_checks import ERROR, NOT_RUNNABLE, findings

    if not asked.words:
        raise usage("no job file was given", "write: hn check FILE")
    strict, worst = asked.flag("strict"), 0
    for file in asked.words:
        found = findings(file, strict=strict)
        wrong = any(finding["kind"] == ERROR for finding in found)
        worst = 2 if wrong else worst
        stays = any(finding["kind"] == NOT_RUNNABLE for finding in found)
        shown = (ERROR, NOT_RUNNABLE, *WORTH_TELLING)
        told = [line(finding, file) for finding in found if finding["kind"] in shown]
        verdict = [] if wrong or stays else _verdict(file, told)
        out.text("\n".join([*told, *verdict]), _data(file, wrong, found))
    return worst


def _verdict(file: str, told: list[str]) -> list[str]:
    return [f"{file}: it can be submitted" + (", with the differences above" if told else "")]


def _data(file: str, wrong: bool, found: "list[dict[str, Any]]") -> "dict[str, Any]":
    return {"file": file, "valid": not wrong, "findings": found}


COMMANDS = (
    Command(
        "check",
        "FILE...",
        "Tell what is wrong with a job file, by line and column",
        run,
        options=(Option("strict", "", "Hold it to the widths that the Compute Cluster tables publish, too"),),
        example="hn check sweep.xml",
        notes=("Exit status 0, or 2 when a file could not be submitted. Nothing is sent to a head.",),
    ),
)
