"""``condor_rm``, ``condor_hold``, ``condor_release`` and ``condor_prio``: change jobs.

Source:  HTCondor 24, condor_rm(1), condor_hold(1), condor_release(1), condor_prio(1).
"""

import os
import sys

from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.words import acted_on, ignored, refused
from headnode.apps.cli.condor_programs.options import CondorWords, read_line, refusal
from headnode.apps.cli.condor_programs.processes import (
    HELD,
    NEUTRAL_PRIORITY,
    CondorProcess,
    CondorSource,
)
from headnode.apps.cli.condor_programs.selection import WantedProcesses
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COMMON = {
    **acted_on("constraint all! reason totals!"),
    **ignored("name pool addr debug!", "hn's --scheduler and hn login choose the head"),
    **refused("long!", "use condor_q -long"),
}
OPTIONS = {
    "condor_rm": {
        **_COMMON,
        **acted_on("forcex!"),
        **ignored("fast! graceful!", "tasks get the grace period of the cluster"),
    },
    "condor_hold": {**_COMMON, **ignored("subcode", "a hold has no codes here")},
    "condor_release": _COMMON,
    "condor_prio": {**_COMMON, **acted_on("p priority")},
}
_DONE = {
    "condor_rm": "marked for removal",
    "condor_hold": "held",
    "condor_release": "released",
    "condor_prio": "set to the new priority",
}
_VERB = {"condor_rm": "remove", "condor_hold": "hold", "condor_release": "release", "condor_prio": "change"}
_FORCED = "removed locally (remote state unknown)"
_SUPERUSER = 0


class _NotSo(Exception):
    """A process is not in a state for it: its argument is what is printed."""


def run(program: str, argv: "Sequence[str]", client: Client, _system: str = "") -> int:
    """Change the jobs that are meant; return 1 if one of them could not be changed."""
    args = read_line(program, _with_priority(argv) if program == "condor_prio" else argv, OPTIONS[program])
    if not args.words and not args.has("constraint") and not args.has("all"):
        raise refusal(
            "You did not specify any jobs", "give CLUSTER, CLUSTER.PROCESS, USER, -constraint or -all"
        )
    priority = args.text("priority") or args.text("p") or ""
    if program == "condor_prio" and not (priority.lstrip("+-").isdigit() and len(priority) < 12):
        raise refusal("condor_prio needs a priority", "write condor_prio -p 5 CLUSTER, or +5")
    return _Actions(program, args, client).run()


def _with_priority(argv: "Sequence[str]") -> "list[str]":
    """Return a command line of condor_prio with ``-p`` before a priority typed as ``+5`` or ``-5``."""
    found: list[str] = []
    for word in argv:
        is_step = word[:1] in "+-" and word[1:].isdigit() and found[-1:] not in (["-p"], ["-priority"])
        found += ["-p", word] if is_step else [word]
    return found


