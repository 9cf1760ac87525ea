"""Jobs in the words of Grid Engine, as text and as XML."""

from headnode.apps.cli.batch_programs.qsub import spans
from headnode.apps.cli.batch_programs.rows import BatchRow
from headnode.apps.cli.batch_programs.values import FIELDS, date
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, names_here, read_dashed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from headnode.apps.cli.batch_programs.words import OptionTable

QUEUE = "all.q"
SCHEMAS = 'xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat'


def read_line(program: str, argv: "Sequence[str]", table: "OptionTable") -> ProgramWords:
    """Return a command line without other words read.

    Raises:  ProgramRefusal for a word that is no option, and for an option without its value.
    """

    def refuse(word: str) -> ProgramRefusal:
        what = f'invalid option argument "{word}"'
        return ProgramRefusal(what, names_here(program, table), prefix="bare")

    args = read_dashed(argv, table, refuse)
    if args.words:
        raise refuse(args.words[0])
    return args


def is_wanted(row: BatchRow, states: str) -> bool:
    """Return whether the states of ``-s`` mean a job."""
    letters = set(states.replace("a", "prsz" if "z" in states else "prs"))
    if "h" in letters and state_of(row) == "hqw":
        return True
    letter = {"PENDING": "p", "RUNNING": "r", "SUSPENDED": "s"}.get(row.state, "z")
    return letter in letters


def state_of(row: BatchRow) -> str:
    """Return the state in the letters of Grid Engine."""
    state = row.state
    if state == "PENDING":
        return "hqw" if row.reason in ("JobHeldUser", "BeginTime", "Dependency") else "qw"
    return {"RUNNING": "r", "SUSPENDED": "s"}.get(state, "z")


def tasks_of(row: BatchRow) -> str:
    """Return the numbers of its elements; "" if it is no array."""
    return spans(row.numbers) if row.numbers else "" if row.number is None else str(row.number)


def queue_of(row: BatchRow) -> str:
    """Return the queue instance in which a job runs; "" while it waits."""
    node = (FIELDS["batchhost"](row) or "").partition(",")[0]
    return f"{QUEUE}@{node}" if node and row.state in ("RUNNING", "SUSPENDED") else ""


def priority(row: BatchRow) -> str:
    """Return its priority, from 0 to 1."""
    return f"{row.job['priority'] / 4000:.5f}"


def since_of(row: BatchRow) -> float:
    """Return when it started, or was submitted."""
    return float(row.started or row.job["submitted"] or row.job["created"])


def element(name: str, text: str) -> str:
    """Return an element of XML with a text."""
    clean = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<{name}>{clean}</{name}>"


def listed(row: BatchRow, *, queue: bool = True) -> str:
    """Return the element of a job; without its `queue` if that is around it."""
    waits = row.state == "PENDING"
    at = "JB_submission_time" if waits else "JAT_start_time"
    values = [
        ("JB_job_number", str(row.id)),
        ("JAT_prio", priority(row)),
        ("JB_name", FIELDS["name"](row) or ""),
        ("JB_owner", str(row.job["owner"])),
        ("state", state_of(row)),
        (at, date(since_of(row)) or ""),
        *([("queue_name", queue_of(row))] if queue else []),
        ("slots", FIELDS["cpus"](row) or "1"),
    ]
    if tasks_of(row):
        values.append(("tasks", tasks_of(row)))
    inner = "".join(f"      {element(*value)}\n" for value in values)
    return f'    <job_list state="{"pending" if waits else "running"}">\n{inner}    </job_list>\n'


def job_info(running: str, pending: str) -> str:
    """Return the document of jobs that run and that wait."""
    return (
        f"<?xml version='1.0'?>\n<job_info  {SCHEMAS}/qstat.xsd\">\n"
        f"  <queue_info>\n{running}  </queue_info>\n  <job_info>\n{pending}  </job_info>\n</job_info>\n"
    )
