"""The schedulers to which jobs are handed over: the one table of their names, for every text that lists them.

Imports little: `hn` prints its help from it.
Source:  SSS 3.1.0, "ResourceManagerType"; grid job description, ``lrms``.
"""

from enum import StrEnum


class ResourceSystem(StrEnum):
    """The scheduler of a resource; the value is its name in commands and in the journal."""

    full_name: str
    settings_variable: str  # names its configuration, or where it is installed
    id_variable: str  # in which a job there finds its id
    directory_variable: str  # the directory of the submission; empty: jobs start in it
    other_names: tuple[str, ...]  # in job files; in lower case

    def __new__(
        cls, name: str, full_name: str, settings: str, job: str, directory: str, *others: str
    ) -> "ResourceSystem":
        made = str.__new__(cls, name)
        made._value_ = name
        made.full_name, made.settings_variable = full_name, settings
        made.id_variable, made.directory_variable = job, directory
        made.other_names = others
        return made

    SLURM = "slurm", "Slurm", "SLURM_CONF", "SLURM_JOB_ID", ""
    PBS = (
        "pbs", "PBS", "PBS_CONF_FILE", "PBS_JOBID", "PBS_O_WORKDIR",
        "openpbs", "pbspro", "pbs pro", "torque",
    )  # fmt: skip
    GRID_ENGINE = "gridengine", "Grid Engine", "SGE_ROOT", "JOB_ID", "", "sge", "ge", "grid engine"


def system_named(name: str) -> ResourceSystem | None:
    """Return the scheduler that a job file means, in any case; None if there is none of this name.

    >>> system_named("SGE"), system_named("Cleo")
    (<ResourceSystem.GRID_ENGINE: 'gridengine'>, None)
    """
    wanted = name.lower()
    return next((each for each in ResourceSystem if wanted in (each.value, *each.other_names)), None)


def one_of(names: list[str]) -> str:
    """Return names as a choice.

    >>> one_of(["a", "b", "c"])
    'a, b or c'
    """
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


SYSTEM_NAMES = one_of([each.value for each in ResourceSystem])
SETTINGS_VARIABLES = one_of([each.settings_variable for each in ResourceSystem])
