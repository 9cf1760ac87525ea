"""The verbs about filters and job templates, and the check of the programs that they and parameters name.

Filters and the licence program run on the head's machine.  Prologs, epilogs, node filters and health checks
run on nodes, so the agents of those that take jobs are asked.
"""

import asyncio
import shlex
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headnode.adapters.files.owners import why_not_run, why_not_trusted
from headnode.adapters.nodes.link import NodeLink
from headnode.apps.server.api.verbs import ADMINISTERS, READS, verb
from headnode.apps.server.filtering.filter_documents import FilterCaller, changed_spec, write_document
from headnode.apps.server.server_context import ServerContext
from headnode.core.filtering import (
    ActivationPhase,
    Filter,
    FilterAnswer,
    FilterOffer,
    FilterRequest,
    SubmissionVerdict,
    activation_verdict,
    describe_call,
    read_filters,
    submission_failure,
    submission_verdict,
    wrong_change,
)
from headnode.core.filtering import FilterCall as Called
from headnode.core.formats.fidelity import FidelityReport
from headnode.core.model.errors import BadRequest, NotFound, Refused, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeState
from headnode.core.model.template import DEFAULT_TEMPLATE, JobTemplate
from headnode.core.model.user import User
from headnode.core.state import templates as c
from headnode.core.state.filters import changes
from headnode.core.state.job_record import encode_spec
from headnode.core.state.permissions import must_administer
from headnode.core.state.templates import ACTIVATION, SUBMISSION, template_named
from headnode.core.state.transitions import JobState
from headnode.protocol import requests as w
from headnode.protocol.cluster_answers import (
    FilterChange,
    FilterObject,
    FiltersAnswer,
    FilterTrial,
    RemovedAnswer,
    StoredTemplate,
    TemplateAnswer,
    TemplateObject,
    TemplatesAnswer,
)

if TYPE_CHECKING:
    from headnode.core.formats.job_views import ExportedJob

_ON_NODES = ("PrologProgram", "EpilogProgram", "HealthCheckProgram", "NodeFilterDirectory")
_MAX_NAMED = 3  # nodes of one trouble


async def check_programs(context: ServerContext, values: Mapping[str, str | None]) -> None:
    """Refuse values of parameters that name a program which cannot be run where it must, or safely.

    Raises:  BadRequest ``program``.
    """
    for name, value in values.items():
        if not value:
            continue
        if name in _ON_HEAD and (why_not := await asyncio.to_thread(_ON_HEAD[name], value)):
            raise BadRequest(code="program", what=f"{name} cannot be set: {why_not}")
        if name in _ON_NODES:
            await _check_on_nodes(context, name, value)


async def check_filters(*chains: str) -> None:
    """Refuse filters, as a parameter or a job template names them, that cannot be run safely.

    Raises:  BadRequest ``program``.
    """
    for chain in chains:
        if why_not := await asyncio.to_thread(_why_no_filter, chain):
            raise BadRequest(code="program", what=f"the filter cannot be set: {why_not}")


def _why_no_filter(chain: str) -> str:
    from headnode.adapters.filters.plug_ins import why_not_installed

    troubles = (
        why_not_run(each.program) if each.program else each.plug_in and why_not_installed(each.plug_in)
        for each in read_filters(chain)
    )
    return next(filter(None, troubles), "")


def _why_no_credentials(path: str) -> str:
    """Return why a file with a password is not trusted: users that can read it know the password."""
    if not Path(path).is_file():
        return f"{path!r} is not a file; write the secret into it"
    why_not = why_not_trusted(path)
    if not why_not and Path(path).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return f"{path!r} can be read by others; chmod 600 {path}"
    return why_not


_ON_HEAD: Mapping[str, Callable[[str], str]] = {
    "SubmissionFilterProgram": _why_no_filter,
    "ActivationFilterProgram": _why_no_filter,
    "LicenceProgram": lambda program: why_not_run(shlex.split(program)),
    "EmailCredentialsFile": _why_no_credentials,
    "BankKeyFile": _why_no_credentials,
}


async def _check_on_nodes(context: ServerContext, name: str, value: str) -> None:
    program, filters = ("", value) if name == "NodeFilterDirectory" else (value, "")
    links = [link for node, link in sorted(context.links.items()) if _takes_jobs(context, node)]
    troubles: dict[str, list[NodeLink]] = {}
    for link, trouble in zip(
        links, await asyncio.gather(*(link.try_program(program, filters) for link in links)), strict=True
    ):
        troubles.setdefault(trouble, []).append(link)
    troubles.pop("", None)
    for trouble, where in troubles.items():
        names = ", ".join(link.node for link in where[:_MAX_NAMED])
        more = f" and {len(where) - _MAX_NAMED} others" if len(where) > _MAX_NAMED else ""
        raise BadRequest(
            code="program",
            what=f"{name} cannot be set: on {names}{more}: {trouble}",
            fix="or drain these nodes: hn node drain NODE",
        )


