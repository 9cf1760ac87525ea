"""Who asks."""

from enum import StrEnum

import msgspec

from headnode.core.model.receipt import Once


class Role(StrEnum):
    """What somebody may do beside what everybody may."""

    USER = "user"  # changes his own jobs
    OPERATOR = "operator"  # sees to the jobs of everybody
    ADMINISTRATOR = "administrator"  # changes everything: jobs, nodes, parameters, who may log in


class User(msgspec.Struct, frozen=True):
    """Somebody who gives commands, known by the operating system's own word for them.

    `administrator` is true for root and for the user who started the head, and for those whom the cluster
    parameters name; `operator` only for those.
    """

    name: str
    uid: int
    gid: int
    administrator: bool = False
    operator: bool = False
    groups: tuple[str, ...] = ()  # names of the groups of the operating system he is in
    by_node: bool = False  # he asks by a node, where nobody has a role
    origin: str = ""  # from where he asks, as the audit log says it; empty: not said
    host: str = ""  # the host that he asks from: by name, or by address; empty: not said
    once: Once | None = None  # what he asks for now must be carried out once only

    @property
    def oversees(self) -> bool:
        """Whether he may see to jobs that are not his own."""
        return self.administrator or self.operator

    @property
    def role(self) -> Role:
        """The highest role he has."""
        if self.administrator:
            return Role.ADMINISTRATOR
        return Role.OPERATOR if self.operator else Role.USER
