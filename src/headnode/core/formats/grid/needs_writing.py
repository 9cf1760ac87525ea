"""What is demanded of nodes as requirements of a grid job and of its tasks.

The requirements of a task replace the job's, key by key, so those of a task say what both demand.
Source: grid, "Resource requirements".
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.keys import REQUIREMENT_ROWS
from headnode.core.formats.grid.losses import Losses
from headnode.core.formats.grid.needs import AMOUNTS, HERTZ, Needs
from headnode.core.formats.grid.needs_reading import JOB_PREFIX, TASK_PREFIX
from headnode.core.formats.grid.rows import Role, Table
from headnode.core.formats.grid.software import packages, software_of
from headnode.core.formats.grid.source import from_extension
from headnode.core.formats.grid.values import MOST_COUNT
from headnode.core.formats.needs_in_fields import unsaid_needs
from headnode.core.model.job import JobSpec
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.task import TaskSpec

_WORDS = {"platform": "architectures", "os_name": "systems"}
_CHOICES = ("names", *_WORDS.values())
_LEAST = ("minimum_speed", *AMOUNTS.values())
_SAID = {*_CHOICES, *_LEAST, "features"}


def in_order(values: Mapping[str, Any], table: Table) -> Needs:
    """Return the values that are there, in the order in which documents are written."""
    return {key: values[key] for key in table.by_key if values.get(key) not in (None, "", {}, [])}


def extended(extensions: Mapping[str, str], prefix: str, table: Table) -> tuple[Needs, set[str]]:
    """Return the keys that extensions hold for `table`, and the names of the extensions that were read."""
    values: Needs = {}
    used: set[str] = set()
    for row in table.rows:
        text = extensions.get(prefix + row.key)
        value = None if text is None or row.role is Role.FORM else from_extension(row, text)
        if value is not None:
            values[row.key] = value
            used.add(prefix + row.key)
    return values, used


class NeedsWriter:
    """Writes the requirements of one job, which are `job`, and of its tasks."""

    def __init__(self, spec: JobSpec, losses: Losses) -> None:
        self._losses = losses
        self._tell_unsaid(spec.needs, "job")
        kept, self.used = extended(spec.extensions, JOB_PREFIX, REQUIREMENT_ROWS)
        self._lists = [kept["software"]] if "software" in kept else []
        fields = NodeNeeds(
            names=spec.requested_nodes,
            minimum_memory=spec.minimum_memory or 0,
            minimum_processors=spec.minimum_processors_per_node or 0,
        )
        self._demanded = self._joined(fields, spec.needs, "job")
        self.job = kept | self._requirements(self._demanded, self._lists, "job")
        self.job = in_order(self.job | {"queue": spec.template or kept.get("queue")}, REQUIREMENT_ROWS)
        self._leave_out(kept, self.job, self.used, JOB_PREFIX)

    def task(self, task: TaskSpec, where: str) -> tuple[Needs, set[str]]:
        """Return what a task requires beside its job, and the extensions that say it."""
        kept, used = extended(task.extensions, TASK_PREFIX, REQUIREMENT_ROWS)
        self._tell_unsaid(task.needs, where)
        demanded = self._joined(self._demanded, task.needs, where)
        if len(task.required_nodes) == 1:
            self._losses.add(Kind.TRANSLATED, where, "required_nodes: the one node is a requirement")
            demanded = self._joined(demanded, NodeNeeds(names=task.required_nodes), where)
        elif task.required_nodes:
            what = "required_nodes: in a grid task they mean one of several hosts"
            self._losses.add(Kind.NOT_SUPPORTED, where, what)
        own = [kept["software"]] if "software" in kept else []
        found = (
            self._requirements(demanded, [*own, *self._lists], where) if demanded != self._demanded else {}
        )
        beside = {key: value for key, value in found.items() if self.job.get(key) != value}
        needs = in_order(kept | beside, REQUIREMENT_ROWS)
        self._leave_out(kept, needs, used, TASK_PREFIX)
        return needs, used

    def _leave_out(self, kept: Needs, written: Needs, used: set[str], prefix: str) -> None:
        """Take the extensions that something else stands for from those that are written."""
        used -= {prefix + key for key, value in kept.items() if written.get(key) != value}

    def _tell_unsaid(self, needs: NodeNeeds, where: str) -> None:
        for field in unsaid_needs(needs):
            if field in _SAID:
                self._losses.add(Kind.TRANSLATED, where, f"needs.{field}: it is a requirement")
            else:
                what = f"needs.{field}: a grid description has no such requirement on nodes"
                self._losses.add(Kind.NOT_SUPPORTED, where, what)

    def _joined(self, one: NodeNeeds, two: NodeNeeds, where: str) -> NodeNeeds:
        """Return what both demand, as far as requirements can say it."""
        if two == ANY_NODE:
            return one
        choices = {field: self._both(getattr(one, field), getattr(two, field), where) for field in _CHOICES}
        least = {field: max(getattr(one, field), getattr(two, field)) for field in _LEAST}
        features = tuple(dict.fromkeys([*one.features, *two.features]))
        return replace(ANY_NODE, **choices, **least, features=features)

    def _both(self, one: Sequence[str], two: Sequence[str], where: str) -> tuple[str, ...]:
        if not one or not two:
            return tuple(one or two)
        common = {word.casefold() for word in one} & {word.casefold() for word in two}
        if not common:
            what = f"{two[0]!r} is asked for beside {one[0]!r}: one of them is left out"
            self._losses.add(Kind.NOT_SUPPORTED, where, what)
            return tuple(two)
        return tuple(word for word in two if word.casefold() in common)

    def _requirements(self, needs: NodeNeeds, lists: Iterable[str], where: str) -> Needs:
        """Return the requirements that say it; `lists` are texts that may stand for the features."""
        found: Needs = {"hostname": list(dict.fromkeys(needs.names))} if needs.names else {}
        for key, field in _WORDS.items():
            words = getattr(needs, field)
            if len(words) == 1:
                found[key] = words[0]
            elif words:
                what = f"needs.{field}: one of several cannot be written"
                self._losses.add(Kind.NOT_SUPPORTED, where, what)
        for key, field in AMOUNTS.items():
            found[key] = self._amount(getattr(needs, field), key, where)
        speed = needs.minimum_speed * HERTZ
        found["cpu_hz"] = speed if speed <= MOST_COUNT else self._amount(needs.minimum_speed, "cpu_hz", where)
        if needs.features:
            found["software"] = self._software(needs, lists, where)
        return {key: value for key, value in found.items() if value}

    def _amount(self, amount: int, key: str, where: str) -> int:
        most = MOST_COUNT if key != "cpu_hz" else HERTZ - 1
        if amount > most:
            self._losses.add(Kind.APPROXIMATED, where, f"{key}: {most} is the most that can be written")
        return min(amount, most)

    def _software(self, needs: NodeNeeds, lists: Iterable[str], where: str) -> str:
        for text in lists:
            understood = packages(text)
            if understood and understood[0] == needs.features:
                return text
        software = software_of(needs)
        if software is None:
            self._losses.add(Kind.NOT_SUPPORTED, where, "needs.features: they are not a list of packages")
        return software or ""
