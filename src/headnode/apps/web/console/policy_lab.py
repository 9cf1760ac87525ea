"""The policy lab: the past of this cluster under another policy, and which jobs would wait longer."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.readable_values import counted, duration, parameter_text, parameter_unit
from headnode.apps.web.console.lab_runs import POINTS, SHARES, LabCurves, LabRun, LabVariant
from headnode.apps.web.console.load_chart import Series, chart
from headnode.apps.web.console.visit import ConsoleAction, ConsolePage, GoTo, HeadAnswer, Model, Visit, texts
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound

SIMULATED: Final = (
    "SchedulingMode",
    "PreemptionType",
    "TaskImmediatePreemption",
    "PreemptionBalancedMode",
    "PriorityBias",
    "RebalancingInterval",
    "SchedulingDepth",
)
"""The parameters that a replay heeds, see docs/policy-lab.md."""
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
    parameters = await _simulated(visit)
    chosen = {name: visit.query.get(f"param-{name}", "") for name in parameters}
    return {
        "title": "Policy lab",
        "policy": cluster["policy"],
        "policies": POLICIES,
        "chosen_policies": visit.request.query_params.getlist("policy")
        or ([] if any(chosen.values()) else ["easy", "conservative"]),
        "parameters": [
            each
            | {"value": parameter_text(each["value"], each["unit"])}
            | {"unit": parameter_unit(each["unit"]), "chosen": chosen[name]}
            for name, each in parameters.items()
        ],
        "periods": PERIODS,
        "runs": [
            {
                "path": f"/lab/{run.number}",
                "number": run.number,
                "by": run.by,
                "began": run.began,
                "variants": [variant.name for variant in run.variants],
                "state": _state(run),
            }
            for run in sorted(visit.lab.runs.values(), key=lambda each: -each.number)
        ],
    }


async def _simulated(visit: Visit) -> dict[str, HeadAnswer]:
    """Return the parameters that a replay heeds, by name, as they are in the cluster."""
    known = {each["name"]: each for each in (await visit.ask("parameters"))["parameters"]}
    return {name: known[name] for name in SIMULATED if name in known}


def _state(run: LabRun) -> str:
    if run.problem:
        return "failed"
    return "done" if run.done else run.doing


async def begin_run(visit: Visit, form: FormData) -> GoTo:
    """Begin a run of the cluster as it is, and of the policies and the parameters that were chosen.

    Raises:  BadRequest ``policy``, ``period``; WrongState ``lab-busy``; NotAllowed.
    """
    _only_administrators(visit)
    current = (await visit.ask("cluster"))["cluster"]["policy"]
    parameters = await _simulated(visit)
    as_it_is = {name: each["value"] for name, each in parameters.items() if each["value"] != each["default"]}
    changed = {
        name: value
        for name, each in parameters.items()
        if (value := texts(form, f"param-{name}")) and value != each["value"]
    }
    policies = [policy for policy in POLICIES if policy in form.getlist("policy") and policy != current]
    if current not in POLICIES or not (policies or changed):
        raise BadRequest(
            code="policy",
            what="there is nothing to compare",
            fix="choose a policy that is not the current one, or change a parameter",
        )
    since = texts(form, "since")
    if since not in dict(PERIODS):
        raise BadRequest(code="period", what=f"{since!r} is not a period", fix="choose one of the list")
    variants = [LabVariant(policy, as_it_is) for policy in (current, *policies)]
    if changed:
        variants.append(LabVariant(current, as_it_is | changed))
    run = visit.lab.begin(visit.you["user"], variants, since)
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
    run = visit.lab.runs.get(number)
    if run is None:
        raise NotFound(
            code="lab-run", what=f"run {number} of the policy lab is not known", fix="begin a new one"
        )
    names = {user: await _owner(visit, job) for user, job in list(run.first_jobs.items())[:USERS_NAMED]}
    base = run.variants[0].name
    return {
        "title": f"Policy lab, run {number}",
        "number": number,
        "state": _state(run),
        "done": run.done,
        "problem": run.problem,
        "period": dict(PERIODS).get(run.since, run.since),
        "share": round(100 * len(run.results) / len(run.variants)),
        "base": base,
        "rows": [_row(name, document, run.results[base]) for name, document in run.results.items()],
        "users": _users(run, names),
        "charts": charts_of(run),
        "offers": [
            _offer(run, variant) for variant in run.variants[1:] if run.done and variant.name in run.waits
        ],
        "remarks": [each["text"] for each in run.results.get(base, {}).get("remarks", ())],
    }


LINES: Final = ("running", "failed", "finished", "held")
"""The colours of the variants in charts, in their order."""


def charts_of(run: LabRun) -> list[Model]:
    """Return the charts of a run: waiting jobs and processors in use over time, and how long jobs waited."""
    if not run.curves:
        return []
    hours = run.step * POINTS < 3 * 86400
    scale, unit = (3600.0, "Hours since the first job") if hours else (86400.0, "Days since the first job")
    times = [round(point * run.step / scale, 3) for point in range(POINTS)]

    def lines(values: Callable[[LabCurves], list[float]]) -> list[Series]:
        return [
            Series(name, values(curves), LINES[number % len(LINES)], dashed=number > 0)
            for number, (name, curves) in enumerate(run.curves.items())
        ]

    minutes = [[wait / 60 for wait in curves.waits] for curves in run.curves.values()]
    charts = [
        chart("waiting", times, lines(lambda each: each.waiting), "Waiting jobs over time", unit=unit),
        chart("used", times, lines(lambda each: each.used), "Processors in use over time", unit=unit),
    ]
    if all(minutes):
        caption = "The wait, in minutes, that a part of the jobs did not exceed"
        line = lines(lambda each: [round(wait / 60, 2) for wait in each.waits])
        charts.append(chart("waits", list(SHARES), line, caption, unit="% of the jobs", parts=1))
    return charts


async def _owner(visit: Visit, job: int) -> str:
    try:
        return str((await visit.ask("job", job=job))["job"]["owner"])
    except NotFound:
        return f"the owner of job {job}"


def _row(variant: str, document: Mapping[str, Any], base: Mapping[str, Any]) -> Model:
    return {
        "variant": variant,
        "jobs": document["jobs"],
        "mean_wait": duration(document["mean_wait"]),
        "slowdown": f"{document['mean_bounded_slowdown']:.2f}",
        "utilisation": f"{100 * document['utilisation']:.1f} %",
        "makespan": duration(document["makespan"]),
        "change": _change(document["mean_wait"], base["mean_wait"]),
        "stopped": document.get("tasks_stopped", 0),
        "lost": round(document.get("lost_processor_hours", 0.0), 1),
    }


def _change(wait: float, base: float) -> str:
    """Return by how much a wait is longer or shorter."""
    if abs(wait - base) < 1:
        return "as now"
    return f"{duration(abs(wait - base))} {'longer' if wait > base else 'shorter'}"


def _users(run: LabRun, names: Mapping[str, str]) -> list[Model]:
    """Return the mean wait of each user under each policy, those that change most first."""
    base = run.waits.get(run.variants[0].name, {})

    def most(user: str) -> float:
        return max((abs(waits.get(user, 0.0) - base[user]) for waits in run.waits.values()), default=0.0)

    return [
        {
            "user": names[user],
            "waits": [
                {
                    "variant": variant,
                    "wait": duration(waits.get(user, 0.0)),
                    "change": _change(waits.get(user, 0.0), base[user]),
                }
                for variant, waits in run.waits.items()
            ],
        }
        for user in sorted((user for user in base if user in names), key=lambda user: -most(user))
    ]


def _offer(run: LabRun, variant: LabVariant) -> Model:
    """Return a variant with what to say before it is applied."""
    base = run.variants[0]
    values = {name: value for name, value in variant.parameters.items() if base.parameters.get(name) != value}
    if variant.policy != base.policy:
        values["SchedulingPolicy"] = variant.policy
    return {"variant": variant.name, "values": values, "words": verdict(run, variant)}


def verdict(run: LabRun, variant: LabVariant) -> str:
    """Return in words what a variant would have changed in the past that was replayed."""
    base = run.variants[0].name
    before, after = run.waits[base], run.waits[variant.name]
    changes = [after.get(user, 0.0) - wait for user, wait in before.items()]
    wins = sum(change < -1 - NOTICED * wait for change, wait in zip(changes, before.values(), strict=True))
    loses = sum(change > 1 + NOTICED * wait for change, wait in zip(changes, before.values(), strict=True))
    was, would = run.results[base]["mean_wait"], run.results[variant.name]["mean_wait"]
    lost = run.results[variant.name].get("lost_processor_hours", 0.0)
    return (
        f"In this past the mean wait of {counted(run.results[variant.name]['jobs'], 'job')} would have been "
        f"{duration(would)} in place of {duration(was)}. {counted(wins, 'user')} would have waited less, "
        f"{loses} longer."
        + (f" {lost:,.1f} processor hours would have been computed twice." if lost else "")
        + " The change applies to all jobs from now on."
    )


def verdict_on(runs: Iterable[LabRun], current: str, values: Mapping[str, str]) -> Model | None:
    """Return what the newest run says about a change of exactly these parameters; None if none says it."""
    for run in sorted(runs, key=lambda each: -each.number):
        for variant in run.variants[1:] if run.done and not run.problem else ():
            known = variant.name in run.waits and run.variants[0].policy == current
            if known and _offer(run, variant)["values"] == values:
                return {"run": run.number, "words": verdict(run, variant)}
    return None


LAB_PAGES: Final = (
    ConsolePage("/lab", "lab.html", show_lab),
    ConsolePage("/lab/{run:int}", "lab_run.html", show_run),
)
LAB_ACTIONS: Final = (ConsoleAction("/lab", begin_run),)
