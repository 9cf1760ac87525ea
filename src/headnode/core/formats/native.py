"""A job as JSON: the names of JobSpec and TaskSpec, only what differs from the defaults.

A run time limit that does not exist is null.  Everything else is as in `headnode.core.model.job`: seconds,
MB, inclusive ranges of exit codes.
"""

from typing import Any

import msgspec

from headnode.core.model.job import JobSpec


def write_job_json(spec: JobSpec) -> dict[str, Any]:
    """Return the job as what JSON can hold."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))  # JSON has null for no limit
    return found
