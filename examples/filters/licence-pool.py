#!/usr/bin/env python3
"""An activation filter: a pool of licences that jobs take when they start, and that is given back.

It counts what `SoftwareLicense` asks for, such as "solver:2,mesher:*", where * is one for each unit offered.
The pool is the arguments, such as solver:8 mesher:2; who has how many stands in $CCP_DATA/licence-pool.json.
Licences of jobs that are over are given back when others want them.

    hn cluster params 'ActivationFilterProgram=/opt/filters/licence-pool.py solver:8 mesher:2'

(Licences that only this cluster uses need no filter: see the cluster parameter Licences.)
"""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

START, BLOCK, FAIL = 0, 1, 4
NOT_GROW = 1


def pool_and_call(arguments: list[str]) -> tuple[dict[str, int], str, int]:
    """Return how many licences there are, the path of the job, and how many units are offered."""
    at = next(number for number, each in enumerate(arguments) if each.startswith("/"))
    pool = {name: int(count) for name, _, count in (each.rpartition(":") for each in arguments[:at])}
    return pool, arguments[at], int(arguments[at + 4])


def wanted(text: str, units: int) -> dict[str, int]:
    """Return how many of each licence a job asks for."""
    parts = (part.strip().rpartition(":") for part in text.split(",") if part.strip())
    return {name: units if count == "*" else int(count) for name, _, count in parts}


def alive() -> set[str]:
    """Return the ids of the jobs that are not over, as the head knows them."""
    state = Path(os.environ["CCP_DATA"]).parent
    own = Path(os.environ.get("CCP_HOME", "/usr"), "bin", "hn")
    command = [
        str(own) if own.exists() else "hn",
        "job",
        "list",
        "--all",
        "--json",
        "--state-directory",
        str(state),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    over = {"Finished", "Failed", "Canceled"}
    return {str(job["id"]) for job in json.loads(said.stdout) if job["state"] not in over}


def main() -> int:
    """Answer about the job in the file that is the first path of the arguments."""
    call = os.environ.get("HEADNODE_FILTER_CALL", "activation")
    pool, path, units = pool_and_call(sys.argv[1:])
    root = ElementTree.parse(path).getroot()
    job, grows = root.get("Id", "0"), root.get("State") == "Running"
    asked = wanted(root.get("SoftwareLicense", ""), units)
    if grows:  # fixed numbers were taken at the start; one for each unit is wanted for more units, too
        each = wanted(root.get("SoftwareLicense", ""), 0)
        asked = {name: count for name, count in asked.items() if each[name] != count}
    if not asked:
        return START
    unknown = sorted(set(asked) - set(pool))
    if unknown:
        print(f"there is no licence {', '.join(unknown)} in this pool")
        return NOT_GROW if grows else FAIL
    with Path(os.environ["CCP_DATA"], "licence-pool.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        taken: dict[str, dict[str, int]] = json.loads(file.read() or "{}")
        answer = change(call, job, asked, pool, taken)
        file.seek(0)
        file.truncate()
        json.dump(taken, file)
    return answer


def change(
    call: str, job: str, asked: dict[str, int], pool: dict[str, int], taken: dict[str, dict[str, int]]
) -> int:
    """Take licences, or give back what a call before has taken, in the book `taken`."""
    mark = f"{job}/{os.environ.get('HEADNODE_FILTER_OFFER', '0')}"
    if call == "revert-activation":
        taken.pop(mark, None)  # nothing, when this filter said no
        return START
    unasked = ""
    if short(asked, pool, taken):
        try:
            still = alive()
        except (
            OSError,
            subprocess.SubprocessError,
        ) as error:  # else Python would answer 1 for whatever happens
            unasked = f"; the head could not be asked which jobs are over: {error}"
        else:
            for other in [each for each in taken if each.partition("/")[0] not in still]:
                del taken[other]
    missing = short(asked, pool, taken)
    if missing:
        print(f"not enough licences: {missing}{unasked}")
        return BLOCK
    taken[mark] = asked
    return START


def short(asked: dict[str, int], pool: dict[str, int], taken: dict[str, dict[str, int]]) -> str:
    """Return what is missing, in words; nothing if all is there."""
    free = {name: pool[name] - sum(held.get(name, 0) for held in taken.values()) for name in asked}
    return ", ".join(
        f"{count} of {name} wanted, {free[name]} free" for name, count in asked.items() if count > free[name]
    )


if __name__ == "__main__":
    sys.exit(main())
