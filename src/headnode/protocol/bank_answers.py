"""What verbs answer about a bank.  Amounts are in the unit of the bank."""

import msgspec


class BankObject(msgspec.Struct, frozen=True, gc=False):
    """A job at the bank."""

    account: str  # its project
    reserved: float | None  # for its latest run; null before it is reserved
    charged: float | None  # for all its runs, less what was refunded; null before the first charge
    due: str  # what the bank has not confirmed yet, and why: charge: the bank cannot be reached; or ""
