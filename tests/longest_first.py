"""Plug-in of pytest: of files that are spread over processes, those that took longest last time begin first.

pytest-xdist begins with the files that have most tests.  A file of one long test is then among the last, and
the other processes are idle until it ends.  pytest's cache has how long files took with `--dist loadfile`.
"""

from collections import Counter
from math import inf

import pytest

SECONDS = (
    "headnode/seconds-of-files"  # by path, in the cache, and what workers get: they must agree on the order
)

_seconds: Counter[str] = Counter()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:  # type: ignore[no-untyped-def]
    """Tell a worker how long files took."""
    if node.config.option.dist == "loadfile":
        node.workerinput[SECONDS] = node.config.cache.get(SECONDS, {})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with new files, then with those that took longest."""
    if seconds := getattr(config, "workerinput", {}).get(SECONDS):
        items.sort(key=lambda item: -seconds.get(_file(item.nodeid), inf))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add what a test or its fixtures took."""
    _seconds[_file(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep how long files took, beside those that were not run."""
    config = session.config
    if getattr(config.option, "dist", "") == "loadfile" and config.cache is not None:
        config.cache.set(SECONDS, {**config.cache.get(SECONDS, {}), **_seconds})


def _file(test: str) -> str:
    return test.partition("::")[0]
