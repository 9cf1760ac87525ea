"""What an interactive job can be: one program in a terminal, which somebody comes to.

Source: SSS 3.1.0, Table 25-2, Interactive.
"""

from headnode.core.model.job import JobSpec
from headnode.core.model.small_checks import refuse
from headnode.core.model.task import TaskType


def check_interactive(spec: JobSpec) -> None:
    """Refuse an interactive job that nobody could sit down at.

    Raises:  BadRequest ``interactive``.
    """
    if not spec.interactive:
        return
    if len(spec.tasks) != 1:
        refuse(
            "interactive", f"an interactive job has one task, not {len(spec.tasks)}", "submit others apart"
        )
    task = spec.tasks[0]
    if task.kind is not TaskType.BASIC:
        refuse("interactive", "the task of an interactive job is not a basic task", "make it basic")
    if task.standard_input or task.standard_output or task.standard_error:
        refuse(
            "interactive",
            "the task of an interactive job has its streams in files, and cannot have them in a terminal",
            "leave out standard input, output and error",
        )
    if spec.task_retry_limit:
        refuse(
            "interactive",
            "an interactive program is not run again when it fails",
            "leave out the retry limit",
        )
