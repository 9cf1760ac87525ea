"""Several things that are wrong in one file, told at once."""

from collections.abc import Sequence

from headnode.core.model.errors import BadRequest

MOST_TOLD = 100  # of one file; of the others their number is told


class SeveralWrong(BadRequest):
    """A file with several faults of one kind; `each` has them in the order of the file."""

    def __init__(self, each: Sequence[BadRequest], unlisted: int = 0) -> None:
        first, more = each[0], len(each) - 1 + unlisted
        super().__init__(code=first.code, what=f"{first.what} (and {more} more)", fix=first.fix)
        self.each, self.unlisted = tuple(each), unlisted
