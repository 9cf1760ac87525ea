"""Follow jobs that come and go by one stream of events, for executors of workflow programs."""

import threading
from collections.abc import Callable

from headnode.core.model.errors import Broken, HeadnodeError, Unavailable
from headnode.protocol.answers import DetailedJob
from headnode.sdk.patience import Patience
from headnode.sdk.synchronous.client import HeadnodeClient
from headnode.sdk.synchronous.connection import pause
from headnode.sdk.synchronous.session import FINAL

Changed = Callable[[DetailedJob], None]


class JobFollower:
    """Tells how each of its jobs is when its state has changed, up to its end.

    A thread reads one stream of events of the head.  A job is asked for when it is added, and when an event
    says that its state is another.
    """

    def __init__(
        self, client: HeadnodeClient, changed: Changed, failed: Callable[[HeadnodeError], None]
    ) -> None:
        """`changed` is called for each new state, one at a time; `failed` when the head is away for good.

        Raises:  Unavailable ``no-head``.
        """
        self._client, self._changed, self._failed = client, changed, failed
        self._states: dict[int, str] = {}
        self._looking = threading.RLock()  # states are told in their order
        self._owner, self._newest = client.verbs.whoami().user, client.verbs.events().after
        self._thread = threading.Thread(target=self._follow, name="headnode events", daemon=True)
        self._closed = False

    def add(self, job: int) -> None:
        """Follow a job of this user that was submitted; its state is told at once.

        Raises:  NotFound ``no-such-job``; Unavailable.
        """
        with self._looking:
            if not self._closed and self._thread.ident is None:
                self._thread.start()
            self._states[job] = ""
            try:
                self._look(job)
            except HeadnodeError:
                del self._states[job]
                raise

    def close(self) -> None:
        """Tell nothing any more."""
        self._closed = True
        with self._looking:
            self._states.clear()

    def _follow(self) -> None:
        try:
            for event in self._client.events(after=self._newest, owner=self._owner, types=("job",)):
                if self._closed:
                    return
                if isinstance(event.job, int) and isinstance(event.state, str):
                    self._look_patiently(event.job)
        except HeadnodeError as error:
            if not self._closed:
                self._failed(error)
        except BaseException as error:
            what = f"jobs are no longer followed: {error!r}"
            self._failed(Broken(code="follower", what=what, fix="report it"))
            raise

    def _look_patiently(self, number: int) -> None:
        """Look at a job; if the head has gone since its event, ask again as long as events are waited for.

        Raises:  Unavailable after the patience of the client.
        """
        patience = Patience(self._client.patience, None)
        while not self._closed:
            try:
                self._look(number)
            except Unavailable as away:
                pause(patience.pause_after(away))
            else:
                return

    def _look(self, number: int) -> None:
        """Ask for a job, and tell how it is if its state is another than the last that was told."""
        with self._looking:
            if number not in self._states:
                return
            job = self._client.job(number).show()
            if job.state == self._states[number]:
                return
            self._states[number] = job.state
            if job.state in FINAL:
                del self._states[number]
            self._changed(job)
