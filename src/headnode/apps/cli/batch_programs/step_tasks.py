"""The processes of a step: their variables, files and streams, and how they end.

Source:  Slurm 22.05, srun(1), "IO Redirection", "OUTPUT ENVIRONMENT VARIABLES".
"""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import NamedTuple

from headnode.apps.cli.batch_programs.gpu_variables import GPU_LISTS, own_variables, shell_variables
from headnode.apps.cli.batch_programs.rows import folded_nodes
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords
from headnode.apps.client.submitter import quoted_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAUSE = 0.05  # seconds between two looks at the tasks
_CHUNK = 65_536  # bytes


class StepTask(NamedTuple):
    """A task of a step: its number, its node, the number of that, and its number there."""

    rank: int
    node: str
    node_number: int
    local: int


def output_name(path: str, values: "Mapping[str, str]") -> str:
    """Return the name of a file with ``%j %A %a %t %n %N %s %u %x`` replaced.

    >>> output_name("o-%j-%3t", {"j": "7", "t": "2"})
    'o-7-002'
    """
    if path == "none":
        return os.devnull
    found, at = "", 0
    while at < len(path):
        if path[at] != "%":
            found, at = found + path[at], at + 1
            continue
        end = at + 1
        while path[end : end + 1].isdigit():
            end += 1
        width, letter = path[at + 1 : end][:2], path[end : end + 1]
        value = "%" if letter == "%" else values.get(letter)
        found += path[at : end + 1] if value is None else value.zfill(int(width or 0)) if width else value
        at = end + 1
    return found


def open_output(path: str, mode: "str | None") -> int:
    """Return a file for output, open for writing; ``append`` or ``truncate``.

    Raises:  ProgramRefusal.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if mode == "append" else os.O_TRUNC)
    try:
        return os.open(path, flags, 0o666)
    except OSError as trouble:
        raise ProgramRefusal(f"Could not open output file {path}: {trouble.strerror}") from None


def open_input(path: str) -> int:
    """Return a file for input, open for reading.

    Raises:  ProgramRefusal.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as trouble:
        raise ProgramRefusal(f"Could not open input file {path}: {trouble.strerror}") from None


def start_or_fail(argv: "Sequence[str]") -> str:
    """Return a command line that runs a program, and ends as srun does where it is not found."""
    program, line = quoted_line(argv[:1]), quoted_line(argv)
    missing = quoted_line([f"slurmstepd: error: execve(): {argv[0]}: No such file or directory"])
    return f"command -v {program} >/dev/null || {{ echo {missing} >&2; exit 2; }}; exec {line}"


def ending(status: int) -> str:
    """Return how a task ended, from its exit status.

    >>> ending(3), ending(137)
    ('Exited with exit code 3', 'Killed')
    """
    if status > 128:
        return signal.strsignal(status - 128) or f"Exited with exit code {status}"
    return f"Exited with exit code {status}"


