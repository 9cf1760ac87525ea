"""``sreport``: the processor time that users and accounts have used in a period.

Source:  Slurm 22.05, sreport(1).
"""

import sys
import time

from headnode.apps.cli.batch_programs.columns import fields_of, of_rows, table
from headnode.apps.cli.batch_programs.rows import JobSource, on_one_line, refuse_other_clusters
from headnode.apps.cli.batch_programs.sshare import ROOT
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    acted_on,
    ignored,
    moment,
    number_of,
    read_words,
    refused,
)
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headnode.apps.cli.batch_programs.words import ProgramWords

    Used = dict[tuple[str, str], float]
    """Processor-seconds by account and user."""

OPTIONS = {
    **acted_on("noheader/n! parsable/p! parsable2/P! time/t tres/T version/V! help/h! usage!"),
    **ignored(
        "all_clusters/a! cluster/M federation! local! quiet/Q! verbose/v!",
        "there is one cluster; it is asked",
    ),
    **refused("exit/e!", "sreport reads no commands here; write the report behind it"),
}
LIFE = 366 * 86400.0  # seconds before a period in which a job may have been submitted that ran in it
PAGE = 500
_DAY = 86400.0
_UNITS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
_FIELDS = tuple(
    of_rows(heading, width, name)
    for heading, width, name in (
        ("Account", 15, "account"), ("Cluster", 9, "cluster"), ("Energy", 8, "energy"),
        ("Login", 9, "login"), ("Proper Name", 15, "proper"), ("Used", 8, "used"),
    )
)  # fmt: skip
_NAMES = {
    "start": "start", "end": "end", "format": "format", "topcount": "topcount", "account": "accounts",
    "accounts": "accounts", "user": "users", "users": "users", "group": "group",
}  # fmt: skip


def run(argv: "Sequence[str]", client: Client) -> int:
    """Print a report."""
    args = read_words(argv, OPTIONS)
    refuse_other_clusters(args, client)
    report = _report(args.words[:2])
    conditions = _conditions(args.words[2:])
    begin, end = _period(conditions)
    if end <= begin:
        raise ProgramRefusal("Start time must be before end time", prefix="bare")
    unit = _unit(args)
    cluster = str(client.ask("whoami")["cluster"])
    used = _chosen(_used(client, begin, end), conditions)
    fields = fields_of(conditions.get("format") or report.fields, _FIELDS, _refuse_field)
    if not args.has("noheader"):
        sys.stdout.write(_heading(report.title(conditions), begin, end, unit))
    rows = ({**row, "cluster": cluster} for row in report.rows(used, conditions, _UNITS[unit]))
    sys.stdout.write(table(args, fields, rows))
    return 0


class _Report:
    """A report: its title, its columns, and the rows that it makes of what was used."""

    __slots__ = ("fields", "rows", "title")

    def __init__(
        self,
        title: "Callable[[Mapping[str, str]], str]",
        fields: str,
        rows: "Callable[[Used, Mapping[str, str], float], Iterator[dict[str, str]]]",
    ) -> None:
        self.title, self.fields, self.rows = title, fields, rows


def _by_account(used: "Used", _conditions: "Mapping[str, str]", unit: float) -> "Iterator[dict[str, str]]":
    """Yield each account with its sum, and its users below it; the first is the whole cluster."""
    if used:
        yield {"account": ROOT, "used": _amount(sum(used.values()), unit)}
    for account in sorted({account for account, _ in used}, key=lambda name: (name != "", name)):
        users = {user: seconds for (name, user), seconds in used.items() if name == account}
        if account:
            yield {"account": account, "used": _amount(sum(users.values()), unit)}
        for user in sorted(users):
            yield _row(account, user, users[user], unit)


def _by_user(used: "Used", _conditions: "Mapping[str, str]", unit: float) -> "Iterator[dict[str, str]]":
    for account, user in sorted(used, key=lambda key: (key[1], key[0])):
        yield _row(account, user, used[account, user], unit)


def _top(used: "Used", conditions: "Mapping[str, str]", unit: float) -> "Iterator[dict[str, str]]":
    """Yield the users that have used most; with ``group`` each once, with all accounts."""
    found: Used = {}
    accounts: dict[str, list[str]] = {}
    for account, user in sorted(used):
        accounts.setdefault(user, []).append(account or ROOT)
    for (account, user), seconds in used.items():
        key = (",".join(accounts[user]) if "group" in conditions else account, user)
        found[key] = found.get(key, 0.0) + seconds
    most = sorted(found, key=lambda key: (-found[key], key[::-1]))
    for account, user in most[: _top_count(conditions)]:
        yield _row(account, user, found[account, user], unit)


