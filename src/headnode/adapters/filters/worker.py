"""A process that runs one plug-in filter for the head, call after call, and ends with the head."""

import contextlib
import ctypes
import inspect
import io
import os
import signal
import socket
import sys
import traceback
from functools import partial
from typing import Any

import msgspec

from headnode.adapters.wire.child_end import messages, parent_channel
from headnode.adapters.wire.frame_codec import frame

GROUP = "headnode.filters"
LOADED = 0  # the number of the request to load the plug-in
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


class _UnusablePlugIn(Exception):
    """Why a plug-in cannot be used."""


def load(name: str) -> Any:
    """Return the plug-in of this name: an object, or a module, with some of the methods of a filter."""
    from importlib.metadata import entry_points  # the head imports this module, too

    points = {point.value: point for point in entry_points(group=GROUP, name=name)}
    if not points:
        what = f"no installed package has a filter {name!r} (entry points {GROUP})"
        raise _UnusablePlugIn(f"{what}; install its package where Headnode is installed")
    if len(points) > 1:
        raise _UnusablePlugIn(f"several packages have a filter {name!r}: {', '.join(sorted(points))}")
    (point,) = points.values()
    loaded = point.load()
    return loaded() if inspect.isclass(loaded) else loaded


def called(plug_in: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Call the method that a request is for; a filter that has no such method has nothing against a job."""
    kind = request["kind"]
    method = getattr(plug_in, _METHODS[kind], None)
    if method is None:
        return {"code": 0}
    arguments = [request["job"]]
    if kind.endswith("activation"):
        arguments += request["offered"]
    result = method(*arguments)
    if kind.startswith("revert"):
        return {"code": 0}
    code, job = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if isinstance(code, bool) or not isinstance(code, int):
        raise TypeError(f"{_METHODS[kind]} returned {result!r:.200}; it must return a number, or (1, job)")
    return {"code": int(code), "job": job if job is not None else request["job"]}


_METHODS = {
    "submission": "filter_submission",
    "revert-submission": "revert_submission",
    "activation": "filter_activation",
    "revert-activation": "revert_activation",
}


def _guarded(what: Any) -> dict[str, Any]:
    """Return what a call gives, with what it printed; what it raises is an answer, too."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            answer: dict[str, Any] = what()
    except _UnusablePlugIn as error:
        return {"error": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a stranger's code may raise anything)
        traceback.print_exc(file=sys.__stderr__)
        return {"error": f"{type(error).__name__}: {error}".rstrip(": ")}
    return answer | {"words": output.getvalue()[-65536:]}


def main() -> None:
    """Run the plug-in that is the first argument for the head, whose first request is to load it."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name = sys.argv[1]
    plug_in: Any = None

    def loading() -> dict[str, Any]:
        nonlocal plug_in
        plug_in = load(name)
        begin = getattr(plug_in, "on_load", None)
        if begin is not None:
            begin()
        return {}

    with parent_channel() as head:
        for message in messages(head):
            request = msgspec.msgpack.decode(message)
            what = loading if request["number"] == LOADED else partial(called, plug_in, request)
            _send(head, _guarded(what) | {"number": request["number"]})
        end = getattr(plug_in, "on_unload", None)
        if end is not None:
            _guarded(lambda: end() or {})
    os._exit(0)  # threads that the plug-in has started keep nothing alive


def _send(head: socket.socket, answer: dict[str, Any]) -> None:
    try:
        data = msgspec.msgpack.encode(answer)
    except (TypeError, ValueError, OverflowError) as error:
        data = msgspec.msgpack.encode(
            {"number": answer["number"], "error": f"the job in it is not valid: {error}"}
        )
    with contextlib.suppress(OSError):
        head.sendall(frame(data))


if __name__ == "__main__":
    main()