def _takes_jobs(context: ServerContext, node: str) -> bool:
    record = context.cluster.nodes.get(node)
    return record is not None and record.state is NodeState.READY and not record.drains


@verb(READS)
async def templates(context: ServerContext, by: User, request: w.VerbRequest) -> TemplatesAnswer:  # noqa: ARG001  (everybody sees all)
    """Show every job template; Default is always among them."""
    known = context.cluster.templates
    plain = template_named(known, DEFAULT_TEMPLATE)
    every = {DEFAULT_TEMPLATE.lower(): plain} | dict(known) if plain else dict(known)
    return TemplatesAnswer([_template_object(every[key]) for key in sorted(every)])


@verb(READS)
async def template(context: ServerContext, by: User, request: w.ShowTemplateRequest) -> TemplateAnswer:  # noqa: ARG001
    """Show one job template, and its file in TOML or as XML of HPC Pack."""
    from headnode.core.formats import job_template_xml, job_templates

    named = template_named(context.cluster.templates, request.template)
    if named is None:
        raise NotFound(
            code="no-such-template",
            what=f"there is no job template {request.template!r}",
            fix="see `hn template list`",
        )
    report: FidelityReport = ()
    if request.form == "hpcpack":
        text, report = job_template_xml.write_template(named)
        written = text.decode()
    elif request.form == "toml":
        written = job_templates.write_template(named)
    else:
        raise BadRequest(
            code="template-form", what=f"templates have no form {request.form!r}", fix="write toml or hpcpack"
        )
    return TemplateAnswer(_template_object(named), written, report)


@verb(ADMINISTERS)
async def set_template(context: ServerContext, by: User, request: w.SetTemplateRequest) -> StoredTemplate:
    """Create or replace a job template from its file."""
    from headnode.core.formats import job_template_xml, job_templates

    report: FidelityReport = ()
    if request.text.lstrip("\ufeff \t\r\n").startswith("<"):
        read, report = job_template_xml.read_template(request.text)
    else:
        read = job_templates.read_template(request.text)
    await check_filters(read.submission_filters, read.activation_filters)
    await context.ask(c.SetTemplate(by=by, template=read))
    return StoredTemplate(_template_object(read), report)


@verb(ADMINISTERS)
async def remove_template(context: ServerContext, by: User, request: w.TemplateNameRequest) -> RemovedAnswer:
    """Remove a job template."""
    await context.ask(c.RemoveTemplate(by=by, name=request.template))
    return RemovedAnswer(request.template)


def _template_object(template: JobTemplate) -> TemplateObject:
    from headnode.core.formats.job_templates import template_document

    document = template_document(template)
    return TemplateObject(
        name=template.name,
        description=template.description,
        users=list(template.users),
        groups=list(template.groups),
        submission_filters=template.submission_filters,
        activation_filters=template.activation_filters,
        rules={key: rule for key, rule in document.items() if isinstance(rule, dict)},
    )


@verb(READS)
async def filters(context: ServerContext, by: User, request: w.VerbRequest) -> FiltersAnswer:  # noqa: ARG001  (everybody sees them)
    """Show the filters in calling order, and the plug-ins that are installed."""
    objects = [_filter_object(kind, template, each) for kind, template, each in _registered(context)]
    from headnode.adapters.filters.plug_ins import installed

    return FiltersAnswer(objects, list(installed()))


def _registered(context: ServerContext) -> list[tuple[str, str, Filter]]:
    settings, templates = context.engine.settings, context.cluster.templates
    registered: list[tuple[str, str, Filter]] = []
    for kind, parameter in (("submission", SUBMISSION), ("activation", ACTIVATION)):
        for template in templates.values():
            text = template.submission_filters if kind == "submission" else template.activation_filters
            registered += [(kind, template.name, each) for each in read_filters(text)]
        registered += [(kind, each.template, each) for each in read_filters(settings.text(parameter))]
    return registered


def _filter_object(kind: str, template: str, each: Filter) -> FilterObject:
    return FilterObject(
        name=each.name,
        kind=kind,
        program=list(each.program),
        plug_in=each.plug_in,
        dialect=each.dialect,
        rules=each.rules,
        revert=each.reverts,
        template=template,
    )


@verb(ADMINISTERS)
async def test_filter(context: ServerContext, by: User, request: w.TestFilterRequest) -> FilterTrial:
    """Call one filter with a job file, outside the queue, and show what its answer would do."""
    from headnode.core.formats import dialects

    must_administer(by, "call filters")
    asker = context.asker
    if asker is None:
        raise Unavailable(code="no-filters", what="this head calls no filters", fix="ask a running head")
    kind, each = _chosen(context, request)
    language = dialects.dialect_named(request.dialect).language if request.dialect else None
    spec = dialects.read(request.jobfile, dialects.ReadOptions(language=language)).only_job()
    if kind == "submission":
        return await _submission(context, asker, by, each, spec)
    return await _activation(context, asker, by, each, spec, request)