_REPORTS = {
    ("cluster", "accountutilizationbyuser"): _Report(
        lambda _: "Cluster/Account/User Utilization", "cluster,account,login,proper,used,energy", _by_account
    ),
    ("cluster", "userutilizationbyaccount"): _Report(
        lambda _: "Cluster/User/Account Utilization", "cluster,login,proper,account,used,energy", _by_user
    ),
    ("user", "topusage"): _Report(
        lambda conditions: f"Top {_top_count(conditions)} Users",
        "cluster,login,proper,account,used,energy",
        _top,
    ),
}


def _report(words: "Sequence[str]") -> _Report:
    """Return the report that two words name; each may be cut short, as in Slurm."""
    names = [word.lower() for word in words]
    if len(names) == 2 and all(names):
        for (kind, name), report in _REPORTS.items():
            if kind.startswith(names[0]) and name.startswith(names[1]):
                return report
    known = ", ".join(" ".join(names) for names in _REPORTS)
    raise ProgramRefusal(f"sreport: {' '.join(words)[:60]!r} is no report here", f"there are: {known}")


def _conditions(words: "Sequence[str]") -> "dict[str, str]":
    """Return the conditions behind the report: ``start=2026-11-01``, ``users=ada,bob``."""
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        known = _NAMES.get(name.lower())
        if known is None or (not value and known != "group"):
            raise ProgramRefusal(f" Unknown condition: {word[:60]}", prefix="bare")
        found[known] = value
    return found


def _period(conditions: "Mapping[str, str]") -> tuple[float, float]:
    """Return the period in seconds since 1970: by default yesterday, or from the start until now."""
    now = time.time()
    today = moment("today", now)
    begin = moment(conditions["start"], now) if "start" in conditions else moment("today", today - _DAY / 2)
    if "end" in conditions:
        return begin, moment(conditions["end"], now)
    return begin, today if begin < today else now


def _top_count(conditions: "Mapping[str, str]") -> int:
    text = conditions.get("topcount", "10")
    count = number_of(text, 6)
    if count is None:
        raise ProgramRefusal(f"TopCount={text[:40]} is no number")
    return count


def _unit(args: "ProgramWords") -> str:
    tres = args.value("tres") or "cpu"
    if tres.lower() != "cpu":
        raise ProgramRefusal(f"-T {tres[:40]}: only the usage of processors is reported, cpu")
    text = (args.value("time") or "minutes").lower()
    found = next((unit for unit in _UNITS if unit.startswith(text)), None)
    if found is None:
        raise ProgramRefusal(
            f"-t {text[:40]}: write one of {', '.join(_UNITS)}",
            "a part of the cluster is not reported, as its nodes of that time are not known",
        )
    return found


def _used(client: Client, begin: float, end: float) -> "Used":
    """Return the processor-seconds that jobs have held in a period, those that still run with them."""
    found: Used = {}

    def add(account: str, user: str, processors: int, started: float | None, ended: float | None) -> None:
        if started is not None:
            seconds = min(end, now if ended is None else ended) - max(begin, started)
            if seconds > 0 and processors:
                found[account, user] = found.get((account, user), 0.0) + processors * seconds

    now = time.time()
    for job in JobSource(client).pages(("Running", "Suspended"), owner=None):
        add(job["project"], job["owner"], job["allocated"], job["started"], None)
    after: int | None = 0
    while after is not None:
        page = client.ask("ended_jobs", after=after, limit=PAGE, since=begin - LIFE, until=end)
        for job in map(on_one_line, page["jobs"]):
            add(job["project"], job["owner"], job["processors"], job["started"], job["ended"])
        after = page["more"]
    return found


def _chosen(used: "Used", conditions: "Mapping[str, str]") -> "Used":
    accounts = set(filter(None, conditions.get("accounts", "").split(",")))
    users = set(filter(None, conditions.get("users", "").split(",")))
    return {
        (account, user): seconds
        for (account, user), seconds in used.items()
        if (not accounts or account in accounts) and (not users or user in users)
    }


def _row(account: str, user: str, seconds: float, unit: float) -> "dict[str, str]":
    return {
        "account": account or ROOT,
        "login": user,
        "proper": _proper_name(user),
        "used": _amount(seconds, unit),
        "energy": "0",
    }


def _amount(seconds: float, unit: float) -> str:
    return f"{seconds / unit:.0f}"


def _proper_name(user: str) -> str:
    """Return the name of a person, as the operating system has it."""
    import pwd

    try:
        return pwd.getpwnam(user).pw_gecos.partition(",")[0]
    except KeyError:
        return ""


def _heading(title: str, begin: float, end: float, unit: str) -> str:
    line = "-" * 80
    first, last = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) for at in (begin, end - 1))
    return (
        f"{line}\n{title} {first} - {last} ({end - begin:.0f} secs)\n"
        f"Usage reported in CPU {unit.capitalize()}\n{line}\n"
    )


def _refuse_field(name: str) -> ProgramRefusal:
    return ProgramRefusal(f" Unknown field '{name}'", prefix="bare")
