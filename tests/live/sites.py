"""Sites with another scheduler: fixtures of those that are real, and a resource of a head there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heads import RealHead
from testbed.gridengine_peer import GridEnginePeer, gridengine_peer
from testbed.other_users import open_to_all
from testbed.slurm_peer import SlurmPeer, slurm_peer

SOON = {"poll": 1.0, "settle": 6.0, "lost_after": 30.0}
"""Times of a resource in seconds, so short that a test need not wait."""


def slurm_fixture(**options: Any) -> Callable[..., Iterator[SlurmPeer]]:
    """Return a fixture: one Slurm for all tests of a file, as `slurm_peer` starts it."""

    @pytest.fixture(scope="module")
    def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmPeer]:
        directory = tmp_path_factory.mktemp("there")
        open_to_all(directory)
        with slurm_peer(directory / "slurm", **options) as peer:
            yield peer

    return slurm


def grid_engine_fixture() -> Callable[..., Iterator[GridEnginePeer]]:
    """Return a fixture: one Grid Engine for all tests of a file."""

    @pytest.fixture(scope="module")
    def grid_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEnginePeer]:
        directory = tmp_path_factory.mktemp("there")
        open_to_all(directory)
        with gridengine_peer(directory / "sge") as peer:
            yield peer

    return grid_engine


def polite_fixture(site: str) -> Callable[..., Iterator[Any]]:
    """Return a fixture: the scheduler of the fixture `site`, with its settings of before."""

    @pytest.fixture
    def peer(request: pytest.FixtureRequest) -> Iterator[Any]:
        found = request.getfixturevalue(site)
        found.write()
        yield found
        found.be_rude(0.0)

    return peer


def attempts_in(directory: Path) -> str:
    """Return the directory for attempts of all users in one that they can enter."""
    open_to_all(directory)
    attempts = directory / "attempts"
    attempts.mkdir(exist_ok=True)
    attempts.chmod(0o1777)
    return str(attempts)


def add_resource(head: RealHead, name: str, system: str, directory: Path, **fields: Any) -> None:
    """Add a resource with its attempts below a directory; its times are `SOON`, or those of `fields`."""
    head.ask("set_resource", name=name, system=system, directory=attempts_in(directory), **{**SOON, **fields})