def _chosen(context: ServerContext, request: w.TestFilterRequest) -> tuple[str, Filter]:
    """Return the filter that is meant: one that is registered by its name, or one that is described."""
    if request.kind not in ("", "submission", "activation"):
        raise BadRequest(
            code="kind",
            what=f"{request.kind!r} is not a kind of filter",
            fix="write submission or activation",
        )
    registered = [
        (kind, each)
        for kind, _, each in _registered(context)
        if each.name == request.filter and request.kind in ("", kind)
    ]
    if registered:
        return registered[0]
    if "/" in request.filter or "plugin:" in request.filter:
        chosen = read_filters(request.filter)
        if len(chosen) == 1:
            return request.kind or "submission", chosen[0]
    raise NotFound(
        code="no-such-filter",
        what=f"there is no filter {request.filter!r}",
        fix="see `hn filter list`, or write it as it would be registered: /PATH/PROGRAM or plugin:NAME",
    )


def _live(by: User, phase: str, now: float) -> "ExportedJob":
    from headnode.core.formats.job_views import ExportedJob

    state = {"Validating": JobState.VALIDATING, "Queued": JobState.QUEUED}.get(phase, JobState.RUNNING)
    return ExportedJob(id=0, state=state, phase=phase, owner=by.name, created=now, submitted=now)  # type: ignore[arg-type]


async def _submission(
    context: ServerContext, asker: FilterCaller, by: User, each: Filter, spec: JobSpec
) -> FilterTrial:
    seconds = context.engine.settings.number("SubmissionFilterTimeout")
    paper = await write_document(
        spec, _live(by, "Validating", context.now()), each.dialect, len(encode_spec(spec))
    )
    began = time.monotonic()
    returned = await asker.call(FilterRequest(each, "submission", 0, paper, seconds))
    spent = time.monotonic() - began
    verdict, differences = submission_verdict(returned.answer), []
    outcome = f"the job {verdict.value}"
    if verdict is SubmissionVerdict.FAILED:
        outcome = f"the job fails: {submission_failure(each, returned.answer, seconds)}"
    elif verdict is SubmissionVerdict.CHANGED:
        try:
            after = await changed_spec(spec, paper, returned.paper, each.dialect)
        except Refused as no:
            outcome = f"the job fails: {wrong_change(each, no.what)}"
        else:
            names = changes(spec, after)
            differences = [_difference(name, spec, after) for name in names]
    if returned.answer.ran:
        await asker.undo(_read_again(each, paper), 0, seconds)
    return _filter_trial(each, "submission", returned.answer, (seconds, spent), outcome, differences)


def _read_again(each: Filter, paper: bytes) -> list[Called]:
    return [Called(each, paper)] if each.reverts else []


def _difference(name: str, before: JobSpec, after: JobSpec) -> FilterChange:
    return FilterChange(name, str(getattr(before, name)), str(getattr(after, name)))


async def _activation(
    context: ServerContext,
    asker: FilterCaller,
    by: User,
    each: Filter,
    spec: JobSpec,
    request: w.TestFilterRequest,
) -> FilterTrial:
    seconds = context.engine.settings.number("ActivationFilterTimeout")
    phase = (
        ActivationPhase.RUNNING
        if request.running
        else ActivationPhase.BACKFILLED
        if request.backfill
        else ActivationPhase.QUEUED
    )
    live = _live(by, "Running" if request.running else "Queued", context.now())
    paper = await write_document(spec, live, each.dialect, len(encode_spec(spec)))
    offered = FilterOffer(1, 1, request.backfill, request.resources)
    began = time.monotonic()
    returned = await asker.call(FilterRequest(each, "activation", 0, paper, seconds, offered))
    spent = time.monotonic() - began
    if returned.answer.ran:
        await asker.undo(_read_again(each, paper), 0, seconds, offered)
    verdict = activation_verdict(returned.answer, phase, each.rules)
    outcome = OUTCOMES[verdict.value, request.running]
    return _filter_trial(each, "activation", returned.answer, (seconds, spent), outcome, [])


OUTCOMES = {
    ("start", False): "the job starts",
    ("start", True): "the job grows",
    ("block-queue", False): "the job waits, and so do all of its priority and below",
    ("keep-resources", False): "the job waits, and the offered processors are reserved for it",
    ("hold", False): "the job is held until its own date, or for DefaultHoldDuration",
    ("fail", False): "the job fails",
    ("wait", False): "the job does not start in this window; the filter is called again",
    ("wait", True): "the job does not grow; the filter is called again",
}
"""What each verdict does, of a job that is queued and of one that runs."""


def _filter_trial(
    each: Filter,
    kind: str,
    answer: FilterAnswer,
    times: tuple[float, float],
    outcome: str,
    changes: list[FilterChange],
) -> FilterTrial:
    """Return what a call of a filter came to; `times`: its time limit, and how long it took, in seconds."""
    return FilterTrial(
        filter=each.name,
        kind=kind,
        result=answer.how.value,
        exit_code=answer.exit_code,
        message=answer.words,
        text=describe_call(answer, times[0]),
        seconds=round(times[1], 4),
        outcome=outcome,
        reverted=answer.ran and each.reverts,
        changes=changes,
    )
