"""The chart of processors: on which of them each job is drawn, its data, and the period it shows first."""

import zlib
from array import array
from base64 import b64encode
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from sys import byteorder
from typing import Any

from headnode.apps.simulate.html.charts import Chart, chart, curve_points, grid, label, time_axis, waiting
from headnode.apps.simulate.html.study import DAY, Study
from headnode.apps.simulate.machine import SimulatedMachine
from headnode.apps.simulate.report import waits
from headnode.apps.simulate.simulation import PolicyOutcome, Simulation
from headnode.core.model.errors import Broken
from headnode.core.model.workload import Workload

ProcessorStrip = tuple[int, int]
"""Processors side by side: the first, counted from 0, and their number."""


def lanes(workload: Workload, starts: Sequence[float], processors: int) -> list[Sequence[ProcessorStrip]]:
    """Give every job processors while it runs: the first gap that it fits into, else the lowest free ones.

    Raises:  Broken ``lanes`` when more processors are in use at once than there are.
    """
    free = _FreeLanes(processors)
    running: list[tuple[float, int]] = []
    strips: list[Sequence[ProcessorStrip]] = [()] * len(starts)
    for place in sorted(range(len(starts)), key=starts.__getitem__):
        start = starts[place]
        while running and running[0][0] <= start:
            free.give(strips[heappop(running)[1]])
        strips[place] = free.take(workload.processors[place])
        heappush(running, (start + workload.run_times[place], place))
    return strips


def strips_on(
    first: Mapping[str, int], place: Iterable[tuple[str, Sequence[int]]]
) -> Sequence[ProcessorStrip]:
    """Return the strips of a place on nodes; all processors stand in a row, each node from its `first` on."""
    strips: list[ProcessorStrip] = []
    for processor in sorted(first[node] + number for node, numbers in place for number in numbers):
        begin, count = strips[-1] if strips else (processor, 0)
        if begin + count == processor:
            strips[-1:] = [(begin, count + 1)]
        else:
            strips.append((processor, 1))
    return strips


class _FreeLanes:
    """The free processors as gaps, lowest first, none beside another."""

    def __init__(self, processors: int) -> None:
        self._gaps: list[ProcessorStrip] = [(0, processors)]

    def take(self, count: int) -> Sequence[ProcessorStrip]:
        """Take so many out of the gaps."""
        for at, (first, size) in enumerate(self._gaps):
            if size >= count:
                self._gaps[at : at + 1] = [(first + count, size - count)] if size > count else []
                return ((first, count),)
        return tuple(self._pieces(count))

    def _pieces(self, count: int) -> Iterator[ProcessorStrip]:
        while count:
            if not self._gaps:
                raise Broken(
                    code="lanes", what=f"{count} more processors are in use at once than the machine has"
                )
            first, size = self._gaps[0]
            taken = min(size, count)
            self._gaps[0:1] = [(first + taken, size - taken)] if size > taken else []
            count -= taken
            yield first, taken

    def give(self, strips: Sequence[ProcessorStrip]) -> None:
        """Put processors back."""
        for strip in strips:
            insort(self._gaps, strip)
            self._join(bisect_left(self._gaps, strip))

    def _join(self, at: int) -> None:
        for left in (at, at - 1):
            if 0 <= left < len(self._gaps) - 1:
                (first, size), (after, more) = self._gaps[left : left + 2]
                if first + size == after:
                    self._gaps[left : left + 2] = [(first, size + more)]


_MAX_INT = (1 << 31) - 1
Column = dict[str, str]
"""``type`` is that of a typed array of JavaScript, or Text for lines; ``data`` is base64 of zlib."""


def packed_jobs(simulation: Simulation) -> dict[str, Any]:
    """Return all jobs, and for each policy their waits and their processors.  Times in seconds."""
    work = simulation.log.workload
    return {
        "jobs": {
            "numbers": packed_text(map(str, work.numbers)),
            "submits": packed(work.submits),
            "runTimes": packed(work.run_times),
            "estimates": packed(work.estimates),
            "processors": packed(work.processors),
        },
        "nodes": None if simulation.machine is None else list(firsts(simulation.machine).items()),
        "policies": [_policy(simulation, outcome) for outcome in simulation.outcomes],
    }


