"""How long it takes to explain a job in full on a large cluster.

``PYTHONPATH=tests python benchmarks/explaining.py``, or ``make bench``.

The scenes are those of `scheduling_pass`: 10,000 queued jobs of 500 requests on 1,000 nodes with 2,000
running jobs.  The limit for the plans of one explanation is `MAX_PLANNING`, and one plan more.
"""

import time
from collections.abc import Iterator
from itertools import islice

import msgspec

from headnode.apps.server.explain.applicable_changes import MAX_PLANNING
from headnode.core.scheduling.explain.changes import ChangeLimits, Subject
from headnode.core.scheduling.explain.counterfactual import search_changes
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.reasons import explain
from headnode.core.scheduling.view import View, first_ahead
from scheduling_pass import mixed

DEPTH = 100  # reservations, where the policy gives several
JOBS = 5  # explained, spread over the queue


def subjects(view: View, policy: Policy) -> Iterator[Subject]:
    """Yield jobs that wait, from the first in the queue to the last."""
    waits = policy(view).waits
    queued = sorted((turn, w.request) for w in view.queue if w.request in waits for turn in w.turns[:1])
    for turn, request in islice(queued, 0, None, max(1, len(queued) // JOBS)):
        yield Subject(turn, request)


def planned_before(view: View, policy: Policy) -> View:
    """Return the view as a head has it that has run: with the plan of the pass before."""
    view = msgspec.structs.replace(view, depth=DEPTH)
    return msgspec.structs.replace(view, before=policy(view), freed=False)


def main() -> int:
    """Print the figures; fail when one explanation takes much longer than its limit."""
    worst = 0.0
    scenes = {"some exclusive": False, "all shared": True}
    for name, policy in POLICIES.items():
        for title, shared in scenes.items():
            view = planned_before(mixed(1000, 2000, 10_000, 500, shared=shared), policy)
            for subject in subjects(view, policy):
                worst = max(worst, _explained(view, policy, subject, f"{name}, {title}"))
    return int(worst > MAX_PLANNING)


def _explained(view: View, policy: Policy, subject: Subject, title: str) -> float:
    """Explain one job and print what it took; return the seconds beyond the limit and the longest plan."""
    began = time.perf_counter()
    plan = policy(view)
    longest = time.perf_counter() - began
    reasons = explain(view, plan, subject.request)
    _, ahead = first_ahead(view, subject.turn, 5)
    search = search_changes(view, plan, subject, ChangeLimits())
    try:
        asked = next(search)
        while True:
            planned = time.perf_counter()
            answer = policy(asked) if planned - began < MAX_PLANNING else None
            longest = max(longest, time.perf_counter() - planned)
            asked = search.send(answer)
    except StopIteration as ended:
        found = ended.value
    spent = time.perf_counter() - began
    plans = f"{found.plans:2} plans of {longest * 1e3:4.0f} ms at most"
    print(f"{title}, {ahead:5} jobs ahead: {spent:5.2f} s, {plans},")
    print(
        f"    {len(reasons)} reasons, {len(found.offers)} changes offered{', cut short' if found.cut else ''}"
    )
    return spent - MAX_PLANNING - longest


if __name__ == "__main__":
    raise SystemExit(main())
