"""Where the head of a login may be, which place is tried next, and what a head says of the others."""

import contextlib
from collections.abc import Iterator
from typing import Any

from headnode.adapters.nodes.membership import MAX_ADDRESS, MAX_HEADS, usable_addresses
from headnode.adapters.wire.peers import Address, written_address
from headnode.apps.client.logins import HeadLogin, keep_moved
from headnode.core.model.bounds import INTEGER
from headnode.core.model.errors import IS_STANDBY, OLD_HEAD, HeadnodeError, Unavailable

NOT_THERE = ("head-away", "wrong-head", IS_STANDBY, OLD_HEAD)
"""The codes of errors after which the next address is tried: nothing was asked yet."""


def others_of(listed: object, known: "tuple[str, ...]", address: str) -> tuple[str, ...]:
    """Return the other addresses where a head may be.

    said:     what the head said of its standby heads; what is no address is left out
    known:    what was known before
    address:  where the head is
    """
    addresses = (
        [each for each in listed[:MAX_HEADS] if isinstance(each, str)] if isinstance(listed, list) else []
    )
    usable = [written_address(each) for each in usable_addresses(addresses)]
    rest = [each for each in known if len(each) <= MAX_ADDRESS]
    return tuple(each for each in dict.fromkeys((*usable, *rest)) if each != address)[:MAX_HEADS]


class SearchForHead:
    """One search for the head of a login: yields the addresses in turn, and says why none was of use."""

    def __init__(self, login: HeadLogin) -> None:
        self._login = login
        self._failures: list[tuple[str, HeadnodeError]] = []

    def __iter__(self) -> Iterator[Address]:
        first = self._login.host, self._login.port
        yield first
        yield from (each for each in usable_addresses(self._login.others) if each != first)

    @property
    def is_choice(self) -> bool:
        """Whether there is more than one address."""
        return bool(self._login.others)

    def failed(self, address: Address, error: HeadnodeError) -> None:
        """Go on with the next address, unless it was the head that refused; raise that refusal."""
        if error.code not in NOT_THERE:
            raise error
        self._failures.append((written_address(address), error))

    def failure(self) -> HeadnodeError:
        """Return why no address was of use."""
        if len(self._failures) == 1:
            return self._failures[0][1]
        failures = "; ".join(f"at {address}: {_short(address, error)}" for address, error in self._failures)
        of_cluster = f" of cluster {self._login.cluster}" if self._login.cluster else ""
        return Unavailable(
            code="head-away",
            what=f"the head{of_cluster} is not reached; {failures}",
            fix="check the network; if a standby head is to take over, an administrator tells it to",
        )

    def found(self, address: Address, answer: dict[str, Any]) -> None:
        """Learn from the first answer of a head at an address; the next command begins there.

        Raises:  Unavailable ``old-head`` when a head with a higher term was seen.
        """
        login, answered = self._login, answer.get("term", 0)
        term = answered if isinstance(answered, int) and 0 <= answered <= INTEGER.most else 0
        if term < login.term:
            raise Unavailable(
                code=OLD_HEAD,
                what=f"{written_address(address)} is an old head that was replaced: its term is {term}, "
                f"and you have used the head of term {login.term}",
                fix="ask an administrator where the head is; if it is this one nevertheless, log in again",
            )
        known = (login.address, *login.others)
        others = others_of(answer.get("standbys"), known, written_address(address))
        if (login.host, login.port, login.others, login.term) == (*address, others, term):
            return
        login.host, login.port, login.others, login.term = *address, others, term
        with contextlib.suppress(HeadnodeError):  # it is found again the next time, only later
            keep_moved(login)


def _short(address: str, error: HeadnodeError) -> str:
    """Return what happened at an address, without what is said of all."""
    return error.what.removeprefix(f"the head at {address} cannot be reached: ")
