"""What became of each property, under the awareness policy of where it stands.

Source: SSS 3.1.0, awarenessPolicy.
"""

from headnode.core.formats.fidelity import Awareness, Item, Kind, Report, honour
from headnode.core.formats.grid.losses import Losses


class Findings:
    """The report in the making: what is the same in several places is said once, with their number."""

    def __init__(self) -> None:
        self._losses = Losses()
        self._rejected: list[Item] = []

    def add(self, kind: Kind, where: str, what: str) -> None:
        """Say what became of something that has an effect, or needs none."""
        self._losses.add(kind, where, what)

    def unsupported(self, policy: Awareness, where: str, what: str) -> None:
        """Say that something has no effect; keep silent or refuse the job, as `policy` has it."""
        if policy is Awareness.WARN:
            self._losses.add(Kind.NOT_SUPPORTED, where, what)
        elif policy is Awareness.REJECT:
            self._rejected.append(Item(Kind.NOT_SUPPORTED, where, what))

    def report(self) -> Report:
        """Return all findings in the order in which they were made.

        Raises:  BadRequest ``not-understood`` when something was to be rejected; it lists what.
        """
        honour(Awareness.REJECT, self._rejected)
        return self._losses.report()
