"""What a grid description cannot say of a job, while it is written."""

from headnode.core.formats.fidelity import Item, Kind, Report


class Losses:
    """The report in the making: the same sentence about several tasks is said once, with their number."""

    def __init__(self) -> None:
        self._first: dict[tuple[Kind, str], str] = {}
        self._times: dict[tuple[Kind, str], int] = {}

    def add(self, kind: Kind, where: str, what: str) -> None:
        """Add a finding."""
        key = (kind, what)
        self._first.setdefault(key, where)
        self._times[key] = self._times.get(key, 0) + 1

    def report(self) -> Report:
        """Return all findings, in the order in which they were made."""
        return tuple(
            Item(kind, where, f"{what} ({times} times, here first)" if times > 1 else what)
            for ((kind, what), where), times in zip(self._first.items(), self._times.values(), strict=True)
        )
