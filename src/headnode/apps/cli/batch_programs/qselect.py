"""``qselect`` of PBS: the ids of the jobs that fit all options, for other programs: ``qdel $(qselect -s Q)``.

Source:  PBS Professional 22, qselect(1B).
"""

from headnode.apps.cli.batch_programs.pbs_rows import id_of, queue_of, state_of
from headnode.apps.cli.batch_programs.qsub import server
from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource, rows_of
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    names_here,
    read_pbs_words,
    refused,
)
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OPTIONS = {
    **acted_on("A h H! J! N P q s T! u x!"),
    **refused("a c l p r t", "choose by -s, -u, -N, -q, -A, -P and -h"),
}
_STATES = frozenset("BEFHMQRSTUWX")


def run(argv: "Sequence[str]", client: Client) -> int:
    """Print the ids of the jobs that fit, one on a line."""
    args = read_pbs_words("qselect", argv, OPTIONS)
    if args.words:
        raise ProgramRefusal("no job can be named", names_here("qselect", OPTIONS), status=2, prefix="")
    if wrong := set(args.value("s")) - _STATES:
        raise ProgramRefusal(f"illegal -s value: {''.join(sorted(wrong))}", status=2, prefix="")
    name = server(client)
    for row in _rows(JobSource(client), args):
        if _fits(row, args):
            print(id_of(row, name))
    return 0


def _rows(source: JobSource, args: ProgramWords) -> "Iterator[BatchRow]":
    """Yield the jobs that may fit, in the order of their ids; with ``-T`` the elements of arrays, too."""
    users = args.parts("u")
    owner = users[0] if len(users) == 1 else None
    jobs = [] if args.has("H") else list(source.pages(LIVING, owner=owner))
    if args.has_any("xH"):  # as qstat: the archive may have millions
        jobs += source.pages(ENDED_STATES, owner=owner, most=1)
    for job in sorted(jobs, key=lambda job: int(job["id"])):
        yield BatchRow(source, job)
        if job["array"] and args.has("T"):
            yield from rows_of(source, job, expand=True)


def _fits(row: BatchRow, args: ProgramWords) -> bool:
    users, states, held = args.parts("u"), args.value("s"), args.text("h")
    if (args.has("J") and not row.job["array"]) or (users and row.job["owner"] not in users):
        return False
    if (states and state_of(row) not in states) or (
        held is not None and ("n" in held) == (row.reason == "JobHeldUser")
    ):
        return False
    named = (
        ("N", FIELDS["name"](row)),
        ("q", queue_of(row)),
        ("A", FIELDS["account"](row)),
        ("P", FIELDS["account"](row)),
    )
    return all(not args.has(option) or args.text(option) == (value or "") for option, value in named)
