"""What a bank (an allocation manager, such as Gold) is asked about a run of a job, and what it answers.

Money is in millionths of the bank's unit.
"""

from typing import Literal

import msgspec

from headnode.core.model.quantities import Instant

MILLION = 1_000_000
"""Parts of the bank's unit."""

BankAction = Literal["quote", "reserve", "release", "charge", "refund"]
BankStep = Literal["asked", "reserved", "released", "charged", "refund", "refunded"]
"""What is recorded of a run: a reservation is about to be asked for, or was made or removed; the run was
charged; a refund is to be asked for, or was made."""

BankSaid = Literal["done", "refused", "away"]
"""How a question went.  Away: there is no answer that can be believed; it may have been carried out."""


class BankedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a job as a bank is told of it."""

    job: int
    run: int
    owner: str
    project: str = ""
    queue: str = ""  # its job template
    processors: int = 0
    seconds: int = 0  # for which it asks, or which it took
    started: Instant | None = None
    ended: Instant | None = None

    @property
    def name(self) -> str:
        """Its name in this cluster, the same whenever it is asked about: each run has its own.

        >>> BankedRun(job=5, run=2, owner="ann").name
        '5-2'
        """
        return f"{self.job}-{self.run}"


class BankOrder(msgspec.Struct, frozen=True, tag=True):
    """A question to the bank at `server` (host:port), signed with the first line of `key_file`.

    `first`: no question like it can have reached the bank before.
    """

    number: int
    server: str
    key_file: str
    actor: str
    machine: str  # the name of the cluster
    action: BankAction
    run: BankedRun
    first: bool = True

    @property
    def name(self) -> str:
        """The name of the run at the bank, which other clusters may use, too.

        Gold finds reservations, and what it refunds, by this name alone, whatever the machine.
        """
        return f"{self.machine}-{self.run.name}"


class BankReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a question; `words` say it to people, `amount` is what it was about."""

    number: int
    outcome: BankSaid
    amount: int = 0
    words: str = ""


class BankObject(msgspec.Struct, frozen=True, gc=False):
    """A job at the bank."""

    account: str  # its project
    reserved: float | None  # for its latest run; null before it is reserved
    charged: float | None  # for all its runs, less what was refunded; null before the first charge
    due: str  # what the bank has not confirmed yet, and why: charge: the bank cannot be reached; or ""
