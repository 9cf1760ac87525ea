"""``condor_submit`` and ``condor_submit_dag``: submit a submit file, or a flow of DAGMan.

Source:  HTCondor 24, condor_submit(1), condor_submit_dag(1).
"""

import os
import re
import shlex
import sys

from headnode.adapters.files.opening import open_named
from headnode.apps.cli.batch_programs.words import acted_on, ignored, refused
from headnode.apps.cli.condor_programs.ad_output import write_long
from headnode.apps.cli.condor_programs.job_ads import JobAd
from headnode.apps.cli.condor_programs.options import CondorWords, read_line, refusal
from headnode.apps.cli.condor_programs.processes import CondorSource
from headnode.apps.cli.job_files import STANDARD_INPUT, read_job_file, submit_file_request
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from headnode.core.formats.condor.evaluation import Value
    from headnode.core.model.job import JobSpec
    from headnode.core.model.task import TaskSpec


_OF_SUBMIT = {
    **acted_on("terse! verbose! file append queue+ batch-name dry-run maxjobs single-cluster!"),
    **ignored("disable! debug! unused! allow-crlf-script! stm factory!", "the head reads the file"),
    **ignored("name pool addr", "hn's --scheduler and hn login choose the head"),
    **refused("remote spool!", "write URLs in transfer_input_files, or submit on the head's machine"),
    **refused("interactive!", "use: hn job shell"),
    **refused("dump", "use -dry-run FILE"),
    **refused("password", "credentials come another way: docs/staging.md"),
}
_OF_DAGS = {
    **acted_on("batch-name"),
    **ignored(
        "force! f! update_submit! verbose! no_recurse! do_recurse! import_env! debug outfile_dir "
        "notification suppress_notification! autorescue dumprescue! dagman priority",
        "no DAGMan runs here: the head has the nodes as jobs",
    ),
    **refused("maxjobs maxidle maxpre maxpost", "limit running jobs by: UserLimits of the cluster"),
    **refused("no_submit!", "check the flow with: hn check FILE"),
    **refused("usedagdir!", "submit each flow in its directory"),
    **refused("append insert_sub_file insert_env include_env load_save", "write it into the submit files"),
    **refused("dorescuefrom", "submit the flow again: mark nodes that are done with DONE"),
}
OPTIONS = {"condor_submit": _OF_SUBMIT, "condor_submit_dag": _OF_DAGS}
_VARIABLE = re.compile(r"[+]?[A-Za-z_][\w.]*=")
_QUEUE = re.compile(r"[ \t]*queue(?![ \t]*=)(?:[ \t(][^\n]*)?\Z", re.IGNORECASE)
_MAX_DOTS = 100
_LOST = ("not-supported", "approximated")


def run(program: str, argv: "Sequence[str]", client: Client, _system: str = "") -> int:
    """Submit a submit file, or a flow of DAGMan."""
    args = read_line(program, argv, OPTIONS[program])
    return _submit(args, client) if program == "condor_submit" else _submit_flow(args, client)


def _submit(args: CondorWords, client: Client) -> int:
    """Submit a submit file, with what the command line adds to it."""
    variables = [word for word in args.words if _VARIABLE.match(word)]
    files = [*args.values("file"), *(word for word in args.words if not _VARIABLE.match(word))]
    if len(files) > 1:
        raise refusal(f"only one submit file is possible, not {files[0][:60]!r} and {files[1][:60]!r}")
    path = files[0] if files else "" if args.has("queue") else STANDARD_INPUT
    text = with_command_line(_text_at(path), variables, *_additions(args))
    request = _request(path or STANDARD_INPUT, text, client)
    if args.has("dry-run"):
        return _dry_run(args, request, client)
    _refuse_more(args, request, client)
    return _submitted(args, request, client, terse=args.has("terse"))


def _submit_flow(args: CondorWords, client: Client) -> int:
    """Submit a flow of DAGMan: each node is a job, or several."""
    if len(args.words) != 1:
        raise refusal("give one flow: condor_submit_dag FILE", "submit several flows one after the other")
    (path,) = args.words
    request = _request(path, _text_at(path), client)
    if (name := args.text("batch-name")) is not None:
        request["terms"] = {"jobgroup": name}
    print("-" * 71)
    print(f"File for submitting this DAG to HTCondor           : {path}")
    print("Each node is a job of this cluster; no condor_dagman runs for it.\n")
    status = _submitted(args, request, client, terse=False)
    print("-" * 71)
    return status


