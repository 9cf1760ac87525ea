"""The verbs of the local protocol that are about filters: which there are, and what one would do to a job."""

import time
from typing import Any

from headnode.adapters.filters.calling import Call, Offered
from headnode.adapters.filters.plug_ins import installed
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.filtering.asking import Asker
from headnode.apps.server.filtering.papers import changed, write_paper
from headnode.core.filtering.activation import Phase, verdict
from headnode.core.filtering.answer import Answer, said
from headnode.core.filtering.registration import Filter, read_filters
from headnode.core.filtering.submission import Passage, failure, passage, wrong_change
from headnode.core.filtering.walking import Call as Called
from headnode.core.formats.live_jobs import Live
from headnode.core.lifecycle.deciding_filters import changes
from headnode.core.lifecycle.filters import ACTIVATION, SUBMISSION
from headnode.core.lifecycle.permission import must_administer
from headnode.core.lifecycle.records import encode_spec
from headnode.core.lifecycle.states import JobState
from headnode.core.model.errors import BadRequest, NotFound, Refused, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.user import User

Object = dict[str, Any]


async def filters(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001  (everybody sees them)
    """Tell which filters there are, in the order in which they are asked, and which plug-ins could be."""
    return {
        "filters": [_object(kind, template, each) for kind, template, each in _registered(desk)],
        "plug_ins": list(installed()),
    }


def _registered(desk: Desk) -> list[tuple[str, str, Filter]]:
    settings, templates = desk.engine.settings, desk.cluster.templates
    found: list[tuple[str, str, Filter]] = []
    for kind, parameter in (("submission", SUBMISSION), ("activation", ACTIVATION)):
        for template in templates.values():
            text = template.submission_filters if kind == "submission" else template.activation_filters
            found += [(kind, template.name, each) for each in read_filters(text)]
        found += [(kind, each.template, each) for each in read_filters(settings.text(parameter))]
    return found


def _object(kind: str, template: str, each: Filter) -> Object:
    return {
        "name": each.name,
        "kind": kind,
        "program": list(each.program),
        "plug_in": each.plug_in,
        "dialect": each.dialect,
        "rules": each.rules,
        "revert": each.reverts,
        "template": template,
    }


async def test_filter(desk: Desk, by: User, wish: w.TestFilterWish) -> Object:
    """Call one filter about a job file, outside the queue, and tell what its answer would do."""
    from headnode.core.formats import dialects

    must_administer(by, "call filters")
    asker = desk.asker
    if asker is None:
        raise Unavailable(code="no-filters", what="this head calls no filters", fix="ask a running head")
    kind, each = _chosen(desk, wish)
    language = dialects.dialect_named(wish.dialect).language if wish.dialect else None
    spec = dialects.read(wish.jobfile, dialects.How(language=language)).only_job()
    if kind == "submission":
        return await _submission(desk, asker, by, each, spec)
    return await _activation(desk, asker, by, each, spec, wish)


def _chosen(desk: Desk, wish: w.TestFilterWish) -> tuple[str, Filter]:
    """Return the filter that is meant: one that is registered by its name, or one that is described."""
    if wish.kind not in ("", "submission", "activation"):
        raise BadRequest(
            code="kind", what=f"{wish.kind!r} is no kind of filter", fix="write submission or activation"
        )
    registered = [
        (kind, each)
        for kind, _, each in _registered(desk)
        if each.name == wish.filter and wish.kind in ("", kind)
    ]
    if registered:
        return registered[0]
    if "/" in wish.filter or "plugin:" in wish.filter:
        found = read_filters(wish.filter)
        if len(found) == 1:
            return wish.kind or "submission", found[0]
    raise NotFound(
        code="no-such-filter",
        what=f"there is no filter {wish.filter!r}",
        fix="see `hn filter list`, or write it as it would be registered: /PATH/PROGRAM or plugin:NAME",
    )


def _live(by: User, phase: str, now: float) -> Live:
    state = {"Validating": JobState.VALIDATING, "Queued": JobState.QUEUED}.get(phase, JobState.RUNNING)
    return Live(id=0, state=state, phase=phase, owner=by.name, created=now, submitted=now)  # type: ignore[arg-type]


async def _submission(desk: Desk, asker: Asker, by: User, each: Filter, spec: JobSpec) -> Object:
    seconds = desk.engine.settings.number("SubmissionFilterTimeout")
    paper = await write_paper(spec, _live(by, "Validating", desk.now()), each.dialect, len(encode_spec(spec)))
    began = time.monotonic()
    returned = await asker.call(Call(each, "submission", 0, paper, seconds))
    spent = time.monotonic() - began
    found, differences = passage(returned.answer), []
    outcome = f"the job {found.value}"
    if found is Passage.FAILED:
        outcome = f"the job fails: {failure(each, returned.answer, seconds)}"
    elif found is Passage.CHANGED:
        try:
            after = await changed(spec, paper, returned.paper, each.dialect)
        except Refused as no:
            outcome = f"the job fails: {wrong_change(each, no.what)}"
        else:
            names = changes(spec, after)
            differences = [_difference(name, spec, after) for name in names]
    if returned.answer.ran:
        await asker.undo(_again(each, paper), 0, seconds)
    return _told(each, "submission", returned.answer, seconds, spent, outcome) | {"changes": differences}


def _again(each: Filter, paper: bytes) -> list[Called]:
    return [Called(each, paper)] if each.reverts else []


def _difference(name: str, before: JobSpec, after: JobSpec) -> Object:
    return {"name": name, "before": str(getattr(before, name)), "after": str(getattr(after, name))}


async def _activation(
    desk: Desk, asker: Asker, by: User, each: Filter, spec: JobSpec, wish: w.TestFilterWish
) -> Object:
    seconds = desk.engine.settings.number("ActivationFilterTimeout")
    phase = Phase.RUNNING if wish.running else Phase.BACKFILLED if wish.backfill else Phase.QUEUED
    live = _live(by, "Running" if wish.running else "Queued", desk.now())
    paper = await write_paper(spec, live, each.dialect, len(encode_spec(spec)))
    offered = Offered(1, 1, wish.backfill, wish.resources)
    began = time.monotonic()
    returned = await asker.call(Call(each, "activation", 0, paper, seconds, offered))
    spent = time.monotonic() - began
    if returned.answer.ran:
        await asker.undo(_again(each, paper), 0, seconds, offered)
    found = verdict(returned.answer, phase, each.rules)
    outcome = OUTCOMES[found.value, wish.running]
    return _told(each, "activation", returned.answer, seconds, spent, outcome) | {"changes": []}


OUTCOMES = {
    ("start", False): "the job starts",
    ("start", True): "the job grows",
    ("block-queue", False): "the job waits, and so do all of its priority and below",
    ("keep-resources", False): "the job waits, and what it was offered is kept for it",
    ("hold", False): "the job is held until its own date, or for DefaultHoldDuration",
    ("fail", False): "the job fails",
    ("wait", False): "the job does not start in this window; it is asked about again",
    ("wait", True): "the job does not grow; it is asked about again",
}
"""What each verdict does, of a job that is queued and of one that runs."""


def _told(each: Filter, kind: str, answer: Answer, seconds: float, spent: float, outcome: str) -> Object:
    return {
        "filter": each.name,
        "kind": kind,
        "how": answer.how.value,
        "exit_code": answer.exit_code,
        "words": answer.words,
        "said": said(answer, seconds),
        "seconds": round(spent, 4),
        "outcome": outcome,
        "undone": answer.ran and each.reverts,
    }
