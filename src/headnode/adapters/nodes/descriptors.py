"""A head of thousands of nodes needs a descriptor for each."""

import resource


def allow_many() -> int:
    """Raise our soft limit of open files to the hard one; return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
