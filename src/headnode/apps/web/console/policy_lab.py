"""The policy lab: what another policy would have done to the cluster's own past, who wins, who loses."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.readable_values import counted, duration
from headnode.apps.web.console.lab_runs import LabRun
from headnode.apps.web.console.site import ConsoleAction, ConsolePage, GoTo, texts
from headnode.apps.web.console.visit import Model, Visit
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound

POLICIES: Final = ("fcfs", "easy", "conservative", "conservative-replan")
PERIODS: Final = (
    ("", "all of the past"),
    ("1d", "a day"),
    ("7d", "a week"),
    ("30d", "30 days"),
    ("365d", "a year"),
)
USERS_NAMED: Final = 100
NOTICED: Final = 0.05  # a part of the wait by which a user wins or loses at least


async def show_lab(visit: Visit) -> Model:
    """Return the form of a new run, and the runs before."""
    _only_administrators(visit)
    cluster = (await visit.ask("cluster"))["cluster"]
    return {
        "title": "Policy lab",
        "policy": cluster["policy"],
        "policies": POLICIES,
        "periods": PERIODS,
        "runs": [
            {"path": f"/lab/{run.number}", "number": run.number, "by": run.by, "began": run.began,
             "policies": run.policies, "state": _state(run)}
            for run in sorted(visit.lab.known.values(), key=lambda each: -each.number)
        ],
    }  # fmt: skip


def _state(run: LabRun) -> str:
    if run.problem:
        return "failed"
    return "done" if run.done else run.step


async def begin_run(visit: Visit, form: FormData) -> GoTo:
    """Begin a run of the policies that were chosen, and the current one.

    Raises:  BadRequest ``policy``; WrongState ``lab-busy``; NotAllowed.
    """
    _only_administrators(visit)
    current = (await visit.ask("cluster"))["cluster"]["policy"]
    chosen = [policy for policy in POLICIES if policy in form.getlist("policy")]
    if current not in POLICIES or not set(chosen) - {current}:
        raise BadRequest(
            code="policy",
            what="there is nothing to compare",
            fix="choose a policy that is not the current one",
        )
    since = texts(form, "since")
    if since not in dict(PERIODS):
        raise BadRequest(code="period", what=f"{since!r} is no period", fix="choose one of the list")
    run = visit.lab.begin(visit.you["user"], list(dict.fromkeys([current, *chosen])), since)
    return GoTo(f"/lab/{run.number}")


def _only_administrators(visit: Visit) -> None:
    """Refuse others: runs take processor time of the head's machine, and show the waits of all users.

    Raises:  NotAllowed ``not-administrator``.
    """
    if not visit.administers:
        raise NotAllowed(
            code="not-administrator",
            what=f"{visit.you['user']!r} may not use the policy lab here",
            fix="ask an administrator, or use the command line: hn simulate --history",
        )


async def show_run(visit: Visit) -> Model:
    """Return how far a run is, or its results."""
    _only_administrators(visit)
    number = visit.request.path_params["run"]
    run = visit.lab.known.get(number)
    if run is None:
        raise NotFound(
            code="lab-run", what=f"run {number} of the policy lab is not known", fix="begin a new one"
        )
    now = (await visit.ask("cluster"))["cluster"]["policy"]
    base = run.policies[0]
    names = {user: await _owner(visit, job) for user, job in list(run.first_jobs.items())[:USERS_NAMED]}
    return {
        "title": f"Policy lab, run {number}",
        "number": number,
        "state": _state(run),
        "done": run.done,
        "problem": run.problem,
        "period": dict(PERIODS).get(run.since, run.since),
        "share": round(100 * len(run.results) / len(run.policies)),
        "base": base,
        "rows": [_row(policy, document, run.results[base]) for policy, document in run.results.items()],
        "users": _users(run, names),
        "offers": [_offer(run, policy, base) for policy in run.results if run.done and policy != now],
        "remarks": [each["text"] for each in run.results.get(base, {}).get("remarks", ())],
    }


async def _owner(visit: Visit, job: int) -> str:
    try:
        return str((await visit.ask("job", job=job))["job"]["owner"])
    except NotFound:
        return f"the owner of job {job}"


def _row(policy: str, document: Mapping[str, Any], base: Mapping[str, Any]) -> Model:
    return {
        "policy": policy,
        "jobs": document["jobs"],
        "mean_wait": duration(document["mean_wait"]),
        "slowdown": f"{document['mean_bounded_slowdown']:.2f}",
        "utilisation": f"{100 * document['utilisation']:.1f} %",
        "makespan": duration(document["makespan"]),
        "change": _change(document["mean_wait"], base["mean_wait"]),
    }


def _change(wait: float, base: float) -> str:
    """Return by how much a wait is longer or shorter."""
    if abs(wait - base) < 1:
        return "as now"
    return f"{duration(abs(wait - base))} {'longer' if wait > base else 'shorter'}"


def _users(run: LabRun, names: Mapping[str, str]) -> list[Model]:
    """Return the mean wait of each user under each policy, those that change most first."""
    base = run.waits.get(run.policies[0], {})

    def most(user: str) -> float:
        return max((abs(waits.get(user, 0.0) - base[user]) for waits in run.waits.values()), default=0.0)

    return [
        {
            "user": names[user],
            "waits": [
                {
                    "policy": policy,
                    "wait": duration(waits.get(user, 0.0)),
                    "change": _change(waits.get(user, 0.0), base[user]),
                }
                for policy, waits in run.waits.items()
            ],
        }
        for user in sorted((user for user in base if user in names), key=lambda user: -most(user))
    ]


def _offer(run: LabRun, policy: str, base: str) -> Model:
    """Return what to say before a policy is applied."""
    before, after = run.waits[base], run.waits[policy]
    changes = [after.get(user, 0.0) - wait for user, wait in before.items()]
    wins = sum(change < -1 - NOTICED * wait for change, wait in zip(changes, before.values(), strict=True))
    loses = sum(change > 1 + NOTICED * wait for change, wait in zip(changes, before.values(), strict=True))
    was, would = run.results[base]["mean_wait"], run.results[policy]["mean_wait"]
    return {
        "policy": policy,
        "words": (
            f"In this past the mean wait of {counted(run.results[policy]['jobs'], 'job')} would have been "
            f"{duration(would)} in place of {duration(was)}. {counted(wins, 'user')} would have waited less, "
            f"{loses} longer. The policy applies to all jobs from now on."
        ),
    }


LAB_PAGES: Final = (
    ConsolePage("/lab", "lab.html", show_lab),
    ConsolePage("/lab/{run:int}", "lab_run.html", show_run),
)
LAB_ACTIONS: Final = (ConsoleAction("/lab", begin_run),)
