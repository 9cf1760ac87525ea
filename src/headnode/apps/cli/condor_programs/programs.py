"""The programs of HTCondor by their names, and those that are refused by name."""

import sys

from headnode.apps.cli.condor_programs.options import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headnode.apps.cli.condor_programs.options import CondorOptions
    from headnode.apps.client.client import Client

VERSION = "24.0.0"
_PURPOSES = {
    "condor_submit": ("[OPTIONS] [NAME=VALUE...] [FILE] [-queue ...]", "Submit the jobs of a submit file."),
    "condor_submit_dag": ("[OPTIONS] FILE", "Submit the jobs of a flow of DAGMan."),
    "condor_q": ("[OPTIONS] [CLUSTER|CLUSTER.PROCESS|USER...]", "List jobs."),
    "condor_history": ("[OPTIONS] [CLUSTER|CLUSTER.PROCESS|USER...]", "List jobs that have ended."),
    "condor_rm": ("[OPTIONS] CLUSTER|CLUSTER.PROCESS|USER...", "End jobs."),
    "condor_hold": ("[OPTIONS] CLUSTER|USER...", "Hold jobs until they are released."),
    "condor_release": ("[OPTIONS] CLUSTER|USER...", "Release jobs that are held."),
    "condor_prio": ("-p PRIORITY CLUSTER|USER...", "Change the priority of jobs."),
    "condor_wait": ("[-wait SECONDS] [-num N] LOG [ID]", "Wait for the jobs that have an event log."),
    "condor_status": ("[OPTIONS] [NODE...]", "List nodes."),
}
_REFUSED: "Mapping[str, str]" = {
    "condor_transfer_data": "output is copied back at the end of each job; see: hn task output ID",
    "condor_ssh_to_job": "use: hn job shell ID",
    "condor_qedit": "use: hn job modify ID, or condor_prio",
    "condor_tail": "use: hn task output ID --follow",
}


def run(program: str, words: "Sequence[str]", client: "Client") -> int:
    """Run a program.

    Raises:  ProgramRefusal.
    """
    if program in _REFUSED:
        raise refusal(f"{program} is not there: {_REFUSED[program]}")
    if any(word.lstrip("-") == "version" and word.startswith("-") for word in words[:1]):
        print(f"$CondorVersion: {VERSION} Headnode $\n$CondorPlatform: X86_64-Linux $")
        return 0
    if words[:1] and words[0].lstrip("-") in ("help", "h") and words[0].startswith("-"):
        return print_help(program)
    if program in ("condor_submit", "condor_submit_dag"):
        from headnode.apps.cli.condor_programs import submission

        return (submission.submit if program == "condor_submit" else submission.submit_flow)(words, client)
    if program in ("condor_rm", "condor_hold", "condor_release", "condor_prio"):
        from headnode.apps.cli.condor_programs import job_actions

        return job_actions.run(program, words, client)
    module = f"headnode.apps.cli.condor_programs.{program}"
    __import__(module)
    return int(sys.modules[module].run(words, client))


def options_of(program: str) -> "CondorOptions":
    """Return the options of a program."""
    if program.startswith("condor_submit"):
        from headnode.apps.cli.condor_programs.submission import OPTIONS, OPTIONS_OF_DAGS

        return OPTIONS if program == "condor_submit" else OPTIONS_OF_DAGS
    module = f"headnode.apps.cli.condor_programs.{program}"
    if program in ("condor_rm", "condor_hold", "condor_release", "condor_prio"):
        from headnode.apps.cli.condor_programs.job_actions import OPTIONS as OF_ACTIONS

        return OF_ACTIONS[program]
    __import__(module)
    found: CondorOptions = sys.modules[module].OPTIONS
    return found


def print_help(program: str) -> int:
    """Print the help of a program; return its exit status."""
    from textwrap import fill

    usage, purpose = _PURPOSES[program]
    table = options_of(program)
    kinds = (
        ("Options", [name for name, one in table.items() if not one.refused and not one.ignored]),
        ("Without effect", [name for name, one in table.items() if one.ignored]),
        ("Refused", [name for name, one in table.items() if one.refused]),
    )
    lines = [f"Usage: {program} {usage}", f"{purpose} This is {program} of Headnode."]
    for kind, names in kinds:
        if names:
            text = f"{kind}: {' '.join(f'-{name}' for name in names)}"
            lines.append(fill(text, 100, subsequent_indent="  ", break_on_hyphens=False))
    lines.append("More: docs/condor-commands.md, docs/submit-files.md, hn --help")
    print("\n".join(lines))
    return 0
