"""``sacctmgr``, as far as it only shows: users, accounts, associations, QOS and the cluster.

Source:  Slurm 22.05, sacctmgr(1).
"""

import sys

from headnode.apps.cli.batch_programs.associations import Accounts
from headnode.apps.cli.batch_programs.columns import fields_of, of_rows, table
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored, read_words
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headnode.core.model.owner_limits import Limits

    Row = dict[str, str]
    Conditions = Mapping[str, set[str]]

OPTIONS = {
    **acted_on("associations/s! help/h! noheader/n! parsable/p! parsable2/P! version/V! usage!"),
    **ignored("immediate/i! oneliner/o! quiet/Q! readonly/r! verbose/v!", "nothing is changed"),
}
_FIELDS = {
    field.name: field
    for field in (
        of_rows(*one)
        for one in (
            ("Account", 10), ("Admin", 9, "adminlevel"), ("Cluster", 10), ("ControlHost", 15),
            ("ControlPort", 12), ("Def Acct", 10, "defaultaccount"), ("Def QOS", 9, "defaultqos"),
            ("Descr", 20, "description"), ("Flags", 40), ("GraceTime", 10), ("GrpCPUMins", 11),
            ("GrpCPUs", 8), ("GrpJobs", 7), ("GrpMem", 7), ("GrpNodes", 8), ("GrpSubmit", 9),
            ("GrpTRES", 13), ("GrpTRESMins", 13), ("GrpTRESRunMins", 13), ("GrpWall", 11),
            ("MaxCPUMins", 11), ("MaxCPUs", 8), ("MaxJobs", 7), ("MaxJobsPA", 9), ("MaxJobsPU", 9),
            ("MaxNodes", 8), ("MaxSubmit", 9), ("MaxSubmitPA", 11), ("MaxSubmitPU", 11), ("MaxTRES", 13),
            ("MaxTRESMins", 13), ("MaxTRESPA", 13), ("MaxTRESPerNode", 14), ("MaxTRESPU", 13),
            ("MaxWall", 11), ("MinTRES", 13), ("Name", 10), ("Org", 20, "organization"),
            ("ParentName", 10), ("Partition", 10), ("Preempt", 10), ("PreemptExemptTime", 19),
            ("PreemptMode", 11), ("Priority", 10), ("QOS", 20), ("RPC", 5), ("Share", 9),
            ("UsageFactor", 11), ("UsageThres", 10, "usagethreshold"), ("User", 10),
        )
    )
}  # fmt: skip
_OF_USER = (
    "user defaultaccount adminlevel cluster account partition share priority maxjobs maxnodes maxcpus "
    "maxsubmit maxwall maxcpumins qos defaultqos"
)
_OF_ACCOUNT = (
    "account description organization cluster parentname user share priority grpjobs grpnodes grpcpus "
    "grpmem grpsubmit grpwall grpcpumins maxjobs maxnodes maxcpus maxsubmit maxwall maxcpumins qos "
    "defaultqos"
)
_OF_ASSOCIATION = (
    "cluster account user partition share priority grpjobs grptres grpsubmit grpwall grptresmins "
    "maxjobs maxtres maxtrespernode maxsubmit maxwall maxtresmins qos defaultqos grptresrunmins"
)
_OF_QOS = (
    "name priority gracetime preempt preemptexempttime preemptmode flags usagethreshold usagefactor "
    "grptres grptresmins grptresrunmins grpjobs grpsubmit grpwall maxtres maxtrespernode maxtresmins "
    "maxwall maxtrespu maxjobspu maxsubmitpu maxtrespa maxjobspa maxsubmitpa mintres"
)
_OF_CLUSTER = (
    "cluster controlhost controlport rpc share grpjobs grptres grpsubmit maxjobs maxtres maxsubmit "
    "maxwall qos defaultqos"
)
_ENTITIES = ("account", "association", "cluster", "qos", "user")
_OF_OTHERS = {
    "account": "hn cluster params ProjectLimits=NAME:jobs=50; a job names its account, which needs no entry",
    "association": "hn cluster params UserLimits=NAME:jobs=10",
    "cluster": "hn cluster params",
    "qos": "hn template import FILE",
    "user": "hn cluster params UserLimits=NAME:jobs=10, or Administrators=NAME; users need no entry",
}
_CHANGES = ("add", "create", "delete", "modify", "remove", "update")
_NOT_HERE = (
    "No valid entity in list command",
    'Input line must include "Account", "Association", "Cluster",',
    '"QOS", or "User"',
)
_FLAGS = ("where", "withassoc", "withcoordinator", "wopinfo", "woplimits", "wolimits", "tree", "set")
_NAMES = {
    "account": ("account", "accounts", "acct", "accts"), "user": ("user", "users"),
    "cluster": ("cluster", "clusters"), "name": ("name", "names"), "format": ("format",),
    "partition": ("partition", "partitions"),
}  # fmt: skip


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show something.  What changes something is refused with the command that does it."""
    args = read_words(argv, OPTIONS)
    command, *rest = args.words or [""]
    low = command.lower()
    if low in _CHANGES:
        raise _change(low, rest)
    if low not in ("show", "list"):
        raise ProgramRefusal(f"invalid keyword: {command[:40]}", prefix="bare")
    entity = _entity(rest[0] if rest else "")
    conditions, format_of, with_associations = _conditions(entity, rest[1:])
    with_associations = with_associations or args.has("associations")
    names, usual, rows = _TABLES[entity]
    known = tuple(_FIELDS[name] for name in names.split())
    chosen = known[: len(known) if with_associations or not usual else usual]
    if format_of:
        chosen = tuple(fields_of(format_of, known, _refuse_field))
    found = [row for row in rows(Accounts(client), with_associations) if _meets(row, conditions)]
    sys.stdout.write(table(args, chosen, found))
    return 0


def _refuse_field(name: str) -> ProgramRefusal:
    return ProgramRefusal(f"Unknown field '{name}'", prefix="bare")


def _change(word: str, arguments: "Sequence[str]") -> ProgramRefusal:
    """Return the refusal of a change, with what does it here."""
    named = arguments[0].lower() if arguments else ""
    entity = next((one for one in _ENTITIES if len(named) > 1 and one.startswith(named.rstrip("s"))), "")
    use = _OF_OTHERS.get(entity, "hn help")
    if any(each.lower().startswith("fairshare") for each in arguments):
        use = f"hn cluster params {'UserShares' if entity == 'user' else 'ProjectShares'}=NAME:3"
    return ProgramRefusal(f"{word} is not supported here; use: {use}")


def _entity(word: str) -> str:
    """Return what is to be shown.

    Raises:  ProgramRefusal.
    """
    low = word.lower().rstrip("s") or word.lower()
    low = "account" if low == "acct" else "qos" if low in ("q", "qo") else low
    for one in _ENTITIES:
        if low and one.startswith(low) and (len(low) > 1 or low == "u"):
            return one
    raise ProgramRefusal(*_NOT_HERE, prefix="bare")


def _conditions(entity: str, argv: "Sequence[str]") -> "tuple[dict[str, set[str]], str, bool]":
    """Return which rows are wanted, the format, and whether associations are.

    Raises:  ProgramRefusal.
    """
    wanted, format_of, associations = dict[str, set[str]](), "", False
    for word in argv:
        key, equals, value = word.partition("=")
        low = key.lower()
        if not equals and low in _FLAGS:
            associations = associations or low == "withassoc"
            continue
        if not equals and entity == "association":
            raise ProgramRefusal(f"Invalid value for AssocId ({word[:40]})")
        meant = next((name for name, spellings in _NAMES.items() if low in spellings), "")
        if not equals:
            meant, value = "name", word
        if not meant:
            raise ProgramRefusal(f" Unknown condition: {word[:80]}", prefix="bare")
        if meant == "format":
            format_of = value
            continue
        field = entity if meant == "name" and entity not in ("qos", "association") else meant
        wanted.setdefault(field, set()).update(filter(None, value.split(",")))
    return wanted, format_of, associations


def _meets(row: "Row", wanted: "Conditions") -> bool:
    return all(row.get(field, "") in values for field, values in wanted.items())


def _limits_of(limits: "Limits") -> "Row":
    """Return limits as those of a group of jobs."""
    found = {str(amount.value): number for amount, number in limits.items() if number is not None}

    def amounts(processors: str, gpus: str) -> str:
        names = ((processors, "cpu"), (gpus, "gres/gpu"))
        return ",".join(f"{name}={found[amount]}" for amount, name in names if amount in found)

    return {
        "grpjobs": str(found.get("jobs", "")),
        "grpsubmit": str(found.get("submitted", "")),
        "grpcpus": str(found.get("processors", "")),
        "grptres": amounts("processors", "gpus"),
        "grpcpumins": str(found.get("processor-minutes", "")),
        "grptresmins": amounts("processor-minutes", "gpu-minutes"),
        "grptresrunmins": amounts("processor-minutes-running", "gpu-minutes-running"),
        "maxcpumins": str(found.get("processor-minutes-per-job", "")),
        "maxtresmins": amounts("processor-minutes-per-job", "gpu-minutes-per-job"),
    }


def _associations(accounts: Accounts, _all: bool = True) -> "list[Row]":
    limits, qos = accounts.limits("ProjectLimits"), ",".join(accounts.templates())
    every = {"cluster": accounts.cluster, "qos": qos}
    rows: list[Row] = []
    for row in accounts.tree():
        own = limits.get(row.account) or limits.get("*") or {}
        rows.append(
            {**every, "account": row.account, "user": row.user, "share": str(row.share["shares"])}
            | ({} if row.user else _limits_of(own))
        )
    return rows


def _users(accounts: Accounts, with_associations: bool) -> "list[Row]":
    rows: list[Row] = []
    every = _associations(accounts) if with_associations else []
    for user in accounts.users:
        own = [row.account for row in accounts.of_users if row.user == user]
        level = "Administrator" if user in accounts.administrators else "None"
        one = {"user": user, "defaultaccount": own[0] if len(own) == 1 else "", "adminlevel": level}
        mine = [row for row in every if row["user"] == user]
        rows += [row | one for row in mine] or [one]
    return rows


def _accounts(accounts: Accounts, with_associations: bool) -> "list[Row]":
    if with_associations:
        return [{"description": row["account"], **row} for row in _associations(accounts)]
    return [{"account": name, "description": name} for name in accounts.names]


def _qos(accounts: Accounts, _all: bool) -> "list[Row]":
    limits = _limits_of(accounts.limits("UserLimits").get("*") or {})
    of_users = {
        "maxjobspu": limits["grpjobs"],
        "maxsubmitpu": limits["grpsubmit"],
        "maxtrespu": limits["grptres"],
        "maxtresmins": limits["maxtresmins"],
    }
    usual = {"priority": "0", "gracetime": "00:00:00", "preemptmode": "cluster", "usagefactor": "1.000000"}
    return [{"name": name, **usual, **of_users} for name in accounts.templates()]


def _clusters(accounts: Accounts, _all: bool) -> "list[Row]":
    qos = ",".join(accounts.templates())
    return [{"cluster": accounts.cluster, "name": accounts.cluster, "share": "1", "qos": qos}]


_TABLES: "dict[str, tuple[str, int, Callable[[Accounts, bool], list[Row]]]]" = {
    "account": (_OF_ACCOUNT, 3, _accounts),
    "association": (_OF_ASSOCIATION, 0, _associations),
    "cluster": (_OF_CLUSTER, 0, _clusters),
    "qos": (_OF_QOS, 0, _qos),
    "user": (_OF_USER, 3, _users),
}
"""The fields of each, how many of them are there without associations (0: all), and its rows."""
