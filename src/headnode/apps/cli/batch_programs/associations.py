"""What ``sacctmgr`` and ``sshare`` list: users with their projects, which are accounts there.

A project needs no entry here: it is one as soon as a job names it, or a limit.
"""

from headnode.apps.cli.batch_programs.rows import on_one_line
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from headnode.core.model.owner_limits import Limits


_HIDDEN = {"shares": 1, "part": 0.0, "used": 0.0, "used_part": 0.0, "level": None, "fair_share": 0.0}
"""What is shown of an account that other users have used, and the user has not."""


class Association:
    """An account, or a user in it, with its share and what was used of it, as the verb `shares` has them."""

    __slots__ = ("account", "share", "user")

    def __init__(self, account: str, user: str, share: "Mapping[str, Any] | None" = None) -> None:
        self.account, self.user = account, user
        self.share: Mapping[str, Any] = share or _HIDDEN


class Accounts:
    """The users and accounts that the head knows, as far as the asker may see them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        asker = client.ask("whoami")
        self.user, self.cluster = str(asker["user"]), str(asker["cluster"])
        self.administrators = {self.user} if asker["role"] == "administrator" else set[str]()
        self.total, after = 0.0, ""
        found: list[dict[str, Any]] = []
        self._projects: dict[str, dict[str, Any]] = {}
        while True:
            answer = client.ask("shares", after=after)
            self._projects |= {each["project"]: each for each in map(on_one_line, answer["projects"])}
            found += map(on_one_line, answer["users"])
            self.total, after = float(answer["total"]), answer["more"] or ""
            if not after:
                break
        shares = {(each["project"], each["user"]): each for each in found}
        self.users = sorted({self.user, *(user for _, user in shares)})
        rows = [Association(project, user, share) for (project, user), share in sorted(shares.items())]
        self.of_users = [row for row in rows if row.account]
        self.without_account = [row for row in rows if not row.account]

    @property
    def names(self) -> "list[str]":
        """The accounts."""
        return sorted({row.account for row in self.of_users})

    def tree(self) -> "list[Association]":
        """Return each account, followed by its users."""
        found: list[Association] = []
        for name in self.names:
            users = [row for row in self.of_users if row.account == name]
            found += [Association(name, "", self._projects.get(name)), *users]
        return found

    def limits(self, parameter: str) -> "Mapping[str, Limits]":
        """Return the limits in a cluster parameter by the names of its entries."""
        from headnode.core.model.owner_limits import read_owner_limits

        for each in self._client.ask("parameters")["parameters"]:
            if each["name"] == parameter:
                return read_owner_limits(str(each["value"] or ""))
        return {}

    def templates(self) -> "list[str]":
        """Return the names of job templates, which are QOS there."""
        return [str(each["name"]) for each in self._client.ask("templates")["templates"]]
