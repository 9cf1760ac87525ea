"""What a job waits for: its parent jobs, elements of their sweeps, and what these must have done.

Source:  Slurm, sbatch(1), --dependency; HPC Pack, "Job dependencies".
"""

from enum import StrEnum

import msgspec

from headnode.core.model.quantities import Seconds


class Condition(StrEnum):
    """The condition of a dependency: what the parent job must have done."""

    ON_START = "OnStart"
    ON_CORRESPONDING = "OnCorresponding"  # of each instance: the one of the same number has finished
    ON_SUCCESS = "OnSuccess"
    ON_FAILURE = "OnFailure"
    ON_EXIT = "OnExit"

    @property
    def words(self) -> str:
        """What a job waits for a parent to do, such as ``fail``."""
        return _CONDITION_WORDS[self]


_CONDITION_WORDS = {
    Condition.ON_SUCCESS: "finish",
    Condition.ON_FAILURE: "fail",
    Condition.ON_EXIT: "end",
    Condition.ON_START: "start",
    Condition.ON_CORRESPONDING: "finish, for each instance the one of its number",
}


class JobDependency(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """One thing that a job waits for.

    In a description it has an element or a delay; what has neither is in the list of its condition
    (`model.job.DEPENDENCY_FIELDS`).
    """

    job: int
    condition: Condition = Condition.ON_SUCCESS
    element: int | None = None  # the number of an instance of a sweep of the job; None: the job as a whole
    delay: Seconds = Seconds(0.0)  # after the start of the job

    @property
    def title(self) -> str:
        """How messages call the parent: ``job 12``, ``element 3 of job 12``."""
        return f"job {self.job}" if self.element is None else f"element {self.element} of job {self.job}"


class NamedParent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """A parent job given by name: the newest job of the same owner with that name."""

    name: str
    by_id: bool = False  # `name` is the Id that the job was submitted with, not its name
    condition: Condition = Condition.ON_SUCCESS

    def __str__(self) -> str:
        """Return how messages call it."""
        return f"the id {self.name!r}" if self.by_id else f"the name {self.name!r}"


class DependencyLink(msgspec.Struct, frozen=True):
    """Job `child` depends on job `parent`; both are positions among the jobs of a file, from 0."""

    child: int
    parent: int
    condition: Condition = Condition.ON_SUCCESS
