"""What holds for every test: nothing that a test starts may outlive the tests."""

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import depth

pytest_plugins = ["longest_first"]
os.environ["HEADNODE_RESIDENT_CLIENT"] = "0"  # hn of a checkout would leave a process for the next commands
os.environ["TZ"] = "UTC"  # what is kept to be compared shows times; tests of other zones set their own
time.tzset()
MARK = "HEADNODE_TESTS"  # inherited by what the tests start; jobs have an environment of their own
TIMEOUT = 10.0  # seconds for what was told to stop


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the depth of tests, and for longer chaos."""
    parser.addoption("--depth", default="25", help="percent of random and exhaustive tests (default 25)")
    parser.addoption("--chaos-kills", type=int, help="how often parts are killed (200 at depth 100)")
    parser.addoption("--chaos-record", help="file that long chaos adds its rounds to, and goes on from")
    parser.addoption("--chaos-freezes", type=int, help="how often parts are frozen (4 at depth 100)")
    parser.addoption("--chaos-seconds", type=float, help="how long machines fail (30 at depth 100)")
    parser.addoption("--chaos-seed", default="1", help="which chaos of verbs it is (default 1)")


def pytest_configure(config: pytest.Config) -> None:
    """Set the depth before test modules are imported: decorators use it."""
    depth.choose(float(config.getoption("--depth")))
    settings.register_profile("shared machine", deadline=None, max_examples=depth.share_of(100))
    settings.load_profile("shared machine")


def pytest_collection() -> None:
    """Look for no garbage while modules are imported: what comes then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what has come out of later collections: to go through it takes a tenth of small tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail when a process of the tests is still there at their end, and stop it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # we run in the background: what we start does not
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # as after nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    own = f"{os.getpid()}-{time.monotonic_ns()}"
    os.environ[MARK] = own
    traces = (f"{MARK}={own}".encode(), str(tmp_path_factory.getbasetemp()).encode() + b"/")
    yield
    del os.environ[MARK]
    deadline = time.monotonic() + TIMEOUT
    while (left := started_here(traces)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left, f"the tests left processes running: {left}"


def started_here(traces: tuple[bytes, ...]) -> dict[int, str]:
    """Return the processes, but this one, whose environment or command line shows one of the traces."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            command, environment = read(folder / "cmdline"), read(folder / "environ")
            if any(trace in command or trace in environment for trace in traces):
                found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def read(file: Path) -> bytes:
    """Return what the system says of a process; nothing when it is gone or somebody else's."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
