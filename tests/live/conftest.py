"""After a test that failed its shared head is free again: the next ones would wait for its processors."""

from collections.abc import Generator
from typing import Any

import pytest

from heads import RealHead


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[Any],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, RealHead):
                value.cancel_all()
    return report
