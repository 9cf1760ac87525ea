"""``hn simulate``: what a policy would have done to the jobs of a log, or of the cluster's own past."""

from headnode.apps.cli.arguments import SINCE, UNTIL, period
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output, history_progress
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol, TypeVar

    from headnode.apps.simulate.machine import SimulatedMachine
    from headnode.apps.simulate.scenario import RequestOverrides
    from headnode.apps.simulate.simulation import Progress, ReplaySetup, Simulation
    from headnode.apps.simulate.submissions import LogOwners
    from headnode.core.formats.swf import SwfLog
    from headnode.core.scheduling.pool.replay import Ties

    T = TypeVar("T", covariant=True)

    class Replay(Protocol[T]):
        """Replays a log under some policies, and tells how far it is."""

        def __call__(
            self, path: str, policies: Sequence[str], scene: ReplaySetup, progress: Progress = ..., /
        ) -> T: ...


DEFAULT_POLICY = "easy"
_COLUMNS = ("Policy", "Jobs", "Mean wait (s)", "Bounded slowdown", "Utilisation", "Makespan (s)")
_OF_PARAMETERS = (
    "Policy",
    "Priority",
    "Jobs",
    "First wait (s)",
    "Mean wait (s)",
    "Bounded slowdown",
    "Utilisation",
    "Stopped",
    "Lost (h)",
    "At limit",
)
_OF_LIMITS = ("Limited", "For limits (s)")


def run(args: Arguments, client: Client, out: Output) -> int:
    """Replay the log or the cluster's past under the policies asked for; print the figures side by side."""
    if "example" in args.options:
        return _replay_example(args, out)
    if args.flag("history"):
        return _replay_history(args, client, out)
    if "since" in args.options or "until" in args.options:
        raise usage("a log is replayed whole", "leave out --since and --until, or give --history")
    if len(args.words) != 1:
        raise usage(
            "one job log must be named",
            "write: hn simulate LOG --policy easy; --history for the cluster's own past, --example to try it",
        )
    from headnode.apps.simulate.report import remarks

    return _replay(args, args.words[0], args.words[0], remarks, out)


def _replay_example(args: Arguments, out: Output) -> int:
    """Replay the week of jobs that Headnode makes up; keep its log where a file is named."""
    if args.words or args.flag("history"):
        raise usage("the example is a log of its own", "leave out the log and --history, or --example")
    import os
    import tempfile

    from headnode.adapters.files.job_logs import write_history
    from headnode.apps.simulate.history import example_history
    from headnode.apps.simulate.report import remarks

    kept = args.text("example") or ""
    if kept not in ("true", ""):
        write_history(kept, example_history())
        return _replay(args, kept, kept, remarks, out)
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "example.swf")  # noqa: PTH118
        write_history(log, example_history())
        return _replay(args, log, "a week of made-up jobs", remarks, out)


def _replay_history(args: Arguments, client: Client, out: Output) -> int:
    if args.words:
        raise usage("with --history no log is read", f"leave out {args.words[0]!r}, or --history")
    from headnode.apps.client.history import ask_history
    from headnode.apps.simulate.history import history_log, remarks_on_jobs

    with history_log(ask_history(client, *period(args), history_progress())) as past:
        source = "the cluster's own past"
        return _replay(args, past.path, source, lambda log: remarks_on_jobs(log, past), out, past.owners)


def _replay(
    args: Arguments,
    path: str,
    name: str,
    remarks: "Callable[[SwfLog], Iterator[str]]",
    out: Output,
    owners: "LogOwners | None" = None,
) -> int:
    """Replay the log at `path`, which readers know by `name`."""
    policies, starts_file = _policies(args), args.text("starts")
    if args.flag("predictions"):
        return _predict(args, path, remarks, out)
    if starts_file is not None and len(policies) > 1:
        raise usage("a starts file is for one policy", "leave out --compare, or --starts")
    from headnode.adapters.files.job_logs import write_starts

    report = args.text("html")
    if report is not None:
        from headnode.apps.simulate.html.page import check_report

        check_report(report)
    simulation = _simulated(path, policies, _setup(args)._replace(owners=owners))
    noticed = [*remarks(simulation.log), *simulation.notes]
    for remark in noticed:
        out.note(remark)
    if starts_file is not None:
        write_starts(starts_file, simulation.log.workload, simulation.outcomes[0].starts)
    if report is not None:
        _write_report(report, name, simulation, noticed, out)
    _show(simulation, out)
    return 0


