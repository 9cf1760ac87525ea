"""Transfers of several shepherds share the slots of their node, and lose none when one dies."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headnode.adapters.processes.transfer_run import TransferSlots, open_slots

Opened = Callable[[], tuple[TransferSlots, int]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Return what makes the slots of another shepherd, and the descriptor that ends with it."""
    files: list[int] = []

    def make() -> tuple[TransferSlots, int]:
        files.append(open_slots(str(tmp_path)))
        return TransferSlots(files[-1]), files[-1]

    yield make
    for file in files:
        if os.path.exists(f"/proc/self/fd/{file}"):  # noqa: PTH110
            os.close(file)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_there_are_as_many_slots_as_the_bound_for_all_together(opened: Opened, most: int) -> None:
    (one, _), (other, _) = opened(), opened()
    taken = [each.take({"": most}) for each in [one, other] * most]
    assert sum(slots is not None for slots in taken) == most
    assert one.blocked([""]) == "" or other.blocked([""]) == ""
    first = next(slots for slots in taken if slots is not None)
    one.give_back(first)
    assert other.take({"": most}) is not None


def test_who_lacks_one_slot_holds_none_of_the_others(opened: Opened) -> None:
    (one, _), (other, _) = opened(), opened()
    assert one.take({"": 2, "a.example": 1}) is not None
    assert other.take({"": 2, "a.example": 1}) is None
    assert other.blocked(["", "a.example"]) == "a.example"
    assert other.take({"": 2, "b.example": 1}) is not None


def test_the_slots_of_a_shepherd_that_dies_are_free(opened: Opened) -> None:
    (one, file), (other, _) = opened(), opened()
    assert one.take({"": 1}) is not None
    assert other.take({"": 1}) is None
    os.close(file)
    assert other.take({"": 1}) is not None


def test_only_the_owner_of_the_file_can_lock_it(tmp_path: Path, opened: Opened) -> None:
    opened()
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]
