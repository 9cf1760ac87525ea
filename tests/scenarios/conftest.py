"""What several scenarios have in common: a small cluster that the tests of one file share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_scripted_head import COMMANDS, hn


@pytest.fixture(scope="session", autouse=True)
def commands_end() -> Iterator[None]:
    """End the process from which commands are forked."""
    yield
    COMMANDS.end()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run one cluster of one node with two processors for all tests of a file."""
    directory = tmp_path_factory.mktemp("cluster") / "state"
    result = hn("up", "--name", "test", "--processors", "2", state=directory)
    log = directory / "head.log"
    try:
        assert result.returncode == 0, result.stderr + (log.read_text() if log.exists() else "")
        assert result.stdout.startswith("Cluster test is up: 1 node, 2 processors.")
        yield directory
    finally:
        if (directory / "head.sock").exists():
            assert hn("down", "--cancel-jobs", state=directory).returncode == 0
            assert not (directory / "head.sock").exists()
