"""The Python SDK: submit jobs, wait for them, read their output; functions as jobs.

>>> from headnode.sdk import HeadnodeClient
>>> HeadnodeClient.__name__
'HeadnodeClient'

`HeadnodeClient` blocks, `AsyncHeadnodeClient` has the same methods as coroutines.  A name is imported when it
is first used: a script that only submits does not load asyncio.
"""

import importlib
from typing import TYPE_CHECKING, Any

from headnode.core.model.errors import (
    BadRequest,
    HeadnodeError,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
    WrongState,
)

if TYPE_CHECKING:
    from headnode.sdk.asynchronous.client import AsyncHeadnodeClient, AsyncJobHandle
    from headnode.sdk.executor.calls import HeadnodeFuture
    from headnode.sdk.executor.executor import HeadnodeExecutor
    from headnode.sdk.synchronous.client import HeadnodeClient, JobHandle

__all__ = (
    "AsyncHeadnodeClient",
    "AsyncJobHandle",
    "BadRequest",
    "HeadnodeClient",
    "HeadnodeError",
    "HeadnodeExecutor",
    "HeadnodeFuture",
    "JobHandle",
    "NotAllowed",
    "NotFound",
    "Refused",
    "Unavailable",
    "WrongState",
)

_PLACES = {
    "AsyncHeadnodeClient": "asynchronous.client",
    "AsyncJobHandle": "asynchronous.client",
    "HeadnodeClient": "synchronous.client",
    "HeadnodeExecutor": "executor.executor",
    "HeadnodeFuture": "executor.calls",
    "JobHandle": "synchronous.client",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
