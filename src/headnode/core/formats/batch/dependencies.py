"""What jobs wait for, in the options of batch scripts: read and written.

Source:  Slurm, sbatch(1), --dependency; PBS, qsub(1B), -W depend; Grid Engine, qsub(1), -hold_jid;
         IBM Spectrum LSF 10.1, bsub(1), -w.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from headnode.core.formats.batch.draft import BatchDraft
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.fidelity import Fidelity, LossReport
from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec, all_dependencies
from headnode.core.model.quantities import Seconds

_WHEN: Final[Mapping[str, Condition]] = {
    "afterok": Condition.ON_SUCCESS,
    "afternotok": Condition.ON_FAILURE,
    "afterany": Condition.ON_EXIT,
    "after": Condition.ON_START,
    "aftercorr": Condition.ON_CORRESPONDING,
}
KIND_OF: Final = {condition: kind for kind, condition in _WHEN.items()}
"""The word of Slurm and PBS for each condition."""

_WHEN_OF_PBS: Final[Mapping[str, Condition]] = {
    **{kind: condition for kind, condition in _WHEN.items() if kind != "aftercorr"},
    "afterokarray": Condition.ON_SUCCESS,
    "afternotokarray": Condition.ON_FAILURE,
    "afteranyarray": Condition.ON_EXIT,
    "afterstartarray": Condition.ON_START,
}
"""Conditions of PBS, and those of Torque for arrays, which are whole jobs here."""

_SINGLETON: Final = "singleton"
_SLURM_JOB: Final = re.compile(r"(\d{1,12})(?:_(\d{1,12}|\*))?(?:\+(\d{1,9}))?", re.ASCII)
_PBS_JOB: Final = re.compile(r"(\d{1,12})(?:\[(\d{0,12})\])?(?:\.[^:]*)?", re.ASCII)


def _add(draft: BatchDraft, place: OptionPlace, one: JobDependency) -> None:
    """Let the job wait for a job or an element of it."""
    if one.job < 1:
        place.refuse(f"{one.job} is not the id of a job", "ids count from 1")
    if one.element is None and not one.delay:
        field = DEPENDENCY_FIELDS[one.condition]
        draft.job[field] = (*draft.job.get(field, ()), one.job)
    else:
        draft.job["dependencies"] = (*draft.job.get("dependencies", ()), one)


def read_slurm(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read ``afterok:12_3,after:13+5``; with ``?`` in place of commas, one of them is enough."""
    if "?" in text and "," in text:
        what = "all of the dependencies are separated by ',' or all by '?'"
        place.refuse(what, "write 'afterok:1,afterok:2' for both, 'afterok:1?afterok:2' for either")
    for part in re.split("[,?]", text):
        if part == _SINGLETON:
            draft.job["singleton"] = True
            continue
        kind, _, jobs = part.partition(":")
        if kind not in _WHEN or not jobs:
            known = ", ".join(_WHEN)
            fix = f"write {_SINGLETON}, or one of {known}, and ids: afterok:12"
            place.refuse(f"{part[:60]!r} is not supported", fix)
        for job in jobs.split(":"):
            _add(draft, place, _slurm_job(place, kind, job))
    if "?" in text:
        draft.job["any_dependency"] = True
        if draft.job.get("singleton") or draft.job.get("after_corresponding"):
            what = "singleton and aftercorr are not possible where one of several dependencies is enough"
            place.refuse(what, "write them with commas")
    waited = draft.job.keys() & {*DEPENDENCY_FIELDS.values(), "dependencies"}
    others = ["one of those jobs" if "?" in text else "those jobs"] if waited else []
    if draft.job.get("singleton"):
        others.append("the jobs of its name that were submitted before")
    place.report(Fidelity.TRANSLATED, f"the job waits for {' and '.join(others)}")


def _slurm_job(place: OptionPlace, kind: str, text: str) -> JobDependency:
    match = _SLURM_JOB.fullmatch(text)
    if match is None:
        place.refuse(f"{text[:60]!r} is not the id of a job", "write 12, 12_3, or after:12+5")
    element = int(match[2]) if match[2] not in (None, "*") else None
    if match[3] and (kind != "after" or element is not None):
        place.refuse(f"{text[:60]!r}: minutes count from the start of a whole job", "write after:12+5")
    if element is not None and kind == "aftercorr":
        place.refuse(f"{text[:60]!r}: aftercorr is for whole jobs", "write aftercorr:12, or afterok:12_3")
    return JobDependency(int(match[1]), _WHEN[kind], element, Seconds(60.0 * int(match[3] or 0)))


