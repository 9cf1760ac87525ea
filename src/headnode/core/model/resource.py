"""Resources: places with a scheduler of their own, to which jobs are handed over.

Source:  SSS 3.1.0, "Machine" and "ResourceManagerType"; grid job description, ``lrms``.
"""

import re
from collections.abc import Sequence

import msgspec

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds
from headnode.core.model.resource_system import ResourceSystem, system_named

HERE = "here"
"""The name of the cluster's own nodes; a job that names no resource runs there."""

ANY = "any"
"""The own nodes or any resource, whichever is expected to start the job first."""

PLACE_MARK = "@"
"""The first letter of the name that stands for a resource where a node stands; no node begins with it."""


_OURS = frozenset({"fork", "headnode"})
"""What job languages call own nodes, as the kind of a resource manager; in lower case."""


def places_of_kind(kind: str, systems: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the places with a resource manager of a kind; `systems` has resources and their schedulers.

    A resource that is itself called so is one, too.

    >>> places_of_kind("SGE", [("lab", "gridengine"), ("physics", "slurm")]), places_of_kind("Fork", [])
    (('lab',), ('here',))
    """
    wanted = kind.strip().lower()
    if wanted in _OURS:
        return (HERE,)
    meant = system_named(wanted)
    return tuple(name for name, system in systems if name.lower() == wanted or system == meant)


class BatchResource(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """A place with its own scheduler, and how it is reached.  Times are in seconds."""

    name: str
    system: ResourceSystem
    mark: str  # eight digits in the names of all our jobs there; made once, it stays through restores
    host: str = ""  # where its commands run, by ssh; empty: on the head's machine
    programs: str = ""  # directory of its commands; empty: they are found by PATH
    settings: str = ""  # its configuration, as its commands want it: `ResourceSystem.settings_variable`
    directory: str = ""  # for the files of attempts; empty: .headnode/attempts in the home of the user
    queue: str = ""  # partition or queue; empty: that of the site
    parallel: str = ""  # parallel environment of Grid Engine, for tasks with several processors
    most_jobs: int = 100  # of ours there at a time
    poll: Seconds = Seconds(30.0)  # between two polls, at least
    settle: Seconds = Seconds(90.0)  # until a submission without an answer may be repeated
    lost_after: Seconds = Seconds(600.0)  # until a job counts as lost that is no longer listed
    overlay: bool = False  # jobs that name no resource go there, and its queue and nodes are shown

    @property
    def key(self) -> str:
        """The name as it is compared: in lower case."""
        return self.name.lower()

    @property
    def place(self) -> str:
        """What stands for it where a node stands."""
        return PLACE_MARK + self.key


def places_in(resource: str) -> tuple[str, ...]:
    """Return the places that a job names as its resource, in its order and in lower case; none is `here`.

    >>> places_in(""), places_in("Physics"), places_in("chem, here,Chem")
    (('here',), ('physics',), ('chem', 'here'))
    """
    if not resource:
        return (HERE,)
    named = (each.strip().lower() for each in resource.split(","))
    return tuple(dict.fromkeys(each for each in named if each)) or (HERE,)


def is_choice(resource: str) -> bool:
    """Return whether a job names several places, of which one is chosen when it is in the queue."""
    places = places_in(resource)
    return len(places) > 1 or places == (ANY,)


def is_elsewhere(resource: str) -> bool:
    """Return whether a job cannot run on own nodes: each place it names has a scheduler of its own."""
    return not {HERE, ANY}.intersection(places_in(resource))


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}\Z", re.ASCII)
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9.:-]{0,253}\Z", re.ASCII)
_MARK = re.compile(r"[0-9a-f]{8}\Z", re.ASCII)
_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,@-]{0,127}\Z", re.ASCII)
_LIMITS = (("most_jobs", 1, 100_000), ("poll", 1, 3600), ("settle", 3, 3600), ("lost_after", 3, 86_400))


def check_resource(wish: BatchResource) -> None:
    """Refuse what is no resource.

    Raises:  BadRequest ``resource-...``.
    """
    if not _NAME.match(wish.name) or wish.key in (HERE, ANY):
        raise BadRequest(
            code="resource-name",
            what=f"a resource cannot be called {wish.name!r}",
            fix="use up to 32 letters, digits, dots, dashes and underscores; `here` are the own nodes, `any` "
            "is every place",
        )
    for field, form in (("host", _HOST), ("queue", _QUEUE), ("parallel", _QUEUE)):
        text = getattr(wish, field)
        if text and not form.match(text):
            raise BadRequest(
                code=f"resource-{field}",
                what=f"{text!r} is no {field} of a resource",
                fix="use letters, digits, dots, dashes and underscores",
            )
    if not _MARK.match(wish.mark):
        raise BadRequest(
            code="resource-mark", what=f"{wish.mark!r} is no mark of a resource", fix="use 8 hex digits"
        )
    for field in ("programs", "settings", "directory"):
        text = getattr(wish, field)
        if text and (not text.startswith("/") or "\0" in text or "\n" in text or len(text) > LONGEST_PATH):
            raise BadRequest(
                code=f"resource-{field}",
                what=f"{text[:200]!r} is no absolute path",
                fix="begin it with a slash",
            )
    for field, least, most in _LIMITS:
        if not least <= getattr(wish, field) <= most:
            raise BadRequest(
                code=f"resource-{field}".replace("_", "-"),
                what=f"{field.replace('_', ' ')} is {getattr(wish, field):g}",
                fix=f"choose {least} to {most:,}",
            )


LONGEST_PATH = 1024  # characters
