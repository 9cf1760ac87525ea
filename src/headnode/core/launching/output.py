"""Where the captured output of an instance lies.  The head asks the same function as the node."""

_SPREAD = 1000  # files in one directory, so that a sweep of a million stays quick to list


def captured_path(state_output_dir: str, job: int, task: int, instance: int) -> str:
    """Return the file that holds what an instance wrote and did not redirect.

    >>> captured_path("/state/output", 7, 1, 3)
    '/state/output/7/1/3.out'
    >>> captured_path("/state/output", 7, 2, 41203)
    '/state/output/7/2/41/41203.out'
    """
    return f"{state_output_dir}/{job}/{captured_name(task, instance)}"


def captured_name(task: int, instance: int) -> str:
    """Return the same file relative to the directory of its job."""
    if instance < _SPREAD:
        return f"{task}/{instance}.out"
    return f"{task}/{instance // _SPREAD}/{instance}.out"
