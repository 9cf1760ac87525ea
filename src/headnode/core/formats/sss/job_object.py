"""The SSS job object: job groups, jobs, task groups and tasks, with what they request and were given.

A document is kept as it was written: defaults are not merged, implicit task groups and tasks are not
written out.  `inheritance` does both, on a copy.

A JobGroup becomes jobs of one group, a graph by their Dependencies; a Job a job; its TaskGroups tasks that
start together on nodes that suit each; TaskCount the instances of such a task; explicit Tasks its instances;
Files scripts that stand in the command.
Source: SSS 3.1.0, "JobGroup", "Job and JobDefaults", "TaskGroup and TaskGroupDefaults",
"Task and TaskDefaults".
"""

from collections.abc import Iterator

import msgspec

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.properties import Envelope, Property, Value
from headnode.core.formats.sss.versions import Version


class Part(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """What all parts of a document have: properties, an awareness policy, attributes nobody understood."""

    properties: tuple[Property, ...] = ()
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()

    def all(self, name: str) -> Iterator[Property]:
        """Yield the properties called `name` in 3.1.0, outside of Requested and Delivered."""
        return (found for found in self.properties if found.name == name)

    def value(self, name: str) -> Value:
        """Return the value of the first property called `name`; None when it is not set."""
        for found in self.properties:
            if found.name == name:
                return found.value
        return None

    def values(self) -> dict[str, Value]:
        """Return the values of all properties by their names; of several of a name that of the first."""
        return {found.name: found.value for found in reversed(self.properties)}

    def structured(self) -> dict[type[Property], list[Property]]:
        """Return the properties with a structure of their own, by their structs."""
        found: dict[type[Property], list[Property]] = {}
        for one in self.properties:
            if type(one) is not Property:
                found.setdefault(type(one), []).append(one)
        return found

    @property
    def id(self) -> str:
        """The identifier; "" when there is none."""
        return str(self.value("Id") or "")

    @property
    def name(self) -> str:
        """The name; "" when there is none."""
        return str(self.value("Name") or "")


class Scope(Part, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A part whose properties may also be those requested and those delivered."""

    requested: Envelope | None = None
    delivered: Envelope | None = None


class Task(Scope, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A task, or the defaults of tasks."""


class Reference(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A part that is defined elsewhere, by its id."""

    id: str
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()


class TaskRef(Reference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A task that is defined elsewhere."""


class TaskGroupRef(Reference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A task group that is defined elsewhere."""


class JobRef(Reference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A job that is defined elsewhere."""


class JobGroupRef(Reference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A job group that is defined elsewhere."""


class TaskGroup(Scope, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Tasks with common properties, or the defaults of task groups.

    Several defaults may stand beside each other; the later ones override the earlier.
    """

    tasks: tuple[Task | TaskRef, ...] = ()
    task_defaults: tuple[Task, ...] = ()


class Job(Scope, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A job, or the defaults of jobs."""

    task_groups: tuple[TaskGroup | TaskGroupRef, ...] = ()
    task_group_defaults: tuple[TaskGroup, ...] = ()


class JobGroup(Part, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Jobs that depend on one another."""

    jobs: tuple[Job | JobRef, ...] = ()
    job_defaults: Job | None = None


class File(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A file that travels with jobs: the script that an Executable ``#id`` means.  Blanks count."""

    id: str
    body: str = ""
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()  # such as name, owner, mode


Entry = Job | JobGroup | JobRef | JobGroupRef


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a file holds.

    One job or group alone is the outermost element; anything else stands in a Data element, as do files.
    """

    version: Version = Version.V3_1
    entries: tuple[Entry, ...] = ()
    files: tuple[File, ...] = ()
    in_data: bool = False  # written in a Data element though it need not be
    namespace: str = ""
    awareness: Awareness | None = None  # of the Data element, as are `kept` and `unknown`
    kept: tuple[tuple[str, str], ...] = ()
    unknown: tuple[Property, ...] = ()

    @property
    def needs_data(self) -> bool:
        """Whether it can be written in a Data element only."""
        alone = len(self.entries) == 1 and not isinstance(self.entries[0], Reference)
        return not alone or bool(self.files or self.unknown or self.kept or self.awareness)
