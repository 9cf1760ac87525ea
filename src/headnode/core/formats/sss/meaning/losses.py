"""What SSS cannot say of a job, field by field.

Source: SSS 3.1.0, which has no words for these.
"""

from collections.abc import Iterable, Mapping, Set

from headnode.core.formats.fidelity import Kind, lost_fields
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

SAID_OF_JOB = frozenset(
    """name description job_group project template priority unit minimum maximum single_node run_time
    licences node_groups node_group_op requested_nodes excluded_nodes minimum_memory maximum_memory
    minimum_processors_per_node held needs together alternatives parents after_failure after_exit
    after_start named_parents hold_until holds end_by reservation suspendable interactive resource_limits
    notify_on_start notify_on_completion email run_as environment tasks properties extensions
    dialect""".split()  # noqa: SIM905
)
"""Fields of a job that are written, or whose writers tell what is lost; every other one is lost."""

SAID_OF_TASK = frozenset(
    """name command kind minimum maximum run_time rerunnable standard_input standard_output standard_error
    append_output append_error work_directory required_nodes node_group needs distribution start end increment
    resource_limits environment properties extensions""".split()  # noqa: SIM905
)
"""The same of a task."""

_INSTEAD: Mapping[str, str] = {
    "exclusive": "others may share the node",
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
    "depends_on": "all tasks start together; write jobs of a job group with dependencies",
    "group": "all tasks start together",
    "private_directory": "the task starts in its work directory",
    "fail_job_on_failure": "what a failed task means is not said",
    "fail_job_count": "what failed tasks mean is not said",
}
"""What happens instead, of the fields whose loss is not plain."""

_JOB, _TASK = JobSpec(), TaskSpec()


def tell_losses(spec: JobSpec, findings: Findings) -> None:
    """Tell of the fields of a job and of its tasks that are not written."""
    _tell("job", spec, _JOB, SAID_OF_JOB, findings)
    for number, task in enumerate(spec.tasks, 1):
        _tell(f"task {number}", task, _TASK, SAID_OF_TASK, findings)


def _tell(
    where: str,
    spec: JobSpec | TaskSpec,
    defaults: JobSpec | TaskSpec,
    said: Set[str],
    findings: Findings,
) -> None:
    for field in lost_fields(spec, defaults, said):
        instead = f"; {_INSTEAD[field]}" if field in _INSTEAD else ""
        findings.add(Kind.NOT_SUPPORTED, where, f"{field}: SSS has no word for it{instead}")


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
