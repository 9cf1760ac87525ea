"""What the demo shows, in order."""

import os
import secrets
import shlex
import time

from headnode.apps.demo.following import follow
from headnode.apps.demo.leftovers import see_them_gone
from headnode.apps.demo.shop import JOB_FILES, Shop
from headnode.apps.demo.typed import Typed, say

TITLES = {
    "sweep/pi.xml": "a parametric sweep: twelve pieces of pi, and their sum",
    "flow/sort.xml": "a task flow: make numbers, sort two halves at once, merge",
    "parallel/heat.xml": "a parallel task: two processes compute together",
}
MARK = "HEADNODE_DEMO"


def show() -> int:
    """Start a cluster, run the three examples on it, print their results, stop everything.

    Raises:  HeadnodeError when something of it fails; everything is stopped then, and the log is kept.
    """
    began = time.monotonic()
    shop = Shop()
    mark = (MARK, secrets.token_hex(8))
    typed = Typed(shop.state, mark)
    finished = False
    try:
        finished = _run(shop, typed)
    finally:
        typed.stop(cancel=not finished)
        left = see_them_gone(mark)
    if left or not finished:
        say(f"Not all went well; the log of the head is {shop.state / 'head.log'}.")
        say(f"Processes that had to be killed: {left or 'none'}.")
        return 1
    shop.forget_state()
    _farewell(shop, time.monotonic() - began)
    return 0


def _run(shop: Shop, typed: Typed) -> bool:
    few = ("--processors", "2") if (os.cpu_count() or 1) < 2 else ()
    typed.hn("up", *few)
    jobs = {}
    for file in JOB_FILES:
        say()
        say(f"# {TITLES[file]}")
        jobs[typed.submit(shop.folder / file)] = file
    say()
    say(f"$ {shlex.join(('hn', 'job', 'wait', *map(str, jobs)))}")
    ended = follow(shop.state, list(jobs))
    say()
    typed.hn("job", "list", "/state:*")
    say()
    for file in jobs.values():
        result = (shop.folder / file).with_name("result.txt")
        say(f"$ cat {result}")
        say(f"  {shop.result(file)}")
    say()
    return all(job["state"] == "Finished" for job in ended)


def _farewell(shop: Shop, seconds: float) -> None:
    say()
    say(f"That took {seconds:.1f} seconds. All output lies in {shop.folder}; the job files are the examples.")
    say("Your own cluster: .venv/bin/hn up")
