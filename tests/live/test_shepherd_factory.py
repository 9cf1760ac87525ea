"""The agent and its shepherd factory: no order is lost on the way."""

import asyncio
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headnode.adapters.processes import cgroups
from headnode.adapters.processes.factory import ShepherdFactory, ShepherdOrder
from headnode.core.model.errors import Unavailable

TIMEOUT = 60.0  # seconds for anything that must happen
MORE_THAN_FIT = 250  # orders: the kernel keeps about 170 of them for a factory that does not read


class Listener:
    """Hears what becomes of the shepherds."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def shepherd_failed(self, marker: str, why: str, trouble: str) -> None:
        self.failed.append(marker)

    def shepherd_gone(self, marker: str) -> None:
        pass


def impossible_order(folder: Path, number: int) -> ShepherdOrder:
    """Return an order for a shepherd whose journal cannot be written, so that it fails at once."""
    return ShepherdOrder(
        job=number,
        marker=f"test-factory-{number}",
        boot="boot",
        uid=os.getuid(),
        gid=os.getgid(),
        agent_uid=os.getuid(),
        journal=str(folder / "missing" / f"{number}.journal"),
        run_directory=str(folder),
        output_directory=str(folder / "output"),
        deadline=None,
        grace=0.2,
    )


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not met():
            await asyncio.sleep(0.01)


def end(factory: ShepherdFactory, orders: list[ShepherdOrder]) -> None:
    factory.close()
    for order in orders:
        cgroups.end(order.marker, 0.0)


def factory_process() -> int:
    """Return the one child of this process, the factory."""
    (child,) = Path("/proc/thread-self/children").read_text(encoding="ascii").split()
    return int(child)


def test_orders_that_come_faster_than_the_factory_takes_them_all_arrive(tmp_path: Path) -> None:
    async def story() -> None:
        listener = Listener()
        factory = ShepherdFactory(tmp_path / "log", listener)
        factory.start()
        process = factory_process()
        os.kill(process, signal.SIGSTOP)  # as on a machine with much to do
        orders = [impossible_order(tmp_path, number) for number in range(MORE_THAN_FIT)]
        for order in orders:
            factory.order(order)
        os.kill(process, signal.SIGCONT)
        await until(lambda: len(listener.failed) >= len(orders))
        assert sorted(listener.failed) == sorted(order.marker for order in orders)
        end(factory, orders)

    asyncio.run(story())


def test_orders_that_wait_for_a_factory_that_is_killed_go_to_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        listener = Listener()
        factory = ShepherdFactory(tmp_path / "log", listener)
        factory.start()
        process = factory_process()
        os.kill(process, signal.SIGSTOP)
        orders = [impossible_order(tmp_path, number) for number in range(MORE_THAN_FIT)]
        for order in orders:
            factory.order(order)
        os.kill(process, signal.SIGKILL)
        await until(lambda: len(set(listener.failed)) >= len(orders))
        end(factory, orders)

    asyncio.run(story())


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Let this process open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/", os.O_PATH)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(lowest)


def test_a_factory_that_cannot_be_started_for_want_of_descriptors_is_refused_in_words(tmp_path: Path) -> None:
    async def story() -> None:
        factory = ShepherdFactory(tmp_path / "log", Listener())
        with no_descriptors_left(), pytest.raises(Unavailable, match="cannot be started"):
            factory.order(impossible_order(tmp_path, 1))

    asyncio.run(story())
