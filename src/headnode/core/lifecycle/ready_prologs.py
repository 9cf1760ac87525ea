"""When prologs of each owner's jobs last ended well, anywhere.

Kept in memory only: after a restart of the head nothing is known.
"""

from headnode.core.model.quantities import Instant


class ReadyPrologs:
    """The last prolog of each owner that ended well."""

    def __init__(self) -> None:
        self._owners: dict[str, Instant] = {}

    def ended(self, owner: str, at: Instant) -> None:
        """A prolog of an owner's job has ended well."""
        self._owners[owner] = at

    def others_since(self, owner: str, since: Instant) -> bool:
        """Whether prologs of anybody else have ended well since then."""
        return any(at >= since for other, at in self._owners.items() if other != owner)
