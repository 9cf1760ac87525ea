"""Batch scripts of Slurm, PBS, Grid Engine and LSF, as the head gets them."""

from headnode.apps.cli.job_files import read_job_file
from headnode.apps.cli.options import Arguments
from headnode.apps.client.client import Client
from headnode.apps.client.submitter import EVERYTHING, current_directory, variables_for_tasks
from headnode.core.formats.batch import is_batch_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def described_script(path: str, asked: Arguments, client: Client) -> "dict[str, Any] | None":
    """Return the text of a script, and where it comes from; None if it has no options for a scheduler.

    The head takes the directory and the variables of this shell if the scheduler of the script would.
    Raises:  BadRequest ``job-file``.
    """
    text = read_job_file(path)
    if not is_batch_script(text):
        return None
    named = asked.text("from")
    return {
        **({} if named is None else {"dialect": named}),
        "jobfile": text,
        "script": asked.words,
        "directory": current_directory() if client.shares_directories else "",
        "environment": variables_for_tasks(EVERYTHING),
    }
