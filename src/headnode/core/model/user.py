"""The user of a request, and the receipt of a request with an idempotency key."""

from enum import StrEnum
from typing import Literal

import msgspec
from msgspec.structs import replace

from headnode.core.model.quantities import Instant


class IdempotencyKey(msgspec.Struct, frozen=True):
    """The idempotency key of a request: `key` as the user chose it, and a digest of the whole request."""

    key: str
    digest: bytes
    verb: str


class ExpectedState(msgspec.Struct, frozen=True):
    """What a request may change only as long as it is as the user has read it.

    `kind`: job, node, reservation, template or parameters; `state` as `state_of` in core/state/decide has it.
    """

    kind: str
    name: str
    state: bytes


class Receipt(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The result of a request with an idempotency key: jobs, or tasks `first_task` to `last_task` of a job.

    It is deleted when `expires` has passed.  Of many submissions in one request `jobs` has the first id:
    the others follow it, and `batch` says what became of each submission.
    """

    uid: int
    key: str
    digest: bytes
    verb: str
    expires: Instant
    jobs: tuple[int, ...] = ()
    first_task: int = 0
    last_task: int = 0
    batch: bytes = (
        b""  # of submit_jobs, packed: how many jobs each submission made, or the code of its refusal
    )


class UserRole(StrEnum):
    """The role of a user: the permissions beyond those of every user."""

    USER = "user"  # changes his own jobs
    OPERATOR = "operator"  # sees to the jobs of everybody
    ADMINISTRATOR = "administrator"  # changes everything: jobs, nodes, parameters, who may log in


TokenRole = Literal["all", "operator", "user", "reader"]
"""What a token gives of the rights of its user: all; those of an operator or a user; only to read."""


class User(msgspec.Struct, frozen=True):
    """A user who gives commands, with the names and numbers of the operating system.

    `administrator` is true for root and for the user who started the head, and for those whom the cluster
    parameters name; `operator` only for those.
    """

    name: str
    uid: int
    gid: int
    administrator: bool = False
    operator: bool = False
    groups: tuple[str, ...] = ()  # names of the groups of the operating system he is in
    by_node: bool = False  # the request comes from a node, where no user has a role
    origin: str = ""  # where the request comes from, as in the audit log; empty: unknown
    host: str = ""  # the host of the request: its name, or its address; empty: unknown
    once: IdempotencyKey | None = None  # the current request must be carried out only once
    expected: ExpectedState | None = None  # the current request changes something only if it is so
    reads_only: bool = False  # the token of the request lets its user change nothing

    @property
    def oversees(self) -> bool:
        """Whether the user may manage jobs of other users."""
        return self.administrator or self.operator

    @property
    def role(self) -> UserRole:
        """The highest role of the user."""
        if self.administrator:
            return UserRole.ADMINISTRATOR
        return UserRole.OPERATOR if self.operator else UserRole.USER

    def limited_to(self, role: TokenRole) -> "User":
        """Return the user with no more rights than a role has."""
        if role == "all":
            return self
        operator = self.oversees and role == "operator"
        return replace(self, administrator=False, operator=operator, reads_only=role == "reader")
