"""Names of holds.

Source: SSS 3.1.0, "Hold" (System in its examples); user, operator and system are the three that schedulers of
its family tell apart.
"""

from collections.abc import Sequence

from headnode.core.model.small_checks import refuse

DEFAULT_HOLD = "user"
PRIVILEGED_HOLDS = frozenset({"system", "operator"})
"""Only operators and administrators set and release these; names compare without regard to case."""

MOST_HOLDS = 32  # on one job
LONGEST_HOLD_NAME = 64  # characters


def check_hold_name(name: str) -> None:
    """Refuse a name that no hold can have.

    Raises:  BadRequest ``hold-name``.
    """
    if (
        len(name) > LONGEST_HOLD_NAME
        or name != name.strip()
        or not name.isprintable()
        or "," in name
        or not name
    ):
        refuse(
            "hold-name",
            f"{name[:LONGEST_HOLD_NAME]!r} is not a name for a hold",
            f"use 1 to {LONGEST_HOLD_NAME} characters, no comma, and no blank at its ends",
        )


def check_holds(names: Sequence[str]) -> None:
    """Refuse holds that a job cannot have: wrong names, one name twice, too many.

    Raises:  BadRequest ``hold-name``, ``holds``.
    """
    for name in names:
        check_hold_name(name)
    if len({name.casefold() for name in names}) < len(names):
        refuse("holds", f"a hold is named twice in {', '.join(names[:MOST_HOLDS])}", "name each hold once")
    if len(names) > MOST_HOLDS:
        refuse("holds", f"{len(names)} holds on one job", f"at most {MOST_HOLDS} are possible")