class _Actions:
    def __init__(self, program: str, args: CondorWords, client: Client) -> None:
        self._program, self._asked, self._client = program, args, client
        self._source = CondorSource(client)
        self._failed = False
        self._did: dict[int, str] = {}  # whole jobs that were changed

    def run(self) -> int:
        wanted = WantedProcesses(self._asked.words)
        for cluster, number in wanted.processes:
            self._process(cluster, number)
        constraints = self._asked.values("constraint")
        for cluster in wanted.clusters:
            self._all(WantedProcesses([str(cluster)], constraints), f" in cluster {cluster}", None)
        for owner in wanted.owners:
            self._all(WantedProcesses([owner], constraints), f' of user "{owner}"', owner)
        if not self._asked.words:
            whose = None if os.geteuid() == _SUPERUSER else own_user()
            named = " and ".join(constraints)
            text = f" matching constraint ({named})" if constraints else ""
            self._all(WantedProcesses([], constraints), text, whose)
        return 1 if self._failed else 0

    def _process(self, cluster: int, number: int) -> None:
        job = self._source.answers_of([cluster]).get(cluster)
        row = None if job is None else self._source.process(job, number)
        if row is None:
            self._fail(f"Job {cluster}.{number} not found")
            return
        try:
            self._change(row, alone=row.job["tasks"]["total"] == 1)
        except _NotSo as no:
            self._fail(str(no))
        else:
            sys.stdout.write(f"Job {row.id} {self._done}\n")

    def _all(self, constraints: WantedProcesses, which: str, owner: str | None) -> None:
        """Change all jobs that are meant, and tell it in one line."""
        changed = 0
        refused_ones: list[str] = []
        for row, alone in self._meant(constraints, owner):
            try:
                self._change(row, alone=alone)
                changed += 1
            except _NotSo as no:
                refused_ones.append(str(no))
        if changed and not refused_ones:
            sys.stdout.write(f"All jobs{which} have been {self._done}\n")
            return
        for line in refused_ones:
            sys.stderr.write(f"{line}\n")
        self._fail(f"Couldn't find/{_VERB[self._program]} all jobs{which}")

    def _meant(
        self, constraints: WantedProcesses, owner: str | None
    ) -> "Iterator[tuple[CondorProcess, bool]]":
        """Yield the processes to change, and whether each stands for its whole job."""
        for job in constraints.jobs(self._source, owner):
            if job["state"] in ENDED_STATES:
                if self._asked.has("forcex") and (row := self._source.process(job, 0)) is not None:
                    yield row, True
                continue
            if not constraints.constraints:
                row = self._source.process(job, 0)
                if row is not None:
                    yield row, True
                continue
            rows = list(constraints.rows(self._source, job))
            living = [row for row in rows if not row.is_over]
            whole = len(rows) == job["tasks"]["total"]
            yield from ((row, whole) for row in (living[:1] if whole else living))

    @property
    def _done(self) -> str:
        return _FORCED if self._asked.has("forcex") else _DONE[self._program]

    def _fail(self, line: str) -> None:
        self._failed = True
        sys.stderr.write(f"{line}\n")

    def _change(self, row: CondorProcess, *, alone: bool) -> None:
        """Change a process, or its whole job (`alone`).

        Raises:  _NotSo.
        """
        from headnode.apps.client.failures import is_away
        from headnode.core.model.errors import HeadnodeError, NotAllowed

        try:
            {
                "condor_rm": self._remove,
                "condor_hold": self._hold,
                "condor_release": self._release,
                "condor_prio": self._prioritize,
            }[self._program](row, alone)
        except NotAllowed as no:
            raise _NotSo(f"Permission denied to {_VERB[self._program]} job {row.id}: {no.what}") from None
        except HeadnodeError as no:
            if is_away(no):
                raise
            raise _NotSo(f"Job {row.id}: {no.what}; {no.fix}") from None

    def _remove(self, row: CondorProcess, alone: bool) -> None:
        if row.job["state"] in ENDED_STATES or (not alone and row.is_over):
            if self._asked.has("forcex"):
                return
            raise _NotSo(f"Job {row.id} not found")
        message = self._asked.text("reason") or f"via condor_rm (by user {own_user()})"
        if alone:
            self._client.ask("cancel_job", job=row.cluster, message=message)
        else:
            task = row.task
            self._client.ask(
                "cancel_task", job=row.cluster, task=task["task"], instance=task["instance"], message=message
            )

    def _hold(self, row: CondorProcess, alone: bool) -> None:
        self._refuse_part(row, alone=alone)
        if row.status == HELD:
            raise _NotSo(f"Job {row.id} already held")
        message = self._asked.text("reason") or f"via condor_hold (by user {own_user()})"
        self._client.ask("hold_job", job=row.cluster, message=message, requeue=True)

    def _release(self, row: CondorProcess, alone: bool) -> None:
        self._refuse_part(row, alone=alone)
        if row.status != HELD:
            raise _NotSo(f"Job {row.id} not held to be released")
        self._client.ask("release_job", job=row.cluster, all=True)

    def _prioritize(self, row: CondorProcess, alone: bool) -> None:
        self._refuse_part(row, alone=alone)
        text = self._asked.text("priority") or self._asked.text("p") or ""
        base = (
            int(row.job["priority"])
            if text[0] in "+-" and not self._asked.has("priority")
            else NEUTRAL_PRIORITY
        )
        value = min(max(base + int(text), 0), 2 * NEUTRAL_PRIORITY)
        self._client.ask("modify_job", job=row.cluster, terms={"priority": str(value)})

    def _refuse_part(self, row: CondorProcess, *, alone: bool) -> None:
        if not alone:
            what = f"Job {row.id}: processes of a cluster are not {_DONE[self._program]} one by one here"
            raise _NotSo(f"{what}; use: {self._program} {row.cluster}")
