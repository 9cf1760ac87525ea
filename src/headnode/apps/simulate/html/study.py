"""All that a report is about: the simulation, and what every part of the page needs to know of it."""

from collections.abc import Sequence
from typing import NamedTuple

from headnode.apps.simulate.html.calendar import Calendar, calendar
from headnode.apps.simulate.html.findings import Finding, findings
from headnode.apps.simulate.simulation import Simulation
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.figures import ends


class Study(NamedTuple):
    """A simulation of the log of that name; `remarks` are sentences about what was left out of the log.

    Unit:  seconds on the log's clock for the `first` arrival and the `last` end under any policy.
    """

    name: str
    simulation: Simulation
    remarks: Sequence[str]
    calendar: Calendar
    found: Sequence[Finding]
    first: float
    last: float

    @property
    def workload(self) -> Workload:
        """The jobs."""
        return self.simulation.log.workload

    @property
    def processors(self) -> int:
        """How many the machine has."""
        return self.simulation.log.processors

    @property
    def has_bars(self) -> bool:
        """Whether jobs can be drawn as bars: they keep their sizes."""
        return self.simulation.scene.asking.keeps_sizes

    @property
    def several(self) -> bool:
        """Whether there is anything to compare."""
        return len(self.found) > 1


def study(name: str, simulation: Simulation, remarks: Sequence[str]) -> Study:
    """Look at a simulation."""
    work = simulation.log.workload
    last = max(max(ends(work, outcome.starts)) for outcome in simulation.outcomes)
    dates = calendar(simulation.log.header, work.submits[0], last)
    return Study(name, simulation, remarks, dates, findings(simulation), work.submits[0], last)
