"""What is free over time beside processors: memory, disk, swap and GPUs of nodes, licences and limits."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from headnode.core.model.owner_limits import is_spent
from headnode.core.scheduling.free_resources import Allocation, FreeAmounts, FreeResources
from headnode.core.scheduling.profile import Profile
from headnode.core.scheduling.release_profile import amount_profiles, licence_profiles
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.shadow_reservation import Release

Change = Callable[[Profile, float, float, int], None]
"""`Profile.take` or `Profile.give`."""


class NodeChanges(NamedTuple):
    """Nodes that are not as they were in the pass before, and what jobs release there: before, and now."""

    nodes: Sequence[int]
    before: Sequence[Release]
    now: Sequence[Release]


class ProfilesBeside:
    """The profiles of amounts by node, and those of licences and limits by name.

    `nodes` are those of which amounts are counted; the resources do not change.
    """

    def __init__(
        self, now: float, resources: FreeResources, nodes: Sequence[int], releases: Sequence[Release]
    ) -> None:
        self.amounts = amount_profiles(now, resources, nodes, releases)
        self.licences = licence_profiles(now, resources, releases)
        self._now, self._began, self._releases = now, resources, releases
        self._touched: set[Profile] = set()  # since the last pass
        self._uncounted: set[str] = set()  # licences and limits of pieces, of which there were no profiles

    @property
    def counts_amounts(self) -> bool:
        """Whether amounts of nodes are counted."""
        return bool(self.amounts[0])

    def suits(self, resources: FreeResources, *, amounts: bool) -> bool:
        """Return whether these can be the profiles of a pass with these resources."""
        new = resources.licences.keys() - self.licences.keys()
        return self.counts_amounts == amounts and self._uncounted.isdisjoint(new)

    def begin(self) -> None:
        """Note from now on which profiles change."""
        self._touched.clear()

    def renew(
        self, now: float, resources: FreeResources, releases: Sequence[Release], changes: NodeChanges
    ) -> None:
        """Let them be those of a later pass they suit; the changes are those since this one."""
        changed = changes.nodes if self.counts_amounts else ()
        licences = licence_profiles(self._now, self._began, self._releases)
        were = amount_profiles(self._now, self._began, changed, changes.before)
        then = amount_profiles(now, resources, changed, changes.now)
        for profiles, one, other in zip(self.amounts, were, then, strict=True):
            for node in changed:
                self._replace(profiles[node], one[node], other[node], now)
        before, self.licences = self.licences, licence_profiles(now, resources, releases)
        for name in before.keys() & self.licences.keys():
            self._replace(before[name], licences[name], self.licences[name], now)
            self.licences[name] = before[name]
        self._uncounted |= before.keys() - self.licences.keys()
        self._now, self._began, self._releases = now, resources, releases

    def _replace(self, profile: Profile, former: Profile, then: Profile, now: float) -> None:
        profile.replace(former, then, now)
        self._touched.add(profile)

    def has_room_for_all(self) -> bool:
        """Return whether nothing is taken that is not there, of what has changed."""
        return all(profile.least(self._now, inf) >= 0 for profile in self._touched)

    def forget_past(self) -> None:
        """Drop what was before this pass, of what has changed."""
        for profile in self._touched:
            profile.forget(self._now)

    def change(self, change: Change, piece: Allocation, start: float, end: float) -> None:
        """Take or give back a piece from one instant until another.

        Limits of minutes are taken from now on, whenever it begins: nobody gives them back.
        """
        self._uncounted.update([name for name in piece.licences if name not in self.licences])
        for profile, amount in self._held(piece):
            change(profile, start, end, amount)
            self._touched.add(profile)
        self.change_spent(change, piece, self._now)

    def change_spent(self, change: Change, piece: Allocation, since: float) -> None:
        """Take or give back what a piece takes of limits of processor-minutes and GPU-minutes."""
        for profile, amount in self._spent(piece):
            change(profile, since, inf, amount)
            self._touched.add(profile)

    def has_room(self, piece: Allocation, start: float, end: float) -> bool:
        """Return whether what a piece takes is free all the time between two instants."""
        wanted = self._held(piece) + self._spent(piece)
        return all(profile.least(start, end) >= amount for profile, amount in wanted)

    def of_need(self, need: ResolvedRequest) -> list[tuple[str, Profile]]:
        """Return the profiles of the licences and limits that a need counts."""
        counted, requested = self.licences, {**need.fixed, **need.each, **need.timed}
        return [(name, counted[name]) for name in requested if name in counted]

    def amounts_of(
        self, need: ResolvedRequest, others: FreeAmounts, free: Sequence[int], span: tuple[float, float]
    ) -> FreeAmounts:
        """Return the amounts that a need takes, as they are free for a span of nodes with free processors.

        Of all other nodes and amounts, those of `others`.
        """
        if not (self.counts_amounts and need.counts_amounts):
            return others
        nodes = [node for node in self.amounts[0] if free[node] > 0]
        memory, disk, swap, gpus = (
            self._least(rooms, nodes, rest, span) if taken else rest
            for rooms, taken, rest in zip(self.amounts, need.takes, others, strict=True)
        )
        return memory, disk, swap, gpus

    def amounts_without(self, piece: Allocation, start: float, end: float) -> list[dict[int, Profile]]:
        """Return what a piece takes of its nodes, as it is free without the piece between two instants."""
        found: list[dict[int, Profile]] = [{} for _ in self.amounts]
        for node, processors in piece.fit if self.counts_amounts else ():
            for mine, rooms, amount in zip(found, self.amounts, piece.of_node(processors), strict=True):
                if amount:
                    mine[node] = rooms[node].copy()
                    mine[node].give(start, end, amount)
        return found

    def _least(
        self, rooms: Mapping[int, Profile], nodes: Sequence[int], rest: list[int], span: tuple[float, float]
    ) -> list[int]:
        left = rest[:]
        for node in nodes:
            left[node] = rooms[node].least(*span)
        return left

    def _held(self, piece: Allocation) -> list[tuple[Profile, int]]:
        """Return what a piece takes as long as it lasts."""
        parts: list[tuple[Profile, int]] = []
        if piece.counts and self.counts_amounts:
            for node, processors in piece.fit:
                each = zip(self.amounts, piece.of_node(processors), strict=True)
                parts += [(rooms[node], amount) for rooms, amount in each if amount]
        requested, profiles = piece.licences.items(), self.licences
        return parts + [(profiles[n], count) for n, count in requested if n in profiles and not is_spent(n)]

    def _spent(self, piece: Allocation) -> list[tuple[Profile, int]]:
        profiles = self.licences
        return [(profiles[n], count) for n, count in piece.licences.items() if n in profiles and is_spent(n)]
