#!/usr/bin/env python3
r"""A submission filter without XML: who may use which project, and how large its jobs may be.

The job comes as JSON on standard input; what is written to standard output takes its place.  The projects
stand in the file that is the first argument, one line each: NAME LARGEST-MAXIMUM OWNER,OWNER,...

    hn cluster params \
        'SubmissionFilterProgram=dialect=native-json /opt/filters/project-quota.py /etc/projects'
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def projects(path: str) -> dict[str, tuple[int, list[str]]]:
    """Return the largest job and the owners of each project."""
    found = {}
    for line in Path(path).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, largest, owners = line.split()
            found[name] = (int(largest), owners.split(","))
    return found


def size(job: dict[str, Any]) -> int:
    """Return the most processors that a job says it takes: a number, or a range such as 2-4."""
    return int(str(job.get("processors", 1)).rpartition("-")[2])


def main() -> int:
    """Answer about the job on standard input."""
    if os.environ.get("HEADNODE_FILTER_CALL", "").startswith("revert"):
        return 0
    job = json.load(sys.stdin)
    owner, known = job["about"]["owner"], projects(sys.argv[1])
    mine = [name for name, (_, owners) in known.items() if owner in owners]
    before = job.get("project", "")
    if not before and len(mine) == 1:
        job["project"] = mine[0]
    project = job.get("project", "")
    if project not in mine:
        allowed, named = ", ".join(mine) or "no project", project or "none"
        print(f"the job names project {named}; {owner} may use {allowed}", file=sys.stderr)
        return 2
    largest = known[project][0]
    if size(job) > largest:
        print(f"jobs of {project} may have at most {largest} processors", file=sys.stderr)
        return 3
    if job.get("project", "") != before:
        json.dump(job, sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
