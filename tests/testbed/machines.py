"""Several machines on one: network namespaces with names, processes and power of their own."""

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

TIMEOUT = 20.0  # seconds for anything that must happen
HOSTS = "hosts"  # in the directory of a network: the names that its machines know each other by
_TOOLS = ("ip", "unshare", "nsenter", "mount")
_INIT = (
    "import signal,subprocess,sys\n"
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"  # orphans must not stay as zombies
    "while True: signal.pause()\n"
)


def obstacle() -> str:
    """Return why no machines can be made here, in words; empty when they can."""
    if os.geteuid() != 0:
        return "machines of their own need root"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"machines of their own need {', '.join(missing)} (Debian: iproute2, util-linux, mount)"
    probe = subprocess.run(
        ["unshare", "--net", "--pid", "--uts", "--fork", "true"], capture_output=True, check=False
    )
    return "" if probe.returncode == 0 else f"namespaces cannot be made: {probe.stderr.decode().strip()}"


class Machine:
    """One machine: `power_on` gives it a first process, in which all others live."""

    def __init__(self, name: str, address: str, namespace: str, cable: str, directory: Path) -> None:
        self.name, self.address, self.directory = name, address, directory
        self._namespace, self._cable = namespace, cable
        self._power: subprocess.Popen[bytes] | None = None
        self._first = 0  # number of its first process, as seen from outside
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def is_on(self) -> bool:
        """Whether it has power."""
        return self._power is not None and self._power.poll() is None

    def power_on(self) -> None:
        """Boot: a name, a process table and a boot id of its own."""
        boot_id = self.directory / "boot_id"
        boot_id.write_text(f"{uuid.uuid4()}\n")
        script = (
            f'hostname {self.name} && mount --bind "{boot_id}" /proc/sys/kernel/random/boot_id && '
            f'mount --bind "{self.directory.parent / HOSTS}" /etc/hosts && mount -t tmpfs tmpfs /run && '
            'exec python3 -I -S -c "$0"'
        )
        words = ["ip", "netns", "exec", self._namespace, "unshare", "--uts", "--ipc", "--pid", "--mount"]
        words += ["--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", script, _INIT]
        self._power = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        self._first = self._wait_for_first()
        self.heal()

    def _wait_for_first(self) -> int:
        """Return the number of the first process, once it is ready to be joined by others."""
        power = self._power
        assert power is not None
        children = Path(f"/proc/{power.pid}/task/{power.pid}/children")
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if power.poll() is not None:
                raise RuntimeError(f"machine {self.name} did not boot: status {power.returncode}")
            numbers = children.read_text().split() if children.exists() else []
            if numbers and Path(f"/proc/{numbers[0]}/comm").read_text().startswith("python"):
                return int(numbers[0])
            time.sleep(0.005)
        raise TimeoutError(f"machine {self.name} did not boot in {TIMEOUT:.0f} s")

    def start(self, command: Sequence[str], log: Path | None = None) -> "subprocess.Popen[bytes]":
        """Start a program there; what it says goes to `log`."""
        words = ["nsenter", f"--target={self._first}", "--all", "--", *command]
        with (log or Path(os.devnull)).open("ab") as output:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Run a program there and wait for its end."""
        words = ["nsenter", f"--target={self._first}", "--all", "--", *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def processes(self, containing: str) -> list[int]:
        """Return the processes there whose command line contains a text, by their numbers outside."""
        inside = Path(f"/proc/{self._first}/ns/pid").readlink()
        return [number for number in _everybody() if _is_one(number, inside, containing)]

    def power_off(self) -> None:
        """Take its power away: everything there dies at once, and says nothing."""
        if self.is_on:
            self.cut()  # or the kernel would say goodbye to its peers
        if self._power is not None:
            self._power.kill()
            self._power.wait()
            self._power = None
        deadline = time.monotonic() + TIMEOUT
        while _lives(self._first) and time.monotonic() < deadline:
            time.sleep(0.002)

    def cut(self) -> None:
        """Pull its cable."""
        _ip("link", "set", self._cable, "down")

    def heal(self) -> None:
        """Put its cable back."""
        _ip("link", "set", self._cable, "up")


class Network:
    """A bridge, where the one who made it has an address, too."""

    def __init__(self, directory: Path) -> None:
        number = os.getpid()
        self._mark = f"hn{number:x}"
        self._net = f"10.{64 + number % 64}.{number // 64 % 256}"
        self._directory = directory
        self._made = ExitStack()
        self.address = f"{self._net}.1"
        self.machines: dict[str, Machine] = {}

    def open(self) -> None:
        """Make the bridge."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / HOSTS).write_text("127.0.0.1 localhost\n", encoding="utf-8")
        bridge = f"{self._mark}b"
        _ip("link", "add", bridge, "type", "bridge")
        self._made.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{self.address}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")

    def add(self, name: str) -> Machine:
        """Make a machine and boot it."""
        number = len(self.machines) + 2
        namespace, cable, end = f"{self._mark}n{number}", f"{self._mark}v{number}", f"{self._mark}e{number}"
        address = f"{self._net}.{number}"
        _ip("netns", "add", namespace)
        self._made.callback(_ip, "netns", "del", namespace)
        _ip("link", "add", cable, "type", "veth", "peer", "name", end, "netns", namespace)
        self._made.callback(_ip, "link", "del", cable)
        _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", end)
        _ip("-n", namespace, "link", "set", end, "up")
        _ip("link", "set", cable, "master", f"{self._mark}b", "up")
        self._note(name, address)
        machine = Machine(name, address, namespace, cable, self._directory / name)
        self.machines[name] = machine
        self._made.callback(machine.power_off)
        machine.power_on()
        return machine

    def _note(self, name: str, address: str) -> None:
        """Let all machines, also those that are there already, know this one by its name."""
        with (self._directory / HOSTS).open("a", encoding="utf-8") as hosts:
            hosts.write(f"{address} {name}\n")

    def close(self) -> None:
        """Take everything away, in the order in which nothing stays behind."""
        self._made.close()


@contextmanager
def network(directory: Path, names: Sequence[str]) -> Iterator[Network]:
    """Make machines of these names, and take them away afterwards.

    Raises:  RuntimeError when they cannot be made; `obstacle` says why before.
    """
    made = Network(directory)
    try:
        made.open()
        for name in names:
            made.add(name)
        yield made
    finally:
        made.close()


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _everybody() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            yield int(entry.name)


def _lives(number: int) -> bool:
    """Whether a process is more than a zombie; the first of a machine is one when all others are dead."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _is_one(number: int, inside: Path, containing: str) -> bool:
    try:
        here = Path(f"/proc/{number}/ns/pid").readlink() == inside
        words = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:  # it has ended meanwhile
        return False
    return here and containing.encode() in words
