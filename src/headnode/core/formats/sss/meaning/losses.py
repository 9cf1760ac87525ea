"""What SSS cannot say of a job, field by field.

Source: SSS 3.1.0, which has no words for these.
"""

from collections.abc import Iterable, Mapping

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

UNSAID_OF_JOB: Mapping[str, str] = {
    "exclusive": "other jobs may share the nodes",
    "run_until_canceled": "the job ends with its tasks",
    "preemptable": "jobs of higher priority may be given what it holds",
    "order_by": "nodes are taken in any order",
    "maximum_processors_per_node": "nodes may be larger",
    "process_memory": "processes have no memory of their own",
    "fail_on_task_failure": "what a failed task means is not said",
    "fail_dependent_tasks": "tasks do not depend on each other",
    "task_retry_limit": "failed tasks are not run again",
    "valid_exit_codes": "only 0 is success",
    "group_edges": "all tasks start together; write jobs of a job group with dependencies",
}
"""Fields of a job without a word in SSS, and what happens instead."""

UNSAID_OF_TASK: Mapping[str, str] = {
    "exclusive": "other tasks may share the node",
    "depends_on": "all tasks start together; write jobs of a job group with dependencies",
    "group": "all tasks start together",
    "valid_exit_codes": "only 0 is success",
    "private_directory": "the task starts in its work directory",
    "fail_job_on_failure": "what a failed task means is not said",
    "fail_job_count": "what failed tasks mean is not said",
}
"""Fields of a task without a word in SSS, and what happens instead."""

_JOB, _TASK = JobSpec(), TaskSpec()


def tell_losses(spec: JobSpec, findings: Findings) -> None:
    """Tell of the fields of a job and of its tasks that SSS has no words for."""
    _tell("job", spec, _JOB, UNSAID_OF_JOB, findings)
    for number, task in enumerate(spec.tasks, 1):
        _tell(f"task {number}", task, _TASK, UNSAID_OF_TASK, findings)


def _tell(
    where: str,
    spec: JobSpec | TaskSpec,
    defaults: JobSpec | TaskSpec,
    rows: Mapping[str, str],
    findings: Findings,
) -> None:
    for field, instead in rows.items():
        if getattr(spec, field) != getattr(defaults, field):
            findings.add(Kind.NOT_SUPPORTED, where, f"{field}: SSS has no word for it; {instead}")


class Texts:
    """Tells of texts that come back otherwise: an element has no blanks at the ends of its text."""

    def __init__(self, where: str, findings: Findings) -> None:
        self._where, self._findings = where, findings

    def tell(self, field: str, texts: Iterable[str]) -> None:
        """Tell when one of `texts` has blanks at its ends."""
        if any(text != text.strip() for text in texts):
            what = f"{field}: blanks at the ends of a text are lost"
            self._findings.add(Kind.APPROXIMATED, self._where, what)

    def names(self, field: str, names: tuple[str, ...]) -> None:
        """Tell when a list of names comes back otherwise."""
        self.tell(field, names)
        if len(set(names)) < len(names):
            self._findings.add(Kind.TRANSLATED, self._where, f"{field}: each name is written once")

    def path(self, field: str, path: str) -> None:
        """Tell when a path comes back otherwise."""
        self.tell(field, [path])
        if path == "~" or path.startswith("~/"):
            what = f"{field}: ~ is the home directory there, and a file called ~ here"
            self._findings.add(Kind.APPROXIMATED, self._where, what)
