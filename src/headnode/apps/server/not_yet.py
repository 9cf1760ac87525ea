"""What a job may ask for and Headnode keeps, but does not act on: said at submission, never passed over."""

from headnode.core.formats.fidelity import Item, Kind
from headnode.core.model.job import JobSpec


def not_acted_on(spec: JobSpec) -> tuple[Item, ...]:
    """Return an item for each wish of the job that will have no effect."""
    found: list[Item] = []
    if spec.notify_on_start or spec.notify_on_completion:
        found.append(_kept("notification", "nobody is told when the job starts or ends; use `hn job wait`"))
    if spec.template and spec.template.lower() != "default":
        found.append(_kept("job template", f"template {spec.template!r} has no effect: there are none"))
    if spec.run_as:
        found.append(_kept("user", f"the job runs as its submitter, not as {spec.run_as!r}"))
    return tuple(found)


def _kept(where: str, what: str) -> Item:
    return Item(Kind.NOT_SUPPORTED, where, what)