class RunningStep:
    """The processes of a step."""

    def __init__(
        self, args: ProgramWords, tasks: "Sequence[StepTask]", processors: int, *, cyclic: bool, number: int
    ) -> None:
        """`processors`: of each task; `number`: of the step in its task of the job."""
        self._asked, self._tasks, self._processors, self._cyclic = args, tasks, processors, cyclic
        self._files: dict[str, int] = {}
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._signals: list[int] = []  # for all tasks, also for those that start later
        self._sent: dict[int, int] = {}  # how many of them each task has
        self._pumps: list[threading.Thread] = []
        self._inputs: list[int] = []
        self._here = os.environ.get("HEADNODE_NODE", "")
        self._number = str(number)
        self.gpus: Mapping[int, Sequence[int]] | None = (
            None  # of each task, by its rank; None: all of the job
        )

    def run(self) -> int:
        """Start the tasks and wait; return the highest exit code."""
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, lambda number, _frame: self._pass_on(number))
        for each in (signal.SIGUSR1, signal.SIGUSR2):  # a signal to the job reaches the tasks by itself
            signal.signal(each, lambda _number, _frame: None)
        try:
            for task in self._tasks:
                self._start(task)
                self._send_signals()
        except BaseException:
            self._end_at_once()
            raise
        self._feed()
        ended = self._wait()
        for pump in self._pumps:
            pump.join()
        for file in self._files.values():
            os.close(file)
        self._report(ended)
        return max(ended.values(), default=0)

    def _start(self, task: StepTask) -> None:
        files = self._output_files(task)
        labels = self._asked.has("label")
        stdout: int | None = files.get("output", subprocess.PIPE if labels else None)
        stderr: int | None = files.get("error", subprocess.PIPE if labels else None)
        environment, stdin = self._environment(task), self._stdin(task)
        try:
            process = subprocess.Popen(
                self._command(task),
                env=environment,
                cwd=self._asked.text("chdir"),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        except OSError as trouble:
            sys.stderr.write(
                f"slurmstepd-{task.node}: error: execve(): {self._asked.words[0]}: {trouble.strerror}\n"
            )
            self._running[task.rank] = subprocess.Popen(["/bin/sh", "-c", "exit 2"])
            return
        finally:
            if stdin is not None and stdin >= 0:  # no constant of subprocess
                os.close(stdin)
        self._running[task.rank] = process
        if process.stdin is not None:
            self._inputs.append(os.dup(process.stdin.fileno()))
            process.stdin.close()
        for pipe, stream in ((process.stdout, 1), (process.stderr, 2)):
            if pipe is not None:
                pump = threading.Thread(
                    target=_label, args=(pipe, task.rank, stream, len(str(len(self._tasks) - 1)))
                )
                pump.start()
                self._pumps.append(pump)

    def _output_files(self, task: StepTask) -> "dict[str, int]":
        """Return the files for `output` and `error` of a task, if they have files."""
        values = self._values(task)
        files: dict[str, int] = {}
        for name in ("output", "error"):
            path = self._asked.text(name)
            if path is None and name == "error" and "output" in files:
                files["error"] = files["output"]
            elif path not in (None, "all"):
                files[name] = self._file(output_name(str(path), values))
        return files

    def _command(self, task: StepTask) -> "list[str]":
        if task.node == self._here or not self._here:
            return list(self._asked.words)
        launcher = os.environ.get("HEADNODE_LAUNCH")
        if launcher is None:
            raise ProgramRefusal(f"node {task.node} cannot be reached: the job has no launcher")
        first = "" if self.gpus is None else shell_variables(self.gpus[task.rank])
        return [launcher, task.node, first + start_or_fail(self._asked.words)]

    def _file(self, path: str) -> int:
        if path not in self._files:
            self._files[path] = open_output(path, self._asked.text("open-mode"))
        return self._files[path]

    def _stdin(self, task: StepTask) -> "int | None":
        option = self._asked.text("input")
        if option == "none" or (option is not None and option.isdigit() and int(option) != task.rank):
            return subprocess.DEVNULL
        if option not in (None, "all") and not str(option).isdigit():
            return open_input(output_name(str(option), self._values(task)))
        return None if len(self._tasks) == 1 or (option is not None and option.isdigit()) else subprocess.PIPE

    def _feed(self) -> None:
        """Give each task all of our standard input."""
        if not self._inputs:
            return
        threading.Thread(target=_copy_to_all, args=(self._inputs,), daemon=True).start()

    def _values(self, task: StepTask) -> "dict[str, str]":
        own = os.environ
        job = own.get("HEADNODE_JOB", "")
        return {
            "A": own.get("SLURM_ARRAY_JOB_ID", job),
            "a": own.get("SLURM_ARRAY_TASK_ID", "4294967294"),
            "J": f"{job}.{self._number}",
            "j": job,
            "N": task.node.partition(".")[0],
            "n": str(task.node_number),
            "s": self._number,
            "t": str(task.rank),
            "u": own.get("USER", ""),
            "x": self._asked.text("job-name") or own.get("SLURM_JOB_NAME", ""),
        }

    def _environment(self, task: StepTask) -> "dict[str, str]":
        counts = [0] * (max(each.node_number for each in self._tasks) + 1)
        for each in self._tasks:
            counts[each.node_number] += 1
        option = self._asked.text("export")
        base = _exported(option) if option is not None else dict(os.environ)
        nodes = folded_nodes(dict.fromkeys(each.node for each in self._tasks))
        job = os.environ.get("HEADNODE_JOB", "")
        own = {
            "SLURM_JOB_ID": job,
            "SLURM_JOBID": job,
            "SLURM_PROCID": str(task.rank),
            "SLURM_LOCALID": str(task.local),
            "SLURM_NODEID": str(task.node_number),
            "SLURMD_NODENAME": task.node,
            "SLURM_NTASKS": str(len(self._tasks)),
            "SLURM_NPROCS": str(len(self._tasks)),
            "SLURM_NNODES": str(len(counts)),
            "SLURM_STEP_ID": self._number,
            "SLURM_STEPID": self._number,
            "SLURM_STEP_NODELIST": nodes,
            "SLURM_STEP_NUM_NODES": str(len(counts)),
            "SLURM_STEP_NUM_TASKS": str(len(self._tasks)),
            "SLURM_STEP_TASKS_PER_NODE": _counted(counts),
            "SLURM_TASKS_PER_NODE": _counted(counts),
            "SLURM_CPUS_ON_NODE": str(counts[task.node_number] * self._processors),
            "SLURM_DISTRIBUTION": "cyclic" if self._cyclic else "block",
            "SLURM_SRUN_COMM_HOST": self._here,
        }
        if self._asked.has("cpus-per-task"):
            own["SLURM_CPUS_PER_TASK"] = str(self._processors)
        if self.gpus is not None and task.node == self._here:
            own |= own_variables(self.gpus[task.rank], os.environ)
        return {**base, **own}

    def _wait(self) -> "dict[int, int]":
        """Return the exit status of each task; 128 and the signal for one that a signal ended."""
        ended: dict[int, int] = {}
        until = _deadline(self._asked.text("time"))
        strict = self._asked.text("kill-on-bad-exit") in ("", "1")
        while len(ended) < len(self._running):
            for rank, process in self._running.items():
                if rank in ended or (code := process.poll()) is None:
                    continue
                ended[rank] = 128 - code if code < 0 else code
                if ended[rank] and strict:
                    self._pass_on(signal.SIGTERM)
            if until is not None and time.monotonic() > until:
                until = None
                sys.stderr.write("srun: error: step canceled DUE TO TIME LIMIT\n")
                self._pass_on(signal.SIGTERM)
            if len(ended) < len(self._running):
                left = next(process for rank, process in self._running.items() if rank not in ended)
                try:
                    left.wait(PAUSE)
                except subprocess.TimeoutExpired:
                    continue
        return ended

    def _pass_on(self, number: int) -> None:
        self._signals.append(number)
        self._send_signals()

    def _send_signals(self) -> None:
        """Send the tasks the signals that they do not have yet; a signal may come meanwhile."""
        for rank, process in self._running.items():
            while (sent := self._sent.get(rank, 0)) < len(self._signals):
                self._sent[rank] = sent + 1
                if process.poll() is None:
                    process.send_signal(self._signals[sent])

    def _end_at_once(self) -> None:
        """End the tasks that have started: others cannot, and the step has none then."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def _report(self, ended: "Mapping[int, int]") -> None:
        """Tell of tasks that did not end well: together those of a node that ended alike."""
        if self._asked.has("quiet"):
            return
        groups: dict[tuple[str, int], list[int]] = {}
        for task in self._tasks:
            if ended.get(task.rank):
                groups.setdefault((task.node, ended[task.rank]), []).append(task.rank)
        from headnode.apps.cli.batch_programs.rows import folded

        for (node, status), ranks in groups.items():
            word = "task" if len(ranks) == 1 else "tasks"
            sys.stderr.write(f"srun: error: {node}: {word} {folded(ranks)}: {ending(status)}\n")


def _exported(option: str) -> "dict[str, str]":
    """Return the variables of ``--export``; those of the scheduler are always there."""
    names = option.split(",")
    if "ALL" in names:
        base = dict(os.environ)
    else:
        kept = ("SLURM_", "HEADNODE_", "CCP_", "CUDA_DEVICE_ORDER", *GPU_LISTS)
        base = {name: value for name, value in os.environ.items() if name.startswith(kept) or name in names}
    return base | {name: value for name, mark, value in (each.partition("=") for each in names) if mark}


def _deadline(option: "str | None") -> float | None:
    if option is None:
        return None
    from headnode.apps.cli.batch_programs.changes import run_time

    limit = run_time(option)
    return None if limit is None else time.monotonic() + limit


def _counted(counts: "Sequence[int]") -> str:
    """Return numbers as Slurm writes them: ``2(x2),1``."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def _label(pipe: "Iterator[bytes]", rank: int, stream: int, width: int) -> None:
    """Pass lines on, each behind the number of its task."""
    for line in pipe:
        text = f"{rank:>{width}}: ".encode() + line
        while text:
            text = text[os.write(stream, text) :]


def _read_input() -> bytes:
    try:
        return os.read(0, _CHUNK)
    except OSError:  # it is closed, or the terminal is gone
        return b""


def _copy_to_all(inputs: "Sequence[int]") -> None:
    """Copy our standard input to all tasks; one that reads no more is left out."""
    left = list(inputs)
    while left and (data := _read_input()):
        for pipe in list(left):
            try:
                sent = 0
                while sent < len(data):
                    sent += os.write(pipe, data[sent:])
            except BrokenPipeError:
                left.remove(pipe)
                os.close(pipe)
    for pipe in left:
        os.close(pipe)
