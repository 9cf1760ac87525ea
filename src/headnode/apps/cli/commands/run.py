"""``hn run``: a command on many nodes at once, outside the queue."""

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.fan_out import RunOutputSink

OPTIONS = (
    CliOption("all", "", "On all nodes (default)"),
    CliOption(
        "nodes", "NODES", "On these nodes: a,b or node[1-8,12] or @GROUP; ! & ^: not, both, one of both"
    ),
    CliOption("nodegroup", "GROUP,...", "On the nodes that are in any of these groups"),
    CliOption(
        "nodestate", "STATE,...", "On nodes in these states: Ready, Paused, Draining, Drained, Unreachable"
    ),
    CliOption("job", "ID", "On the nodes of a running job"),
    CliOption("task", "ID.TASK", "On the nodes that a task runs on"),
    CliOption("template", "NAME", "Refused: use --nodegroup"),
    CliOption("exclude", "NODES", "Not on these nodes"),
    CliOption("workdir", "DIRECTORY", "Work directory (default: the home directory of the user)"),
    CliOption(
        "env", "NAME=VALUE[;...]", "Environment variable of the command; may be repeated", repeats=True
    ),
    CliOption("stdin", "FILE", "Standard input of the command on every node; - is your standard input"),
    CliOption("outputdir", "DIRECTORY", "Write the output to DIRECTORY/NODE.txt instead"),
    CliOption("interleaved", "", "Print each line at once, after the name of its node"),
    CliOption("sorted", "", "Print the output in the order of the nodes"),
    CliOption("timeout", "SECONDS", "Kill it after this time; these nodes count as failed"),
    CliOption("fanout", "NUMBER", "Run it on this many nodes at a time (default: 32)"),
    CliOption("user", "NAME", "Run it as this user"),
    CliOption("password", "TEXT", "Not needed, and ignored"),
)


def run(args: Arguments, client: Client, out: Output) -> int:
    """Run the command; return 0 if it succeeded on all nodes."""
    from headnode.apps.cli.fan_out import input_of, run_on, summary

    fields, fan_out = _fields(args), _fan_out(args)
    with input_of(args.text("stdin")) as stdin:
        held = client.begin("run_on_nodes", **fields)
        try:
            begun = held.receive()
            nodes = [str(node) for node in begun["nodes"]]
            report = _report(args, nodes, out)
            try:
                failed = run_on(client, int(begun["run"]), nodes, stdin, fan_out, report)
            except KeyboardInterrupt:
                out.note("interrupted; the command is ended on all nodes")
                raise
            report.close()
        finally:
            held.close()
    if out.for_people:
        out.raw(summary(len(nodes) - failed, failed).encode())
    return 1 if failed else 0


def _fields(args: Arguments) -> "dict[str, Any]":
    if not args.words:
        raise usage("there is no command to run", "write it after the options: hn run /all uptime")
    if args.text("template") is not None:
        raise usage("nodes have no templates here", "choose them by /nodegroup, /nodes or /nodestate")
    chosen = [name for name in ("nodes", "nodegroup", "nodestate", "job", "task") if name in args.options]
    if args.flag("all") and chosen:
        raise usage(f"all nodes were chosen, and /{chosen[0]} too", "leave out one of them")
    if args.flag("interleaved") and (args.flag("sorted") or args.text("outputdir")):
        raise usage("--interleaved excludes --sorted and --outputdir", "leave out /sorted and /outputdir")
    return {
        "command": _command_line(args.words),
        "nodes": args.text("nodes"),
        "groups": _words(args.text("nodegroup")),
        "states": _words(args.text("nodestate")),
        **_job_and_task(args),
        "exclude": args.text("exclude"),
        "user": args.text("user"),
        "work_directory": args.text("workdir"),
        "environment": _environment(args.options.get("env", [])),
        "timeout": _seconds(args.text("timeout")),
    }


def _command_line(argv: "list[str]") -> str:
    """Return what the shell reads on each node: one word is a whole command line, more are words."""
    if len(argv) == 1:
        return argv[0]
    from shlex import join

    return join(argv)


def _words(text: str | None) -> "list[str] | None":
    return None if text is None else [word for word in text.split(",") if word]


def _job_and_task(args: Arguments) -> "dict[str, int]":
    from headnode.apps.cli.arguments import job_id, task_address

    if (task := args.text("task")) is not None:
        number, of_it, _ = task_address([task])
        return {"job": number, "task": of_it}
    return {"job": job_id([job])} if (job := args.text("job")) is not None else {}


def _environment(assignments: "list[str]") -> "dict[str, str] | None":
    if not assignments:
        return None
    pairs = [pair.partition("=") for text in assignments for pair in text.split(";") if pair]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise usage(f"{name!r} is not a variable with a value", "write /env:NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise usage(f"option 'timeout' takes seconds, not {text!r}", "write /timeout:60, for example")
    return seconds


def _fan_out(args: Arguments) -> int:
    from headnode.apps.cli.fan_out import FAN_OUT, MAX_AT_ONCE

    wanted = args.number("fanout")
    if wanted is not None and not 1 <= wanted <= MAX_AT_ONCE:
        raise usage(f"it cannot run on {wanted} nodes at a time", f"choose 1 to {MAX_AT_ONCE}")
    return wanted or FAN_OUT


def _report(args: Arguments, nodes: "list[str]", out: Output) -> "RunOutputSink":
    import sys

    from headnode.apps.cli import fan_out as kinds

    def complain(data: bytes) -> object:
        sys.stderr.buffer.write(data)
        return sys.stderr.buffer.flush()

    report: RunOutputSink
    if args.flag("json"):
        report = kinds.JsonEvents(out.raw)
    elif args.flag("interleaved"):
        report = kinds.InterleavedLines(out.raw, complain)
    else:
        report = kinds.NodeBlocks(out.raw, nodes if args.flag("sorted") else ())
    folder = args.text("outputdir")
    return report if folder is None else kinds.NodeFiles(folder, report)


COMMANDS = (
    CliCommand(
        "run",
        "[options] COMMAND [ARGUMENT...]",
        "Run a command on many nodes at once, outside the queue (administrators)",
        run,
        options=OPTIONS,
        example="hn run '/nodes:node[1-8]' /interleaved uptime",
        notes=(
            "Ready, paused and draining nodes run it at once, beside their jobs. An unreachable node counts "
            "as failed, with exit status 255.",
            "Several options that select nodes select the intersection; without one, all nodes.",
            "A single word is a command line for the shell: hn run 'df -h / | tail -n 1'.",
            "Ctrl-C, or the end of hn, ends the command and its processes on all nodes.",
            "Exit status 0: it succeeded (returned 0) on all nodes.",
        ),
        positionals=0,
    ),
)
