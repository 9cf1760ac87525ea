"""What remains of a request with an idempotency key: a client that lost the answer may ask again."""

import msgspec

from headnode.core.model.quantities import Instant


class Once(msgspec.Struct, frozen=True):
    """A request that is to be carried out once: `key` as its user chose it, a digest of all that it asks."""

    key: str
    digest: bytes
    verb: str


class Receipt(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a request made: jobs, or tasks `first_task` to `last_task` of a job.  Kept until `expires`."""

    uid: int
    key: str
    digest: bytes
    verb: str
    expires: Instant
    jobs: tuple[int, ...] = ()
    first_task: int = 0
    last_task: int = 0
