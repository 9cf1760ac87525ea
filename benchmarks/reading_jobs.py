"""A Compute Cluster job of 10,000 tasks, an SSS group of 1,000 jobs and a grid job of 10,000 tasks, read.

Each is read as the head reads it: recognised, read, and made into jobs of Headnode, while no garbage is
collected.  Promised is three times what the bare parser takes for the same bytes (lxml.etree for XML,
msgspec.json for JSON: those that the readers use), and 20 us for each object.  An object is what has parts:
an element with attributes or with elements in it; in JSON, what stands in braces.  An element of text alone
and a value of JSON are none.  They are counted in what the bare parser reads, by the same rule for all three
languages.  The figures are processor time, the median of several runs.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from lxml import etree

from headnode.adapters.garbage import without_collection
from headnode.core.formats.dialects import read
from heads import machine

TASKS, JOBS = 10_000, 1_000
PARSES = 3.0  # times the bare parse
EACH = 20e-6  # seconds for an object
RUNS = 7


class File(NamedTuple):
    """A job file: its bytes, the tasks that it must be read as, its bare parser, and what counts objects."""

    title: str
    data: bytes
    tasks: int
    parser: str
    parse: Callable[[bytes], Any]
    count: Callable[[Any], int]


def elements_with_parts(root: etree._Element) -> int:
    """Return how many elements have attributes or elements in them."""
    return sum(bool(len(element) or element.keys()) for element in root.iter())


def braces(value: object) -> int:
    """Return how many objects of JSON a value is, with those inside of it."""
    if isinstance(value, dict):
        return 1 + sum(map(braces, value.values()))
    return sum(map(braces, value)) if isinstance(value, list) else 0


def compute_cluster() -> File:
    """Return a job as HPC Pack exports it: a stage of independent tasks, then one that waits for each."""
    tasks = "".join(
        f'    <Task Name="step{number}" CommandLine="solver.exe -in case{number}.dat -seed {7 * number}" '
        f'WorkDirectory="\\\\files\\runs\\{number % 100}" StdOutFilePath="out\\{number}.txt" '
        f'StdErrFilePath="out\\{number}.err" MinCores="2" MaxCores="4" UnitType="Core" '
        f'RuntimeSeconds="3600" IsExclusive="false" IsRerunnable="true" Type="Basic" '
        f'Depend="{f"step{number - TASKS // 2}" if number >= TASKS // 2 else ""}">\n'
        f"      <EnvironmentVariables>\n"
        f"        <Variable><Name>CASE</Name><Value>{number}</Value></Variable>\n"
        f"        <Variable><Name>OMP_NUM_THREADS</Name><Value>2</Value></Variable>\n"
        f"      </EnvironmentVariables>\n    </Task>\n"
        for number in range(TASKS)
    )
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<Job Version="3.000" Name="study" Project="wing" Priority="Normal" MinCores="16" MaxCores="512" '
        'UnitType="Core" xmlns="http://schemas.microsoft.com/HPCS2008R2/scheduler/">\n'
        f"  <Dependencies />\n  <Tasks>\n{tasks}  </Tasks>\n</Job>\n"
    )
    return File(
        "Compute Cluster job", text.encode(), TASKS, "lxml.etree", etree.fromstring, elements_with_parts
    )


def sss() -> File:
    """Return a group of jobs as in the elaborate example of SSS: a master with workers in each job.

    No two jobs have the same names, arguments, time or memory, so that nothing is read once for many.
    """
    jobs = "".join(
        f"  <Job>\n    <Id>wf.{number}</Id>\n    <Name>stage {number}</Name>\n    <Queue>batch</Queue>\n"
        f"    <Priority>{number % 4000}</Priority>\n"
        f'    <Dependency condition="OnSuccess" designator="JobId">wf.{number - 1}</Dependency>\n'
        f"    <Requested>\n      <Duration>{36000 + number}</Duration>\n    </Requested>\n"
        f'    <Environment>\n      <Variable name="CASE">{number}</Variable>\n    </Environment>\n'
        f"    <TaskGroup>\n      <TaskCount>1</TaskCount>\n      <Name>Master {number}</Name>\n"
        f"      <Executable>/usr/local/bin/coordinator-{number}</Executable>\n"
        f"      <Requested>\n        <Processors>1</Processors>\n        <Memory>{2048 + number}</Memory>\n"
        "      </Requested>\n    </TaskGroup>\n"
        f"    <TaskGroup>\n      <TaskCount>4</TaskCount>\n      <Name>Worker {number}</Name>\n"
        f"      <Executable>/usr/local/bin/worker-{number}</Executable>\n"
        f"      <Arguments>--case {number}</Arguments>\n"
        f"      <Requested>\n        <Processors>16</Processors>\n        <Memory>{512 + number}</Memory>\n"
        f"        <Feature>rack{number}</Feature>\n      </Requested>\n    </TaskGroup>\n  </Job>\n"
        for number in range(1, JOBS + 1)
    )
    text = (
        "<JobGroup>\n  <Id>workflow1</Id>\n  <Name>ShuttleTakeoff</Name>\n  <JobDefaults>\n"
        "    <Project>GrandChallenge18</Project>\n    <User>keith</User>\n    <Environment>\n"
        '      <Variable name="LD_LIBRARY_PATH">/usr/lib</Variable>\n'
        '      <Variable name="PATH">/usr/bin:~/bin:</Variable>\n    </Environment>\n'
        f"  </JobDefaults>\n{jobs}</JobGroup>\n"
    )
    return File("SSS group", text.encode(), 2 * JOBS, "lxml.etree", etree.fromstring, elements_with_parts)


def grid() -> File:
    """Return a job of tasks with many keys: each has arguments, streams, variables, files, requirements."""
    tasks = [
        {
            "id": f"t{number}",
            "description": f"часть {number}",
            "children": [f"t{number + TASKS // 2}"] if number < TASKS // 2 else [],
            "definition": {
                "version": 2,
                "executable": "/usr/bin/solver",
                "arguments": ["-in", f"case{number}.dat", "-seed", str(7 * number)],
                "stdout": f"out/{number}.txt",
                "stderr": f"out/{number}.err",
                "environment": {"CASE": str(number), "OMP_NUM_THREADS": "2"},
                "input_files": {f"case{number}.dat": f"cases/{number}.dat"},
                "output_files": {"result.h5": f"results/{number}.h5"},
                "max_transfer_attempts": 3,
                "requirements": {"lrms": "PBS", "queue": "long", "ram_size": 2048},
            },
        }
        for number in range(TASKS)
    ]
    job = {"version": 2, "default_storage_base": "gsiftp://example.org/home/ann/study/", "tasks": tasks}
    data = msgspec.json.format(msgspec.json.encode(job), indent=1)
    return File("grid job", data, TASKS, "msgspec.json", msgspec.json.decode, braces)


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of `work`, the median of several runs."""
    spent = []
    for _ in range(RUNS):
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return statistics.median(spent)


def measure(file: File) -> bool:
    """Print what reading a file costs; return whether that is within what was promised."""
    reading = read(file.data)
    if sum(len(job.tasks) for job in reading.jobs) != file.tasks:
        sys.exit(f"{file.title}: it was not read as {file.tasks} tasks")
    del reading
    bare = seconds(lambda: file.parse(file.data))
    took = seconds(lambda: without_collection(read, file.data))
    objects = file.count(file.parse(file.data))
    promised = PARSES * bare + EACH * objects
    print(
        f"{file.title}: {len(file.data) / 1e6:.1f} MB, {file.tasks} tasks, {objects} objects: "
        f"{1000 * took:.0f} ms (promised: {1000 * promised:.0f}, {took / promised:.0%} of it); "
        f"bare {file.parser} {1000 * bare:.0f} ms, {took / bare:.1f} times; "
        f"{1e6 * took / file.tasks:.1f} us a task"
    )
    return took <= promised


def main() -> int:
    """Print the figures beside what was promised; return the exit status."""
    print(machine())
    within = [measure(file) for file in (compute_cluster(), sss(), grid())]
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
