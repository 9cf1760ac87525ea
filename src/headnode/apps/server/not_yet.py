"""What a job may ask for and Headnode keeps, but does not act on: said at submission, never passed over."""

from collections.abc import Iterator

import msgspec

from headnode.adapters.notify.settings import Ways
from headnode.core.formats import windows
from headnode.core.formats.fidelity import Item, Kind
from headnode.core.lifecycle.notices import addresses, is_hook, is_mail
from headnode.core.model.job import JobSpec
from headnode.core.model.template import DEFAULT


class Site(msgspec.Struct, frozen=True):
    """What a cluster is to job files: its name, how it tells people, and whether it has job templates."""

    name: str = ""
    ways: Ways = Ways()
    templates: bool = False
    licences: frozenset[str] | None = None  # those that are counted; None: not known


def not_acted_on(spec: JobSpec, site: Site) -> tuple[Item, ...]:
    """Return an item for each wish of the job that will have no effect."""
    found: list[Item] = []
    if spec.notify_on_start or spec.notify_on_completion:
        found += [_kept("notification", what) for what in untold(spec, site.ways)]
    if spec.template and not site.templates and spec.template.lower() != DEFAULT.lower():
        what = f"{spec.template!r} has no effect: this cluster has no templates (hn template import)"
        found.append(_kept("job template", what))
    if site.licences is not None:
        found += [_kept("licence", what) for what in _uncounted(spec, site.licences)]
    if spec.dialect == "terms":  # readers of files tell it with its place
        found += windows.items(spec)
    return tuple(found)


def _uncounted(spec: JobSpec, counted: frozenset[str]) -> Iterator[str]:
    """Yield what is to be said of each licence that this cluster does not count."""
    there = ", ".join(sorted(counted)) or "none"
    wishes = [*spec.licences, *(wish for other in spec.alternatives for wish in other.licences or ())]
    for feature in sorted({wish.feature for wish in wishes} - counted):
        yield (
            f"the job waits for no licence {feature!r}, which this cluster does not count; it counts {there} "
            "(hn cluster params Licences)"
        )


def untold(spec: JobSpec, ways: Ways) -> Iterator[str]:
    """Yield why nobody will be told, for each address of a job that asks for notices."""
    own = addresses(spec.email)
    if not own and not ways.domain:
        yield "it names no address for its notices: add one with /emailaddress, or use `hn job wait`"
    for address in own:
        if is_hook(address, ways.hooks):
            continue
        if not is_mail(address):
            allowed = f" or hooks at {', '.join(ways.hooks)}" if ways.hooks else ""
            yield f"notices cannot go to {address!r}: name an address of mail{allowed}"
    if not ways.server and (any(map(is_mail, own)) or (not own and ways.domain)):
        yield "this cluster sends no mail until an administrator sets EmailSmtpServer; use `hn job wait`"


def _kept(where: str, what: str) -> Item:
    return Item(Kind.NOT_SUPPORTED, where, what)
