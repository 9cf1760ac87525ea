"""``sshare``: the shares of users and accounts, and what they have used.

Source:  Slurm 22.05, sshare(1).
"""

import sys

from headnode.apps.cli.batch_programs.associations import Accounts, Association
from headnode.apps.cli.batch_programs.columns import field_names, fields_of, of_rows, table
from headnode.apps.cli.batch_programs.rows import refuse_other_clusters
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored, read_words
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from headnode.apps.cli.batch_programs.words import ProgramWords

OPTIONS = {
    **acted_on(
        "accounts/A all/a! helpformat/e! long/l! noheader/n! format/o parsable/p! parsable2/P! partition/m! "
        "users/u Users/U! version/V! help! usage!"
    ),
    **ignored("clusters/M verbose/v!", "there is one cluster"),
}
_FIELDS = tuple(
    of_rows(heading, width)
    for heading, width in (
        ("Account", -20), ("User", 10), ("Partition", 12), ("RawShares", 10), ("NormShares", 11),
        ("RawUsage", 11), ("NormUsage", 11), ("EffectvUsage", 13), ("FairShare", 10), ("LevelFS", 10),
        ("GrpTRESMins", 30), ("TRESRunMins", 30), ("Cluster", 10), ("GrpTRESRaw", 30), ("ID", 6),
    )
)  # fmt: skip
_USUAL = "account,user,rawshares,normshares,rawusage,effectvusage,fairshare"
_LONG = _USUAL.replace("effectv", "normusage,effectv") + ",levelfs,grptresmins,tresrunmins"
_WITH_PARTITION = _USUAL.replace("user,", "user,partition,")
ROOT = "root"
"""The account above all others."""


def run(argv: "Sequence[str]", client: Client) -> int:
    """List shares and usage."""
    args = read_words(argv, OPTIONS)
    if args.has("helpformat"):
        sys.stdout.write(field_names(_FIELDS, 17))
        return 0
    refuse_other_clusters(args, client)
    usual = _LONG if args.has("long") else _WITH_PARTITION if args.has("partition") else _USUAL
    fields = fields_of(args.text("format") or usual, _FIELDS, _refuse)
    sys.stdout.write(table(args, fields, _rows(args, Accounts(client))))
    return 0


def _refuse(name: str) -> ProgramRefusal:
    return ProgramRefusal(f'sshare: error: Invalid field requested: "{name}"', prefix="bare")


def _rows(args: "ProgramWords", known: Accounts) -> "list[dict[str, str]]":
    """Return the lines: the whole cluster, then each account with its users."""
    accounts, named = set(args.parts("accounts")), set(args.parts("users"))
    users = named or (set[str]() if args.has("all") else {known.user})
    found: list[dict[str, str]] = []
    if not args.has("Users") and (not accounts or ROOT in accounts):
        whole = {
            "shares": 1,
            "part": 1.0,
            "used": known.total,
            "used_part": 1.0,
            "level": None,
            "fair_share": 0.0,
        }
        found.append(_row(Association(ROOT, "", whole), known, indent=0) | {"rawshares": ""})
    if not args.has("Users") and (not accounts or ROOT in accounts):  # else tools take it for an account
        found += [_row(row, known, root=True) for row in known.without_account if _meant(row, users)]
    for row in known.tree():
        if (not accounts or row.account in accounts) and _meant(row, users):
            found.append(_row(row, known))
    if not args.has("Users"):
        return found
    return [row | {"account": row["account"].strip()} for row in found if row["user"]]


def _meant(row: Association, users: "set[str]") -> bool:
    return not row.user or not users or row.user in users


def _row(row: Association, known: Accounts, *, root: bool = False, indent: int = 1) -> "dict[str, str]":
    """Return the values of a line."""
    share, depth = row.share, indent + bool(row.user and not root)
    level = share["level"] and 1 / share["level"]
    return {
        "account": " " * depth + (ROOT if root else row.account),
        "user": row.user,
        "rawshares": str(share["shares"]),
        "normshares": f"{share['part']:.6f}",
        "rawusage": f"{share['used']:.0f}",
        "normusage": f"{share['used'] / known.total if known.total else 0.0:.6f}",
        "effectvusage": f"{share['used_part']:.6f}",
        "fairshare": f"{share['fair_share']:.6f}" if row.user else "",
        "levelfs": "inf" if level == 0 else f"{level or 0:.6f}",
        "cluster": known.cluster,
    }
