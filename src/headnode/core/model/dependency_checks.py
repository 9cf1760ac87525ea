"""The rules for dependencies on elements of jobs, with delays, and on any one of several jobs."""

from typing import Final

from headnode.core.model.dependency import Condition, JobDependency
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.value_checks import THE_JOB, JobPart

MAX_DELAY: Final = Seconds(366 * 86400.0)
"""The longest delay after the start of a parent; a hold is no longer, either."""


def check_dependencies(spec: JobSpec) -> None:
    """Refuse dependencies that mean nothing, or that cannot be combined.

    Raises:  BadRequest ``parents``, ``dependency``.
    """
    for at, named in enumerate(spec.named_parents):
        if not named.name.strip():
            fix = "write the name of the job, or remove the dependency"
            what = "a dependency on a job by name has no name"
            THE_JOB.refuse("parents", what, fix, "named_parents", at, "name")
    for at, one in enumerate(spec.dependencies):
        _check_dependency(THE_JOB.inside("dependencies", at), one)
    if not spec.any_dependency:
        return
    if spec.singleton:
        what = "any one of its dependencies is to be enough, and it is a singleton"
        THE_JOB.refuse("dependency", what, "leave one of the two out", "any_dependency")
    if spec.after_corresponding or any(
        one.condition is Condition.ON_CORRESPONDING for one in spec.named_parents
    ):
        what = "any one of its dependencies is to be enough, and its instances wait one by one"
        THE_JOB.refuse("dependency", what, "leave one of the two out", "any_dependency")


def _check_dependency(part: JobPart, one: JobDependency) -> None:
    if one.job < 1:
        part.refuse("parents", f"parent job id {one.job} is not valid", "ids count from 1", "job")
    if one.condition is Condition.ON_CORRESPONDING:
        what = "OnCorresponding is for whole jobs"
        part.refuse("dependency", what, "write after_corresponding", "condition")
    if one.element is None and not one.delay:
        field = DEPENDENCY_FIELDS[one.condition]
        what = f"the dependency on job {one.job} has neither an element nor a delay"
        part.refuse("dependency", what, f"write {field} = [{one.job}]", "element")
    if not 0 <= one.delay <= MAX_DELAY or one.delay % 1:
        what = f"a delay of {one.delay:g} s is not possible"
        part.refuse("dependency", what, f"write whole seconds, {MAX_DELAY:.0f} at most", "delay")
    if one.delay and one.condition is not Condition.ON_START:
        what = f"the delay of the dependency on job {one.job} has no start to count from"
        part.refuse("dependency", what, "a delay is for the condition OnStart", "delay")
    if one.delay and one.element is not None:
        what = f"the delay after {one.title} cannot be counted: it counts from the start of a whole job"
        part.refuse("dependency", what, "leave out the delay, or the element", "delay")
