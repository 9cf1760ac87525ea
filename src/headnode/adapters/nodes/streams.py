"""One side of a conversation with a launched command: in order, bounded, whole though messages be lost."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable

from headnode.adapters.nodes import messages as m
from headnode.adapters.processes.launcher import CHUNK

WINDOW = 8  # pieces that may be on their way
REPEAT = 2.0  # seconds until what was not taken is said again
SHOW_LIFE = 3.0  # seconds after which something is said to the other side, though there is nothing to say
_GONE = "its launcher has ended"
_LARGEST = 2 * CHUNK  # bytes of a piece that is believed

Say = Callable[[m.Launching], None]


class Stream:
    """What this side says, kept until it is taken; what the other side says, in order and once.

    The other side is only told that a piece is taken once it was dealt with: so nobody need keep more than
    a window of pieces, however slow the reader.
    """

    def __init__(self, say: Say, route: m.Route, back: bool) -> None:
        """`back`: this is the side of the command."""
        self.route, self.back = route, back
        self._say = say
        self._unheard: deque[tuple[int, m.Launch | m.LaunchPiece]] = deque()
        self._said = 0  # the number of the last piece said
        self._arrived, self._taken = 0, 0  # of the last piece that arrived, and that was dealt with
        self._pieces: asyncio.Queue[m.LaunchPiece] = asyncio.Queue()
        self._changed = asyncio.Event()
        now = asyncio.get_running_loop().time()
        self._spoke, self.heard = now, now
        self.failed = ""  # why no more will come
        self._last_kind = ""
        self.over = False  # the other side has said how the command ended

    def launch(self, message: m.Launch) -> None:
        """Say the first message of all."""
        self._unheard.append((0, message))
        self._tell(message)

    async def say(self, kind: str, data: bytes = b"", code: int = 0) -> None:
        """Say a piece once there is room, and who hears it knows of the launch."""
        while self._must_wait() and not self.failed:
            await self._change()
        self._said += 1
        piece = m.LaunchPiece(self.route, self.back, self._said, kind, data, code)  # type: ignore[arg-type]
        self._unheard.append((self._said, piece))
        self._tell(piece)

    def _must_wait(self) -> bool:
        """Whether too much is on its way, or the first message: who knows nothing of a launch ends it."""
        return len(self._unheard) >= WINDOW or (bool(self._unheard) and self._unheard[0][0] == 0)

    async def next(self) -> m.LaunchPiece:
        """Return the next piece, to be followed by `took`; one of kind ``failed`` when there are no more."""
        while self._pieces.empty() and not self.failed:
            await self._change()
        if not self._pieces.empty():
            piece = self._pieces.get_nowait()
            self._last_kind = piece.kind
            return piece
        return m.LaunchPiece(self.route, not self.back, 0, "failed", self.failed.encode())

    def took(self) -> None:
        """The last piece that `next` returned is dealt with."""
        self.over = self.over or self._last_kind == "exit"
        self._taken += 1
        self.acknowledge()

    def acknowledge(self) -> None:
        """Say what was dealt with."""
        self._tell(m.LaunchTaken(self.route, self.back, self._taken))

    async def all_heard(self) -> None:
        """Wait until the other side has taken all, or never will."""
        while self._unheard and not self.failed:
            await self._change()

    def fail(self, why: str) -> None:
        """Expect nothing more; `why` is a sentence."""
        self.failed = self.failed or why
        self._changed.set()

    async def until_failed(self) -> None:
        """Wait until there is nothing more to expect."""
        while not self.failed:
            await self._change()

    async def leave(self) -> None:
        """Say that this side goes: in order where that is soon heard, else out of order."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPEAT):
                await self.say("gone")
                await self.all_heard()
        if self._unheard and not self.failed:
            self._tell(m.LaunchPiece(self.route, self.back, 0, "failed", _GONE.encode()))
        self.fail(_GONE)

    def hear(self, message: m.LaunchPiece | m.LaunchTaken) -> None:
        """Take in what the other side says."""
        self.heard = asyncio.get_running_loop().time()
        if isinstance(message, m.LaunchTaken):
            while self._unheard and self._unheard[0][0] <= message.sequence:
                self._unheard.popleft()
        elif message.kind == "failed":
            self.fail(message.data.decode(errors="replace") or "the other side has disconnected")
        elif message.sequence <= self._taken:  # its acknowledgement was lost
            self.acknowledge()
        elif message.sequence == self._arrived + 1 and self._may_arrive(message):
            self._arrived += 1
            self._pieces.put_nowait(message)
        self._changed.set()

    def _may_arrive(self, piece: m.LaunchPiece) -> bool:
        return self._pieces.qsize() <= WINDOW and len(piece.data) <= _LARGEST

    def look(self, now: float) -> None:
        """Repeat what was not taken, and show that we live."""
        if self._unheard and now - self._spoke >= REPEAT:
            for _, message in self._unheard:
                self._tell(message)
        elif now - self._spoke >= SHOW_LIFE:
            self.acknowledge()

    def _tell(self, message: m.Launching) -> None:
        self._spoke = asyncio.get_running_loop().time()
        self._say(message)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def look_after(streams: Callable[[], Iterable[Stream]], lost_after: Callable[[], float]) -> None:
    """Repeat what was not taken, for ever; give up those of which nothing was heard for so long (seconds)."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(REPEAT / 2)
        for stream in list(streams()):
            stream.look(loop.time())
            if loop.time() - stream.heard > lost_after():
                stream.fail(f"the other node has sent nothing for {lost_after():.0f} s")