def read_pbs(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read ``afterok:12[3].server:13,afterany:14[]``."""
    for part in text.split(","):
        kind, _, jobs = part.partition(":")
        if kind not in _WHEN_OF_PBS or not jobs:
            known = ", ".join(_WHEN_OF_PBS)
            place.refuse(f"{part[:60]!r} is not supported", f"write one of {known}: afterok:12")
        for job in jobs.split(":"):
            match = _PBS_JOB.fullmatch(job)
            if match is None:
                place.refuse(f"{job[:60]!r} is not the id of a job", "write 12, 12[] or 12[3]")
            element = int(match[2]) if match[2] else None
            _add(draft, place, JobDependency(int(match[1]), _WHEN_OF_PBS[kind], element))
    place.report(Fidelity.TRANSLATED, "the job waits for those jobs")


def read_grid_engine(draft: BatchDraft, place: OptionPlace, text: str, condition: Condition) -> None:
    """Let the job wait for jobs by their ids and names, and for tasks of arrays: ``12,mesh,13.4``."""
    for field in (DEPENDENCY_FIELDS[condition], "named_parents", "dependencies"):
        kept = draft.job.get(field, ())
        others = (one for one in kept if not isinstance(one, int) and one.condition is not condition)
        draft.job[field] = tuple(others)
    for part in text.split(","):
        job, _, number = part.partition(".")
        if part.isascii() and job.isdigit() and (number.isdigit() or "." not in part):
            if number and condition is Condition.ON_CORRESPONDING:
                place.refuse(f"{part[:60]!r} is one task", "write the ids of whole jobs")
            element = int(number[:12]) if number else None
            _add(draft, place, JobDependency(int(job[:12]), condition, element))
        elif re.search(r"[*?\[]", part):
            place.refuse(f"{part[:60]!r} means several jobs", "write ids or whole names")
        else:
            named = draft.job["named_parents"]
            draft.job["named_parents"] = (*named, NamedParent(part, condition=condition))


_LSF_CONDITIONS: Final[Mapping[str, Condition]] = {
    "done": Condition.ON_SUCCESS,
    "exit": Condition.ON_FAILURE,
    "ended": Condition.ON_EXIT,
    "started": Condition.ON_START,
}
_LSF_WORD: Final = {condition: word for word, condition in _LSF_CONDITIONS.items()}
_TERM: Final = re.compile(
    r"""(?:(\w+)\s*\(\s*)?(?:(\d+)(?:\[(\*|\d{1,12})\])?|"([^"*\[\]]+)(\[\*\])?"|'([^'*\[\]]+)(\[\*\])?'"""
    r"""|([A-Za-z][\w.-]*)(\[\*\])?)(\s*\))?"""
)


