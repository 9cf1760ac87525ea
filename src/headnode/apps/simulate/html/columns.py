"""All jobs, packed for the page's table and chart: columns of numbers, deflated, as text."""

import zlib
from array import array
from base64 import b64encode
from collections.abc import Iterable, Sequence
from itertools import accumulate
from sys import byteorder
from typing import Any

from headnode.apps.simulate.html.classes import waits
from headnode.apps.simulate.html.lanes import Strip, lanes, strips_on
from headnode.apps.simulate.machine import Machine
from headnode.apps.simulate.simulation import Outcome, Simulation

_LARGEST = (1 << 31) - 1
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


def _policy(simulation: Simulation, outcome: Outcome) -> dict[str, Any]:
    work = simulation.log.workload
    strips = _strips(simulation, outcome)
    return {
        "name": outcome.name,
        "waits": packed(waits(work, outcome.starts)),
        "stripCounts": packed([len(of_job) for of_job in strips]),
        "strips": packed(_flat(strips)),
    }


def _strips(simulation: Simulation, outcome: Outcome) -> Sequence[Sequence[Strip]]:
    if not simulation.scene.asking.keeps_sizes:
        return []  # no bar could show a job that changes its size
    if simulation.machine is None or outcome.places is None:
        return lanes(simulation.log.workload, outcome.starts, simulation.log.processors)
    first = firsts(simulation.machine)
    return [strips_on(first, place) for place in outcome.places]


def firsts(machine: Machine) -> dict[str, int]:
    """Return the number of the first processor of each node, where all stand in a row."""
    sizes = [node.processors for node in machine.nodes]
    return {
        node.name: end - node.processors for node, end in zip(machine.nodes, accumulate(sizes), strict=True)
    }


def _flat(strips: Iterable[Sequence[Strip]]) -> list[int]:
    return [number for of_job in strips for strip in of_job for number in strip]


def packed(numbers: Sequence[float]) -> Column:
    """Pack numbers, whole ones that are not too large in half the space."""
    small = all(isinstance(number, int) and -_LARGEST <= number <= _LARGEST for number in numbers)
    values = array("i", map(int, numbers)) if small else array("d", numbers)
    if byteorder == "big":  # browsers run on little-endian machines
        values.byteswap()
    return {"type": "Int32" if small else "Float64", "data": _deflated(values.tobytes())}


def packed_text(lines: Iterable[str]) -> Column:
    """Pack numbers of any length, as lines."""
    return {"type": "Text", "data": _deflated("\n".join(lines).encode())}


def _deflated(content: bytes) -> str:
    return b64encode(zlib.compress(content)).decode("ascii")
