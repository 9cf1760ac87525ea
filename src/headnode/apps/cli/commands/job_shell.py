"""``hn job shell``: a terminal in the cluster, for a new interactive job or in a job that runs."""

from headnode.apps.cli.catalogue import COMMON_OPTIONS, CliCommand
from headnode.apps.cli.options import CliOption, usage
from headnode.apps.cli.shell import ENV_ALL, apply_shell, command_line, remember
from headnode.apps.cli.terms import JOB_OPTIONS, TASK_OPTIONS, job_terms, only_task_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Arguments
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client
    from headnode.apps.client.conversation import ClientConversation

_SPELLINGS = {spelling for option in JOB_OPTIONS for spelling in option.spellings}
_OF_THE_TASK = ("workdir", "env")
OPTIONS = (
    CliOption("job", "ID", "Running job to open a shell in, or an interactive job to connect to"),
    *(option for option in JOB_OPTIONS if option.name != "interactive"),
    *(option for option in TASK_OPTIONS if option.name in _OF_THE_TASK and option.name not in _SPELLINGS),
    ENV_ALL,
)


def run(asked: "Arguments", client: "Client", out: "Output") -> int:
    """Sit down at a terminal of a job; return the exit status of the program that ran there."""
    from headnode.apps.cli.raw_terminal import TerminalClosed, terminal_size

    job, own = _job(asked, client, out)
    rows, columns, kind = terminal_size()
    command = command_line(asked.words) if asked.words and not own else None
    conversation = client.begin("shell", job=job, command=command, rows=rows, columns=columns, kind=kind)
    try:
        return _join(conversation, job, out)
    except TerminalClosed as left:
        out.note(f"left; {f'job {job} is ended with it' if own else 'the program there is ended'}")
        return left.status
    except KeyboardInterrupt:
        out.note(f"no longer waiting; job {job} is canceled")
        raise
    finally:
        conversation.close()


def _job(asked: "Arguments", client: "Client", out: "Output") -> "tuple[int, bool]":
    """Return the job, and whether it is one that was made for this."""
    if (named := asked.text("job")) is not None:
        from headnode.apps.cli.arguments import job_id

        anyway = ("job", *(option.name for option in COMMON_OPTIONS))
        others = [name for name in asked.options if name not in anyway]
        if others:
            raise usage(
                f"job {named} exists already, and /{others[0]} describes a new one", "leave out one of them"
            )
        return job_id([named]), False
    terms = {"jobname": "shell", **job_terms(asked), "interactive": "true"}
    task = {"rerunnable": "false", **only_task_terms(asked, asked.words or [""])}
    apply_shell(task, asked, client)
    job = int(client.ask("submit_job", terms=terms, tasks=[task])["job"])
    remember(job)
    out.note(f"job {job} is submitted")
    return job, True


def _join(conversation: "ClientConversation", job: int, out: "Output") -> int:
    """Wait until there is a terminal, saying why; use it to its end."""
    from headnode.apps.cli.raw_terminal import join_terminal

    while True:
        answer = conversation.hear()
        if "waits" in answer:
            _tell_wait(answer["waits"], job, out)
        elif "node" in answer:
            out.note(f"job {job} on node {answer['node']}")
            return _tell_end(join_terminal(conversation), out)
        elif answer.get("done"):
            return _tell_end(answer, out)


def _tell_wait(waits: "dict[str, Any]", job: int, out: "Output") -> None:
    if not waits["reason"]:
        return
    from headnode.apps.readable_values import instant

    expected, said = waits["expected"] or {}, ""
    if expected.get("p50") is not None:
        said = f"; expected to start at {instant(expected['p50'])}"
    elif expected.get("promise") is not None:
        said = f"; it will start by {instant(expected['promise'])}"
    out.note(f"job {job} waits: {waits['reason']}{said}")


def _tell_end(answer: "dict[str, Any]", out: "Output") -> int:
    if answer["problem"]:
        out.note(str(answer["problem"]))
    return int(answer["exit"])


COMMANDS = (
    CliCommand(
        "shell",
        "[job options] [-- PROGRAM [ARGUMENT...]] | --job ID [-- PROGRAM [ARGUMENT...]]",
        "Get a terminal on a node: an interactive job, or a shell in a running job",
        run,
        options=OPTIONS,
        example="hn job shell -n 4 -t 2h",
        notes=(
            "Submits a job, waits until it starts, and opens a terminal on its first node, with the job's "
            "environment, processors and limits; mpiexec there uses all nodes of the job.",
            "The job ends with its program. Closing this terminal ends both.",
            "Without a program the login shell runs. Standard input that is no terminal is passed to it: "
            "echo hostname | hn job shell",
            "Enter ~ . (at the beginning of a line) disconnects at once; ~~ sends a tilde.",
            "Exit status: that of the program; 255 if it could not be run or its status is unknown.",
        ),
        positionals=0,
    ),
)
