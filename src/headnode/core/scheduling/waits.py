"""Why jobs wait, worked out when somebody asks: a pass decides about thousands and few are ever read."""

from collections.abc import Callable, Iterator, Mapping

from headnode.core.model.job import JobRequest
from headnode.core.scheduling.decision import Wait

Telling = Callable[[], Wait]
"""Says why, from what the pass left behind; always the same."""


class Waits(Mapping[JobRequest, Wait]):
    """The wait of each request some of whose jobs do not start."""

    __slots__ = ("_tellings", "_told")

    def __init__(self, tellings: dict[JobRequest, Telling]) -> None:
        self._tellings = tellings
        self._told: dict[JobRequest, Wait] = {}

    def __getitem__(self, request: JobRequest) -> Wait:
        told = self._told.get(request)
        if told is None:
            told = self._told[request] = self._tellings[request]()
        return told

    def __contains__(self, request: object) -> bool:
        return request in self._tellings

    def __iter__(self) -> Iterator[JobRequest]:
        return iter(self._tellings)

    def __len__(self) -> int:
        return len(self._tellings)