def _predict(args: Arguments, path: str, remarks: "Callable[[SwfLog], Iterator[str]]", out: Output) -> int:
    """Tell how often predicted starts would have held."""
    for other in ("starts", "html"):
        if args.text(other) is not None:
            raise usage(f"with --predictions there is no --{other}", "ask for one after the other")
    from headnode.apps.cli.screens.cluster import LOG_COLUMNS, how_to_read, log_rows
    from headnode.apps.cli.table import RecordTable
    from headnode.apps.simulate.predictions import documents, predict

    predictions = _with_progress(predict, path, _policies(args), _setup(args))
    for remark in remarks(predictions.log):
        out.note(remark)
    data, trailer = documents(predictions), how_to_read(predictions.warm_up)
    output = data if len(data) > 1 else data[0]
    out.show_table(RecordTable("Policy", log_rows(data), output, columns=LOG_COLUMNS, trailer=trailer))
    return 0


def _write_report(
    path: str, name: str, simulation: "Simulation", noticed: "Sequence[str]", out: Output
) -> None:
    import sys

    from headnode.apps.simulate.html.page import write_report

    patient = sys.stderr.isatty()
    if patient:
        sys.stderr.write("drawing the report …")
        sys.stderr.flush()
    try:
        size = write_report(path, name, simulation, noticed)
    finally:
        if patient:
            sys.stderr.write("\r\033[K")
    out.note(f"report written to {path!r}, {size / 1e6:.1f} MB")


def _policies(args: Arguments) -> "Sequence[str]":
    """Return the policies, each once, and with its own parameters: that of ``--policy`` first."""
    from headnode.apps.simulate.scenario import policy_first, split_variants

    compared = [name for names in args.options.get("compare", ()) for name in split_variants(names)]
    chosen = args.text("policy")
    first = [chosen] if chosen is not None else [] if compared else [DEFAULT_POLICY]
    return list(dict.fromkeys(policy_first([*first, *compared], (chosen or DEFAULT_POLICY).strip().lower())))


def _setup(args: Arguments) -> "ReplaySetup":
    from headnode.apps.simulate.scenario import read_parameters
    from headnode.apps.simulate.simulation import ReplaySetup

    parameters = read_parameters(args.options.get("set", ()))
    return ReplaySetup(
        _ties(args),
        _processors(args),
        args.flag("engine"),
        _machine(args),
        parameters,
        _request_overrides(args),
    )


def _request_overrides(args: Arguments) -> "RequestOverrides":
    from headnode.apps.simulate.scenario import (
        AS_LOGGED,
        RequestOverrides,
        read_least,
        read_priorities,
        read_selector,
    )

    least = args.text("least")
    return RequestOverrides(
        read_priorities(args.options.get("priority", ())),
        tuple(map(read_selector, args.options.get("once", ()))),
        AS_LOGGED.least if least is None else read_least(least),
    )


def _ties(args: Arguments) -> "Ties":
    from headnode.core.scheduling.pool.replay import Ties

    text = args.text("ties") or Ties.ENDS_FIRST.value
    if text.lower() not in set(Ties):
        raise usage(f"order of ties {text!r} is unknown", f"choose {' or '.join(Ties)}")
    return Ties(text.lower())


def _processors(args: Arguments) -> int | None:
    processors = args.number("processors")
    if processors == 0:
        raise usage("a machine of 0 processors runs nothing", "write --processors 128, for example")
    return processors


def _machine(args: Arguments) -> "SimulatedMachine | None":
    described, whole = args.text("nodes"), args.flag("whole-nodes")
    reserved = args.options.get("reservation", ())
    if described is None:
        if reserved:
            raise usage("a pool has no nodes to reserve", "describe them, such as --nodes 100x16")
        if whole:
            raise usage(
                "a pool has no nodes that could be taken whole", "describe them, such as --nodes 100x16"
            )
        return None
    if args.text("processors") is not None:
        raise usage("the nodes say how many processors there are", "leave out --processors, or --nodes")
    from headnode.apps.simulate.machine import machine_of, read_nodes

    machine = machine_of(read_nodes(described), whole_nodes=whole)
    if not reserved:
        return machine
    from headnode.apps.simulate.machine import read_reservations

    return machine._replace(reservations=read_reservations(reserved, machine))


def _simulated(log: str, policies: "Sequence[str]", scene: "ReplaySetup") -> "Simulation":
    from headnode.apps.simulate.simulation import simulate

    return _with_progress(simulate, log, policies, scene)


def _with_progress(replay: "Replay[T]", log: str, policies: "Sequence[str]", scene: "ReplaySetup") -> "T":
    """Replay, and tell how far it is: a line of a terminal, or lines at intervals."""
    from headnode.apps.cli.output import ProgressLine

    with ProgressLine() as telling:
        return replay(
            log,
            policies,
            scene,
            lambda policy, come, jobs: telling.report(f"{policy}: {come * 100 // jobs} % of {jobs} jobs"),
        )


