"""The processors of the machine to which a task is bound.

Source: HPC Pack cluster parameter AffinityType."""

from collections.abc import Sequence
from typing import Literal, get_args

Affinity = Literal["NonExclusiveJobs", "AllJobs", "NoJobs"]
"""Whose tasks are bound: those of jobs that share their nodes, of all jobs, or none, as CCS has it."""

AFFINITIES: tuple[Affinity, ...] = get_args(Affinity)


def binds(affinity: str, *, exclusive: bool) -> bool:
    """Tell whether the tasks of a job are bound.

    >>> binds("NonExclusiveJobs", exclusive=True), binds("AllJobs", exclusive=True)
    (False, True)
    """
    return affinity == "AllJobs" or (affinity == "NonExclusiveJobs" and not exclusive)


def machine_numbers(numbers: Sequence[int], machine: Sequence[int]) -> tuple[int, ...]:
    """Return what the machine calls these processors of a node; their own numbers where that is not known.

    `machine` has the machine's number for each processor of the node, or nothing.

    >>> machine_numbers((0, 2), (4, 5, 6)), machine_numbers((0, 2), ()), machine_numbers((0, 3), (4, 5, 6))
    ((4, 6), (0, 2), (0, 3))
    """
    if any(number >= len(machine) for number in numbers):
        return tuple(numbers)
    return tuple(machine[number] for number in numbers)


def bound_to(numbers: Sequence[int], machine: Sequence[int]) -> tuple[int, ...]:
    """Return the machine's processors that a task is bound to; none: it is not, as it has them all.

    >>> bound_to((1,), (4, 5)), bound_to((0, 1), (4, 5)), bound_to((1,), ()), bound_to((2,), (4, 5))
    ((5,), (), (), ())
    """
    if len(numbers) >= len(machine) or any(number >= len(machine) for number in numbers):
        return ()
    return machine_numbers(numbers, machine)
