"""Garbage collection of this process, and memory that is returned to the system."""

import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
LARGE_BLOCK = 256 * 1024  # bytes

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_collection(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Return what `work` returns; no garbage is collected meanwhile.

    For work whose objects are all kept, such as reading a job file: to look for garbage among them takes a
    sixth of its time.
    """
    if not gc.isenabled():
        return work(*arguments, **named)
    gc.disable()
    try:
        return work(*arguments, **named)
    finally:
        gc.enable()


def loaded(load: Callable[[], Result]) -> Result:
    """Return what `load` imports; nothing that is there afterwards is ever looked at as garbage.

    For the modules of a process: to go through them again and again, and once more at its end, takes a fifth
    of the processor time of its start.
    """
    gc.disable()
    try:
        return load()
    finally:
        gc.freeze()
        gc.enable()


def give_large_blocks_back() -> None:
    """Let large blocks of memory go back to the system when they are freed.

    The GNU C library keeps blocks of up to 32 MB for later once it has freed one of that size: a snapshot, a
    request.  Other C libraries have no such function, and nothing changes there.
    """
    import ctypes  # only long-lived processes need it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGE_BLOCK)