def _show(simulation: "Simulation", out: Output) -> None:
    from headnode.apps.cli.table import RecordTable
    from headnode.apps.simulate.report import documents, rows

    data, several, trailer = documents(simulation), len(simulation.outcomes) > 1, ""
    compared: Sequence[str] = (*_COLUMNS, "Earlier", "Later") if several else ()
    columns = _OF_PARAMETERS if simulation.is_about_preemption else compared
    if simulation.is_about_limits:
        columns = (*(columns or _COLUMNS), *_OF_LIMITS)
        trailer = _limited_owners(simulation)
    output = data if several else data[0]
    out.show_table(RecordTable("Policy", rows(simulation), output, columns=columns, trailer=trailer))


def _limited_owners(simulation: "Simulation") -> str:
    """Return a table of the owners that waited longest for their limits."""
    from headnode.apps.cli.table import RecordTable, as_table
    from headnode.apps.simulate.report import MAX_OWNERS_SHOWN, limited_owners

    owners = limited_owners(simulation)
    if not owners:
        return "No job waited for a limit."
    table = as_table(RecordTable("Policy", owners, [], columns=tuple(owners[0]))).rstrip()
    return f"The {MAX_OWNERS_SHOWN} longest waits for limits; --json has all:\n{table}"


COMMANDS = (
    CliCommand(
        "simulate",
        "LOG | --history | --example",
        "Replay past jobs, of a log or of this cluster, under other scheduling policies",
        run,
        options=(
            CliOption("history", "", "Replay the ended jobs of the running cluster instead of a log"),
            CliOption(
                "example",
                "",
                "Replay a generated week of jobs on 64 processors; --example=FILE also saves its log",
            ),
            SINCE,
            UNTIL,
            CliOption("policy", "POLICY", "fcfs, easy (the default), conservative or conservative-replan"),
            CliOption(
                "compare",
                "POLICY,...",
                "Replay under each of these, and show the results side by side. With parameters: "
                "easy+PreemptionType=Graceful, or UserLimits=*:processors=64 alone",
                repeats=True,
            ),
            CliOption(
                "set",
                "NAME=VALUE",
                "Set a parameter of hn cluster params for the whole comparison",
                repeats=True,
            ),
            CliOption(
                "priority",
                "WHICH=PRIORITY",
                "Set the priority of jobs by queue, group, user or size: "
                "user:7,12-15=Highest. The first match is used; other jobs are Normal. WHICH alone, queue: "
                "take the priorities that hn cluster history wrote, or that jobs of --history had",
                repeats=True,
            ),
            CliOption(
                "least",
                "PERCENT",
                "The minimum of each job, as a percentage of its processors: 50%",
            ),
            CliOption(
                "once",
                "WHICH",
                "These jobs are not rerunnable, such as queue:3; all others are",
                repeats=True,
            ),
            CliOption(
                "processors", "NUMBER", "Size of the machine (default: MaxProcs in the header of the log)"
            ),
            CliOption(
                "ties", "ORDER", "Order of simultaneous events: ends-first (default) or arrivals-first"
            ),
            CliOption(
                "nodes", "NODES", "Nodes of the machine: 100x16, big[1-8]x64:512000 (MB), or a TOML file"
            ),
            CliOption("whole-nodes", "", "With --nodes: each job takes whole nodes and shares none"),
            CliOption(
                "reservation",
                "NODES@AFTER+LASTS",
                "With --nodes: reserve these nodes for maintenance, such as node[1-4]@1:18:00+2:00: one day "
                "and 18 hours after the first job, for 2 hours",
                repeats=True,
            ),
            CliOption(
                "engine",
                "",
                "Replay a pool through the whole head, too: the same starts, slower. Implied by parameters, "
                "--priority, --least and --once",
            ),
            CliOption("html", "FILE", "Write a report for a browser: one file, no network needed"),
            CliOption(
                "predictions",
                "",
                "Predict the start of each job, and show how often the predictions held",
            ),
            CliOption("starts", "FILE", "Write job,submit,start,end,processors of every job, in seconds"),
        ),
        example="hn simulate SDSC-SP2.swf.gz --processors 128 --compare fcfs,easy,conservative",
        notes=(
            "To try it without a log: hn simulate --example --compare fcfs,easy",
            "The log is in the Standard Workload Format, plain or packed with gzip or xz. Without --nodes "
            "the processors are one pool. With --nodes the jobs go through the head itself, with its "
            "scheduler and life cycles. Each job has one size, unless --least is given. The scheduler sees "
            "only the estimates of run times. Jobs that cannot be replayed are left out, and counted on "
            "standard error. See docs/policy-lab.md.",
        ),
    ),
)
