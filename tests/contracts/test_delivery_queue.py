"""Which waiting notice is delivered next, from the outbox on the disk."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from depth import seeds
from headnode.adapters.notify.outbox import DeliveryQueue, NoticeKey, Outbox, PendingNotice, server_of
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.notices import Notice

ADDRESSES = ("ann@site.example", "https://one.example/a", "https://one.example/b", "https://two.example/")


def pending(number: int, address: str) -> PendingNotice:
    found = Notice(number, "ended", "here", JobId(number), "ann", "job", "", "finished", Instant(0))
    return PendingNotice(found, address)


class Site:
    """A queue, beside the plain list of what must come of it."""

    def __init__(self, path: Path, most: int) -> None:
        self.outbox = Outbox(path)
        self.queue = DeliveryQueue(self.outbox, most)
        self.now, self.number = 0.0, 0
        self.waiting: dict[NoticeKey, float] = {}  # when each is due
        self.out: set[NoticeKey] = set()

    def add(self, dice: random.Random) -> None:
        self.number += dice.randint(1, 3)
        chosen = dice.sample(ADDRESSES, dice.randint(0, 3))
        self.outbox.add(self.number, [pending(self.number, address) for address in chosen])
        self.waiting.update({(self.number, address): 0.0 for address in chosen})
        self.queue.look()

    def take(self, full: set[str]) -> NoticeKey | None:
        one = self.queue.next(self.now, full)
        if one is None:
            return None
        assert self.waiting.pop(one.key) <= self.now
        assert server_of(one.address) not in full
        self.out.add(one.key)
        return one.key

    def free(self, full: set[str]) -> list[NoticeKey]:
        return sorted(
            key for key, due in self.waiting.items() if due <= self.now and server_of(key[1]) not in full
        )

    def settle(self, key: NoticeKey) -> None:
        self.out.discard(key)
        self.outbox.discard(*key)
        self.queue.settled(key)

    def rest(self, key: NoticeKey, until: float) -> None:
        self.out.discard(key)
        self.waiting[key] = until
        self.queue.rest(key, until)

    def lose(self, kept: set[NoticeKey]) -> None:
        self.queue.take_back(kept)
        self.waiting.update(dict.fromkeys(self.out - kept, 0.0))
        self.out = kept


def play(site: Site, dice: random.Random, check: Callable[[NoticeKey | None, set[str]], None]) -> None:
    for _ in range(400):
        site.now += dice.random()
        match dice.randrange(6):
            case 0 | 1:
                site.add(dice)
            case 2 | 3:
                full = set(dice.sample(sorted({server_of(each) for each in ADDRESSES}), dice.randint(0, 2)))
                expected = site.free(full)
                taken = site.take(full)
                check(taken, full)
                assert taken is None or taken in expected
            case 4 if site.out:
                key = dice.choice(sorted(site.out))
                if dice.random() < 0.5:
                    site.settle(key)
                else:
                    site.rest(key, site.now + dice.random() * 20)
            case _ if dice.random() < 0.2:
                site.lose({key for key in site.out if dice.random() < 0.5})


def drain(site: Site) -> set[NoticeKey]:
    """Deliver all that is left; return what was."""
    site.now, brought = site.now + 100, set()
    site.lose(set())
    while (key := site.take(set())) is not None:
        site.settle(key)
        brought.add(key)
    return brought


@pytest.mark.parametrize("most", [1, 2, 7])
@pytest.mark.parametrize("seed", seeds(40))
def test_every_notice_is_delivered_in_the_end_however_few_are_in_memory(
    tmp_path: Path, seed: int, most: int
) -> None:
    site = Site(tmp_path / "outbox.db", most)
    play(site, random.Random(seed), lambda _, __: None)
    left = set(site.waiting) | site.out
    assert drain(site) == left
    assert site.outbox.count() == 0
    site.outbox.close()


@pytest.mark.parametrize("seed", seeds(40))
def test_a_notice_that_is_due_for_a_free_server_is_found(tmp_path: Path, seed: int) -> None:
    site = Site(tmp_path / "outbox.db", 10_000)

    def check(taken: NoticeKey | None, full: set[str]) -> None:
        assert taken is not None or not site.free(full)

    play(site, random.Random(seed), check)
    site.outbox.close()


class CountingOutbox(Outbox):
    """An outbox that knows how many notices were read from it."""

    read = 0

    def waiting(self, after: NoticeKey, limit: int) -> tuple[list[PendingNotice], NoticeKey | None]:
        found = super().waiting(after, limit)
        self.read += len(found[0])
        return found


def test_no_notice_is_read_twice_however_often_its_server_does_not_answer(tmp_path: Path) -> None:
    outbox = CountingOutbox(tmp_path / "outbox.db")
    outbox.add(50, [pending(number, ADDRESSES[0]) for number in range(1, 51)])
    queue = DeliveryQueue(outbox, 40)
    for now in range(200):
        one = queue.next(now, set())
        assert one is not None
        queue.rest(one.key, now)
    assert outbox.read == 40, "as many as it may have in memory"
    outbox.close()
