"""Shares of one work, each in a process of its own: for work that needs all processors of the machine."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

Share = TypeVar("Share")
Found = TypeVar("Found")

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def side_by_side(work: Callable[[Share], Found], shares: Sequence[Share]) -> list[Found] | None:
    """Return what the work gives for each share, the first done here, the others in forked processes.

    None if a process cannot be started or was killed.  No process outlives the call.
    """
    fork = multiprocessing.get_context("fork")  # so that what the work reads is not sent
    others: list[tuple[BaseProcess, Connection]] = []
    try:
        for share in shares[1:]:
            reads, writes = fork.Pipe(duplex=False)
            process = fork.Process(target=_send, args=(writes, work, share, os.getpid()), daemon=True)
            process.start()
            others.append((process, reads))
            writes.close()
        return [work(shares[0]), *(reads.recv() for _, reads in others)]
    except (EOFError, OSError):
        return None
    finally:
        for running, reads in others:
            running.kill()
            running.join()
            reads.close()


def _send(writes: Connection, work: Callable[[Share], Found], share: Share, parent: int) -> None:
    """Do a share.  The process ends without a word if it is interrupted, or with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == parent:
        with contextlib.suppress(BrokenPipeError):
            writes.send(work(share))