def _request(path: str, text: str, client: Client) -> "dict[str, Any]":
    return submit_file_request(path, text, client) | {"dialect": "htcondor"}


def _text_at(path: str) -> str:
    if not path:
        return ""
    try:
        return read_job_file(path)
    except HeadnodeError as trouble:
        raise refusal(f"Failed to open command file ({path}): {trouble.what}", trouble.fix) from None


def _additions(args: CondorWords) -> "tuple[list[str], str | None]":
    """Return the lines to add before the first queue command, and a queue command for the end."""
    lines, queue = list[str](), None
    for line in args.values("append"):
        if _QUEUE.match(line):
            queue = line.strip()
        else:
            lines.append(line)
    if (name := args.text("batch-name")) is not None:
        lines.append(f'batch_name = "{name}"')
    if args.has("queue"):
        queue = " ".join(["queue", *args.values("queue")])
    if any("\n" in line for line in (*lines, queue or "")):
        raise refusal("a command has a line break in it", "give each command in an -append of its own")
    return lines, queue


def with_command_line(
    text: str, variables: "Sequence[str]", lines: "Sequence[str]", queue: str | None
) -> str:
    r"""Return a submit file with what a command line adds: first, before its first queue command, last.

    Raises:  ProgramRefusal for two queue commands.

    >>> with_command_line("a = 1\nqueue\n", ["b=2"], ["a = 3"], None)
    'b=2\na = 1\na = 3\nqueue\n'
    """
    own = text.splitlines(keepends=True)
    first = next((at for at, line in enumerate(own) if _QUEUE.match(line.rstrip("\r\n"))), None)
    if queue is not None and first is not None:
        raise refusal("-queue is given, and the submit file has a queue command", "leave one of them out")
    if own and not own[-1].endswith("\n"):
        own[-1] += "\n"
    at = len(own) if first is None else first
    added = [f"{line}\n" for line in lines]
    last = [] if queue is None else [f"{queue}\n"]
    return "".join([*(f"{each}\n" for each in variables), *own[:at], *added, *own[at:], *last])


def _submitted(args: CondorWords, request: "dict[str, Any]", client: Client, *, terse: bool) -> int:
    try:
        answer = client.ask("submit_job", **request)
    except HeadnodeError as no:
        raise refusal(no.what, no.fix) from None
    for finding in answer["report"]:
        if finding.get("kind") in _LOST:
            sys.stderr.write(f"WARNING: {finding['where']}: {finding['what']}\n")
    source = CondorSource(client)
    jobs = sorted(source.listed([int(one) for one in answer.get("jobs", [answer["job"]])]), key=_number)
    counts = [int(job["tasks"]["total"]) for job in jobs]
    _make_logs(source, jobs)
    if terse:
        for job, count in zip(jobs, counts, strict=True):
            print(f"{job['id']}.0 - {job['id']}.{count - 1}")
        return 0
    print(f"Submitting job(s){'.' * min(sum(counts), _MAX_DOTS)}")
    for job, count in zip(jobs, counts, strict=True):
        print(f"{count} job(s) submitted to cluster {job['id']}.")
    if args.has("verbose"):
        _show_ads(source, jobs)
    return 0


def _make_logs(source: CondorSource, jobs: "Sequence[dict[str, Any]]") -> None:
    """Make the event logs, so that they are there for who reads them; the head appends to them."""
    logs: dict[str, None] = {}
    for job in jobs:
        for task in source.detail(job["id"])["spec"]["tasks"]:
            log = str((task.get("properties") or {}).get("UserLog", ""))
            log = log.replace("%CCP_JOBID%", str(job["id"]))
            if log.startswith("/") and not set(log) & set("*^"):  # those with a number in them the head makes
                logs[log] = None
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
    for log in logs:
        try:
            os.close(open_named(log, flags, 0o644))
        except OSError as trouble:
            sys.stderr.write(f"WARNING: log: {log} cannot be written: {trouble.strerror}\n")


def _number(job: "dict[str, Any]") -> int:
    return int(job["id"])


def _show_ads(source: CondorSource, jobs: "Sequence[dict[str, Any]]") -> None:
    for job in jobs:
        for row in source.processes(job):
            print(f"\n** Proc {row.id}:")
            sys.stdout.write(write_long(JobAd(row).items()))


