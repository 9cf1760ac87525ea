"""What somebody shows to be let in, an invitation, a login or a token: known and in time, or refused."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from headnode.core.model.errors import NotAllowed
from headnode.core.model.quantities import Instant


class Shown(Protocol):
    """What counts until an instant."""

    @property
    def expires(self) -> Instant:
        """When it does not count any more."""


Known = TypeVar("Known", bound=Shown)


def known_in_time(known: Mapping[str, Known], digest: str, now: Instant, noun: str, fix: str) -> Known:
    """Return what has this digest.

    `noun` is what it is called, and the code of the refusal; `fix` what to do without it.
    Raises:  NotAllowed of that code when it is not known, any more or at all, or its time is over.
    """
    found = known.get(digest)
    if found is None:
        what = f"this {noun} was used already or revoked, or was never made by this cluster"
        raise NotAllowed(code=noun, what=what, fix=fix)
    if now >= found.expires:
        raise NotAllowed(code=noun, what=f"this {noun} has expired", fix=fix)
    return found
