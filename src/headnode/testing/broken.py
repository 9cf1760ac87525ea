"""What is raised when a policy does not keep a promise."""


class PromiseBroken(AssertionError):
    """A policy did not do what was promised; the text shows where, as code for a test."""


def broken_unless(kept: bool, what: str) -> None:
    """Do nothing if the promise was kept.

    Raises:  PromiseBroken with these words otherwise.
    """
    if not kept:
        raise PromiseBroken(what)