def read_lsf(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read conditions that must all hold, or of which one is enough: ``done(12) && ended("mesh")``.

    Parentheses around terms of the same operator change nothing.
    """
    if "&&" in text and "||" in text:
        what = "conditions with && and || together are not supported"
        place.refuse(what, "write all with &&, or all with ||")
    any_one = "||" in text
    for term in _lsf_terms(place, text, "||" if any_one else "&&"):
        match = _TERM.fullmatch(term)
        kind = (match and match[1]) or "done"
        if match is None or kind not in _LSF_CONDITIONS or bool(match[1]) != bool(match[10]):
            known = ", ".join(_LSF_CONDITIONS)
            place.refuse(f"{term[:60]!r} is not supported", f"write {known}, joined by &&: done(12)")
        condition = _LSF_CONDITIONS[kind]
        if "*" in (match[3], *(each[1:2] for each in (match[5], match[7], match[9]) if each)):
            if kind != "done" or any_one:
                place.refuse(f"{term[:60]!r} is not supported", "write done(12[*]) for each element")
            condition = Condition.ON_CORRESPONDING
        name = match[4] or match[6] or match[8]
        if name:
            named = NamedParent(name, condition=condition)
            draft.job["named_parents"] = (*draft.job.get("named_parents", ()), named)
        else:
            element = int(match[3]) if match[3] and match[3] != "*" else None
            _add(draft, place, JobDependency(place.number(match[2], 1), condition, element))
    if any_one:
        draft.job["any_dependency"] = True
    place.report(Fidelity.TRANSLATED, f"the job waits for {'one of ' if any_one else ''}those jobs")


def _lsf_terms(place: OptionPlace, text: str, operator: str) -> Iterator[str]:
    """Yield the terms of an expression with one operator, without the parentheses around them."""
    depth = 0
    for part in text.split(operator):
        term = part.strip()
        while term.startswith("("):
            depth, term = depth + 1, term[1:].strip()
        while term.count(")") > term.count("("):
            if not term.endswith(")"):
                break
            depth, term = depth - 1, term[:-1].strip()
        if depth < 0:
            break
        yield term
    if depth:
        place.refuse("the parentheses do not match", f"write done(1) {operator} done(2)")


def slurm_dependency(spec: JobSpec, losses: LossReport) -> str:
    """Return the value of --dependency: ``afterok:1:2,afterany:3``; "" if there is none."""
    parts = [*_of_jobs(spec), *(_slurm_written(one, losses) for one in spec.dependencies)]
    if spec.any_dependency:  # each by itself, so that no colon can be taken for "and"
        ones = [one for one in all_dependencies(spec) if one not in spec.dependencies]
        parts = [f"{KIND_OF[one.condition]}:{one.job}" for one in ones]
        parts += (_slurm_written(one, losses) for one in spec.dependencies)
    if spec.singleton:
        parts.append(_SINGLETON)
    return ("?" if spec.any_dependency else ",").join(parts)


def _of_jobs(spec: JobSpec, *, corresponding: bool = True) -> Iterator[str]:
    for condition, field in DEPENDENCY_FIELDS.items():
        if (jobs := getattr(spec, field)) and (corresponding or condition is not Condition.ON_CORRESPONDING):
            yield ":".join([KIND_OF[condition], *map(str, jobs)])


def _slurm_written(one: JobDependency, losses: LossReport) -> str:
    minutes = -(-round(one.delay) // 60)
    if one.delay % 60:
        what = f"dependencies: the delay of {one.delay:g} s becomes {minutes} minutes"
        losses.add(Fidelity.APPROXIMATED, "job", what)
    element = "" if one.element is None else f"_{one.element}"
    return f"{KIND_OF[one.condition]}:{one.job}{element}" + (f"+{minutes}" if minutes else "")


def pbs_dependency(spec: JobSpec, losses: LossReport) -> str:
    """Return the value of ``-W depend``; "" if there is none."""
    if spec.after_corresponding:
        what = "after_corresponding: PBS waits for whole jobs, so the job waits for all of each"
        losses.add(Fidelity.APPROXIMATED, "job", what)
    _lose_any(spec, losses, "PBS")
    _lose_delays(spec, losses, "PBS")
    parts = [*_of_jobs(spec, corresponding=False)]
    parts += (f"afterok:{job}" for job in spec.after_corresponding)
    parts += (
        f"{KIND_OF[one.condition]}:{one.job}{'' if one.element is None else f'[{one.element}]'}"
        for one in spec.dependencies
    )
    return ",".join(parts)


def grid_engine_lines(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    """Yield ``-hold_jid`` and ``-hold_jid_ad``."""
    for field in ("parents", "after_failure", "after_start", "after_corresponding"):
        if getattr(spec, field):
            what = f"{field}: Grid Engine waits for the end of jobs, however it is"
            losses.add(Fidelity.APPROXIMATED, "job", what)
    if spec.dependencies:
        what = "dependencies: Grid Engine waits for the end of whole jobs, however it is"
        losses.add(Fidelity.APPROXIMATED, "job", what)
    _lose_any(spec, losses, "Grid Engine")
    one_by_one = Condition.ON_CORRESPONDING
    jobs = dict.fromkeys(one.job for one in all_dependencies(spec) if one.condition is not one_by_one)
    if jobs:
        yield f"-hold_jid {','.join(map(str, jobs))}"
    if spec.after_corresponding:
        yield f"-hold_jid_ad {','.join(map(str, spec.after_corresponding))}"


def lsf_condition(spec: JobSpec, losses: LossReport) -> str:
    """Return the value of ``-w``: ``done(3) && ended("mesh")``; "" if there is none."""
    _lose_delays(spec, losses, "LSF")
    terms: list[str] = []
    named = [one for one in spec.named_parents if not one.by_id]
    for word, condition in _LSF_CONDITIONS.items():
        terms += (f"{word}({job})" for job in getattr(spec, DEPENDENCY_FIELDS[condition]))
        terms += (f'{word}("{one.name}")' for one in named if one.condition is condition)
    terms += (f"done({job}[*])" for job in spec.after_corresponding)
    terms += (f'done("{one.name}[*]")' for one in named if one.condition is Condition.ON_CORRESPONDING)
    terms += (
        f"{_LSF_WORD[one.condition]}({one.job}{'' if one.element is None else f'[{one.element}]'})"
        for one in spec.dependencies
    )
    return (" || " if spec.any_dependency else " && ").join(terms)


def _lose_any(spec: JobSpec, losses: LossReport, system: str) -> None:
    if spec.any_dependency:
        what = f"any_dependency: {system} waits for all dependencies"
        losses.add(Fidelity.NOT_SUPPORTED, "job", what)


def _lose_delays(spec: JobSpec, losses: LossReport, system: str) -> None:
    if any(one.delay for one in spec.dependencies):
        what = f"dependencies: {system} has no delay after the start of a job"
        losses.add(Fidelity.NOT_SUPPORTED, "job", what)
