"""``python -m headnode.adapters.staging``: the transfer process of an attempt."""

from collections.abc import Callable

from headnode.adapters.garbage import loaded


def _program() -> Callable[[], None]:
    from headnode.adapters.staging.transfer import main

    return main


loaded(_program)()
