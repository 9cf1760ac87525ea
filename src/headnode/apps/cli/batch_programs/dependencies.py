"""What a job waits for, as squeue and scontrol show it.

Source:  Slurm, squeue(1), ``%E``; scontrol(1), ``Dependency``.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from headnode.apps.cli.batch_programs.rows import BatchRow

_KINDS = {
    "OnSuccess": "afterok",
    "OnFailure": "afternotok",
    "OnExit": "afterany",
    "OnStart": "after",
    "OnCorresponding": "aftercorr",
}


def dependency(row: "BatchRow") -> str | None:
    """Return the jobs that it waits for: ``afterok:1_3(unfulfilled),after:2+5(unfulfilled)``.

    If any dependency is enough, they are separated by ``?``, and there is none once one is satisfied.
    """
    detail = row.source.detail(row.id)
    ones = detail["dependencies"]
    any_one = detail.get("any_dependency", False)
    if any_one and any(each["status"] == "met" for each in ones):
        return None
    found = [_dependency(each) for each in ones if each["status"] != "met"]
    return ("?" if any_one else ",").join(found) or None


def _dependency(each: "Mapping[str, Any]") -> str:
    element = "" if each.get("element") is None else f"_{each['element']}"
    delay = f"+{-(-round(each['delay']) // 60)}" if each.get("delay") else ""
    failed = "failed" if each["status"] == "never" else "unfulfilled"
    return f"{_KINDS[each['condition']]}:{each['job']}{element}{delay}({failed})"