def _policy(simulation: Simulation, outcome: PolicyOutcome) -> dict[str, Any]:
    work = simulation.log.workload
    strips = _strips(simulation, outcome)
    return {
        "name": outcome.name,
        "waits": packed(waits(work, outcome.starts)),
        "stripCounts": packed([len(of_job) for of_job in strips]),
        "strips": packed(_flat(strips)),
    }


def _strips(simulation: Simulation, outcome: PolicyOutcome) -> Sequence[Sequence[ProcessorStrip]]:
    if not simulation.scene.asking.keeps_sizes:
        return []  # no bar could show a job that changes its size
    if simulation.machine is None or outcome.places is None:
        return lanes(simulation.log.workload, outcome.starts, simulation.log.processors)
    first = firsts(simulation.machine)
    return [strips_on(first, place) for place in outcome.places]


def firsts(machine: SimulatedMachine) -> dict[str, int]:
    """Return the number of the first processor of each node, where all stand in a row."""
    sizes = [node.processors for node in machine.nodes]
    return {
        node.name: end - node.processors for node, end in zip(machine.nodes, accumulate(sizes), strict=True)
    }


def _flat(strips: Iterable[Sequence[ProcessorStrip]]) -> list[int]:
    return [number for of_job in strips for strip in of_job for number in strip]


def packed(numbers: Sequence[float]) -> Column:
    """Pack numbers, whole ones that are not too large in half the space."""
    small = all(isinstance(number, int) and -_MAX_INT <= number <= _MAX_INT for number in numbers)
    values = array("i", map(int, numbers)) if small else array("d", numbers)
    if byteorder == "big":  # browsers run on little-endian machines
        values.byteswap()
    return {"type": "Int32" if small else "Float64", "data": _deflated(values.tobytes())}


def packed_text(lines: Iterable[str]) -> Column:
    """Pack numbers of any length, as lines."""
    return {"type": "Text", "data": _deflated("\n".join(lines).encode())}


def _deflated(content: bytes) -> str:
    return b64encode(zlib.compress(content)).decode("ascii")


_MARKS = 40  # on the axis of nodes
_STEPS = 1600  # among which the busiest is looked for


def first_period(about: Study) -> dict[str, Any]:
    """Return what the chart shows first: the busiest day under the policy with the shortest mean wait.

    The busiest is that on which the waiting jobs ask for most processors: there policies have a choice.
    """
    outcomes, midnight = about.simulation.outcomes, about.calendar.midnight
    policy = min(range(len(outcomes)), key=lambda place: outcomes[place].figures.mean_wait)
    steps = grid(about.first, about.last, _STEPS, midnight)
    asked = curve_points(
        waiting(about.workload, outcomes[policy].starts, about.workload.processors), steps
    ).means
    busiest = steps.begin + max(range(steps.size), key=asked.__getitem__) * steps.width
    whole_days = about.last - about.first >= DAY
    return {
        "policy": policy,
        "begin": midnight + (busiest - midnight) // DAY * DAY if whole_days else about.first,
        "length": DAY if whole_days else about.last - about.first,
        "layout": _layout(about),
    }


def _layout(about: Study) -> Chart:
    y: Chart = {"title": {"text": "Processors"}, "range": [0.5, about.processors + 0.5], "showgrid": False}
    if about.simulation.machine is not None:
        y |= {"title": {"text": "Nodes"}, **_node_marks(firsts(about.simulation.machine))}
    drawn = chart([], time_axis(about), y, barmode="overlay", bargap=0, hovermode="closest")
    layout: Chart = drawn["layout"]
    legend = layout["legend"] | {"title": {"text": "Wait:"}}
    return layout | {"legend": legend, "uniformtext": {"mode": "hide", "minsize": 9}}


def _node_marks(first: dict[str, int]) -> Chart:
    """Return marks where nodes begin: all of them, or as many as there is room for."""
    marks = list(first.items())[:: -(-len(first) // _MARKS)]
    return {
        "tickvals": [processor + 0.5 for _, processor in marks],
        "ticktext": [label(node) for node, _ in marks],
        "ticklabelposition": "outside top",
        "showgrid": True,
    }