def _read_here(request: "dict[str, Any]") -> "Any":
    """Return the jobs of a submit file, read by this process."""
    from headnode.core.formats.condor.reading import read_submit
    from headnode.core.model.task import ScriptOrigin

    origin = ScriptOrigin(
        words=tuple(request["script"]), directory=request["directory"], environment=request["environment"]
    )
    files = {name: text.encode() for name, text in (request["files"] or {}).items()}
    try:
        return read_submit(request["jobfile"], origin, files)
    except HeadnodeError as no:
        raise refusal(no.what, no.fix) from None


def _refuse_more(args: CondorWords, request: "dict[str, Any]", client: Client) -> None:  # noqa: ARG001
    """Refuse more processes, or clusters, than the command line allows."""
    most = args.number("maxjobs")
    if not most and not args.has("single-cluster"):
        return
    jobs, _ = _read_here(request)
    count = sum(task.instances for job in jobs for task in job.tasks)
    if most and count > most:
        raise refusal(f"the file has {count} jobs, more than -maxjobs {most}: none is submitted")
    if args.has("single-cluster") and len(jobs) > 1:
        raise refusal(f"the file has {len(jobs)} clusters, and -single-cluster is given: none is submitted")


def _dry_run(args: CondorWords, request: "dict[str, Any]", client: Client) -> int:
    """Write the attributes of the jobs into a file, and submit nothing; the head is asked to check them."""
    jobs, _ = _read_here(request)
    try:
        client.ask("check_job", **request)
    except HeadnodeError as no:
        raise refusal(no.what, no.fix) from None
    path = args.text("dry-run") or STANDARD_INPUT
    text = "".join(f"{write_long(ad)}\n" for job, spec in enumerate(jobs, 1) for ad in dry_ads(job, spec))
    counts = [sum(task.instances for task in spec.tasks) for spec in jobs]
    print(f"Dry-Run job(s){'.' * min(sum(counts), _MAX_DOTS)}")
    if path == STANDARD_INPUT:
        sys.stdout.write(text)
    else:
        _write(path, text)
    for job, count in enumerate(counts, 1):
        print(f"{count} job(s) dry-run to cluster {job}.")
    return 0


def _write(path: str, text: str) -> None:
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(open_named(path, flags), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as trouble:
        raise refusal(
            f"Failed to open file -dry-run output file ({path}): {os.strerror(trouble.errno or 0)}"
        ) from None


def dry_ads(cluster: int, spec: "JobSpec") -> "Iterator[list[tuple[str, Value]]]":
    """Yield the attributes of each process of a job."""
    number = 0
    for task in spec.tasks:
        for instance in range(1, task.instances + 1):
            ad = {"ClusterId": cluster, "ProcId": number, **_attributes(cluster, spec, task, instance)}
            yield sorted(((name, value) for name, value in ad.items() if value is not None), key=_name)
            number += 1


def _name(attribute: "tuple[str, Value]") -> str:
    return attribute[0].lower()


def _attributes(cluster: int, spec: "JobSpec", task: "TaskSpec", instance: int) -> "dict[str, Value]":
    from headnode.core.model.task import TaskType, substitute

    def swept(text: str) -> str:
        found = substitute(text, task.value(instance)) if task.kind is TaskType.SWEEP else text
        return found.replace("%CCP_JOBID%", str(cluster))

    program, *arguments = shlex.split(swept(task.command))
    held = spec.held
    return {
        "JobStatus": 5 if spec.holds else 1,
        "JobBatchName": spec.name or None,
        "JobPrio": int(spec.priority) - 2000,
        "Cmd": program,
        "Arguments": " ".join(arguments),
        "Iwd": swept(task.work_directory) or None,
        "In": swept(task.standard_input) or "/dev/null",
        "Out": swept(task.standard_output) or "/dev/null",
        "Err": swept(task.standard_error) or "/dev/null",
        "UserLog": swept(task.properties["UserLog"]) if "UserLog" in task.properties else None,
        "Environment": " ".join(f"{name}={shlex.quote(value)}" for name, value in task.environment.items())
        or None,
        "RequestCpus": task.minimum,
        "RequestMemory": held.memory or (spec.process_memory or 0) * task.minimum or None,
        "RequestDisk": held.disk * 1024 or None,
        "AcctGroup": spec.project or None,
        **spec.properties,
    }
