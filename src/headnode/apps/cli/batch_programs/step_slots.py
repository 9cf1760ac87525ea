"""What the steps of one task of a job take from each other: processors and GPUs, as locked files."""

import fcntl
import os

from headnode.adapters.files.opening import make_own_directory
from headnode.apps.cli.batch_programs.step_tasks import StepTask
from headnode.apps.cli.batch_programs.words import ProgramRefusal
from headnode.apps.client.local_addresses import user_state_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class StepSlots:
    """The processors or GPUs of a task of the job as locked files: a step holds those that its tasks have.

    A file is removed while it is locked, so that nothing is left behind; who then locks it sees that.
    """

    def __init__(self) -> None:
        self._folder = own_folder()
        self._held: dict[tuple[str, int], int] = {}

    def take_free(self, nodes: "Sequence[tuple[str, int]]") -> "list[tuple[str, int]]":
        """Take every processor that no other step has; return how many that are of each node."""
        return [(name, sum(self._take(name, number) for number in range(count))) for name, count in nodes]

    def take_all(self, name: str, count: int) -> "list[int]":
        """Take every GPU of a name that no other step has; return their numbers."""
        return [number for number in range(count) if self._take(name, number)]

    def held(self, name: str) -> "list[int]":
        """Return the numbers that are held of a name."""
        return sorted(number for each, number in self._held if each == name)

    def keep_only(self, wanted: "set[tuple[str, int]]") -> None:
        """Release what is not wanted."""
        for name, number in self._held.keys() - wanted:
            self._release(name, number)

    def _take(self, name: str, number: int) -> bool:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            file = os.open(file_name(f"{name}.{number}"), flags, 0o600, dir_fd=self._folder)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            if os.fstat(file).st_nlink:
                self._held[name, number] = file
                return True
            os.close(file)  # its step has ended since it was opened

    def keep(self, tasks: "Sequence[StepTask]", processors: int) -> None:
        """Release what these tasks do not need."""
        needed: dict[str, int] = {}
        for task in tasks:
            needed[task.node] = needed.get(task.node, 0) + processors
        for name, number in list(self._held):
            if needed.get(name, 0) > 0:
                needed[name] -= 1
            else:
                self._release(name, number)

    def _release(self, name: str, number: int) -> None:
        os.unlink(file_name(f"{name}.{number}"), dir_fd=self._folder)
        os.close(self._held.pop((name, number)))

    def release(self) -> None:
        """Release all processors."""
        for name, number in list(self._held):
            self._release(name, number)

    def close(self) -> None:
        """Release all processors, and forget them."""
        self.release()
        os.close(self._folder)


def own_folder() -> int:
    """Return a directory that only this user can write.

    Raises:  ProgramRefusal.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    home = runtime if os.path.isabs(runtime) else user_state_home(os.environ)  # noqa: PTH117
    path = os.path.join(home, "headnode", "steps")  # noqa: PTH118
    try:
        return make_own_directory(path)
    except OSError as trouble:
        raise ProgramRefusal(
            f"Unable to create step: {path} cannot be used: {trouble.strerror}",
            "set HOME or XDG_RUNTIME_DIR to a directory of yours",
        ) from None


def file_name(name: str) -> str:
    return f"{os.environ.get('HEADNODE_TASK', '0')}.{name}".replace("/", "_")
