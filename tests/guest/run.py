"""Run tests in a small virtual machine whose system has control groups of version 2 only.

The guest is a kernel of Debian and a few of its modules; its files are those of this machine, which it can
read and not change.  The processor is emulated, so that it runs anywhere, some twenty times slower, and
slower again where other programs want the processors of this machine: the clock of the guest does not stop
for them.  So tests wait long before they give up, but not for an agent that has ended.
The guest has a /tmp, /run and /dev of its own; a repository that lies there is shown to it all the same.
Usage:  run.py [argument of pytest ...]      Exit status: that of pytest; 0 also when no guest can be had.
"""

import gzip
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
KEPT = Path(os.environ.get("HEADNODE_GUEST", Path.home() / ".cache" / "headnode-guest"))
TESTS = (
    "tests/live/test_node_limits.py",
    "tests/live/test_delegated_groups.py",
    "tests/live/test_inherited_descriptors.py",
)
TIMEOUT = 4 * 3600  # seconds
TIMEOUT_OF_TESTS = 1800  # seconds for anything that must happen; starting an agent takes 9 to 19 alone
EMULATOR = "qemu-system-x86_64"
PACKAGES = {EMULATOR: "qemu-system-x86", "cpio": "cpio", "busybox": "busybox-static", "dpkg-deb": "dpkg"}
MODULES = (  # each after those that it needs; a kernel may have some of them built in
    *("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"),
    *("netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay"),
)
FIRST = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /host /made /all
/bin/busybox mount -t proc proc /proc
for module in {modules}; do
    [ ! -e /$module.ko ] || /bin/busybox insmod /$module.ko
done
/bin/busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose hostroot /host
/bin/busybox mount -t tmpfs tmpfs /made
/bin/busybox mkdir /made/files /made/work
/bin/busybox mount -t overlay -o lowerdir=/host,upperdir=/made/files,workdir=/made/work overlay /all
/bin/busybox mkdir /seen
/bin/busybox mount -o bind /all /seen
cd /all
/bin/busybox mount -t proc proc proc
/bin/busybox mount -t sysfs sysfs sys
/bin/busybox mount -t devtmpfs devtmpfs dev
/bin/busybox mkdir -p dev/pts dev/shm
/bin/busybox mount -t devpts devpts dev/pts
for place in dev/shm tmp run; do /bin/busybox mount -t tmpfs -o mode=1777 tmpfs $place; done
/bin/busybox mkdir -p /all{repository}
/bin/busybox mount -o bind /seen{repository} /all{repository}
/bin/busybox mount -t cgroup2 cgroup2 sys/fs/cgroup
/bin/busybox ip link set lo up
/bin/busybox hostname guest
/bin/busybox cp /inside run/inside
/bin/busybox chroot /all /bin/sh /run/inside
echo "the guest ends with $?"
/bin/busybox poweroff -f
"""


class NoGuest(Exception):
    """Why there can be no guest; a sentence and what to do."""


def main(arguments: list[str]) -> int:
    """Run pytest in the guest; return its exit status."""
    try:
        _check_programs()
        kernel = _kernel()
    except NoGuest as why:
        print(f"tests of control groups of version 2 are skipped: {why}")
        return 0
    _write_byte_code()
    first = _first_files(kernel, _inside(arguments or list(TESTS)))
    return _run(_only(kernel, "boot/vmlinuz-*"), first)


def _check_programs() -> None:
    missing = sorted({package for name, package in PACKAGES.items() if shutil.which(name) is None})
    if missing:
        raise NoGuest(f"packages are missing; as root: apt-get install {' '.join(missing)}")


def _write_byte_code() -> None:
    """Compile what the guest runs: it reads these directories and cannot write there.

    Without byte code each of its processes compiles all modules: an agent starts in 18 seconds, not in 9.
    """
    folders = [str(REPOSITORY / name) for name in ("src", "tests")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], check=True)


def _kernel() -> Path:
    """Return the directory of an unpacked kernel, which is fetched once.

    Raises:  NoGuest.
    """
    unpacked = KEPT / "kernel"
    if unpacked.exists():
        return unpacked
    KEPT.mkdir(parents=True, exist_ok=True)
    try:
        asked = _output("apt-cache", "depends", "linux-image-amd64")
        name = next(
            word for word in asked.split() if word.startswith("linux-image-6") or "-amd64" in word[12:]
        )
        print(f"fetching {name} into {KEPT} ...", flush=True)
        _output("apt-get", "download", name)
        half = KEPT / "half"
        shutil.rmtree(half, ignore_errors=True)
        _output("dpkg-deb", "-x", str(_only(KEPT, f"{name}_*.deb")), str(half))
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        raise NoGuest(f"no kernel can be fetched ({error}); apt-get update, and try again") from None
    half.rename(unpacked)
    return unpacked


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=KEPT).stdout


def _only(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.glob(pattern))))


def _inside(arguments: list[str]) -> str:
    """Return what runs in the guest."""
    options = [
        "-vv",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "--basetemp=/tmp/tests",
        "--timeout=0",
        *arguments,
    ]
    command = [sys.executable, "-m", "pytest", *options]
    return "\n".join(
        (
            f"export HOME={shlex.quote(str(Path.home()))} PATH={shlex.quote(os.environ['PATH'])}",
            f"export PYTHONDONTWRITEBYTECODE=1 HEADNODE_TEST_PATIENCE={TIMEOUT_OF_TESTS}",
            f"cd {shlex.quote(str(REPOSITORY))}",
            f"exec {shlex.join(command)}",
            "",
        )
    )


def _first_files(kernel: Path, inside: str) -> Path:
    """Make what the guest starts from; return the archive."""
    root = KEPT / "first"
    shutil.rmtree(root, ignore_errors=True)
    (root / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "busybox", root / "bin" / "busybox")
    for name in MODULES:
        for file in kernel.glob(f"**/{name}.ko*"):
            data = file.read_bytes()
            (root / f"{name}.ko").write_bytes(lzma.decompress(data) if file.suffix == ".xz" else data)
    (root / "init").write_text(
        FIRST.format(modules=" ".join(MODULES), repository=shlex.quote(str(REPOSITORY)))
    )
    (root / "init").chmod(0o755)
    (root / "inside").write_text(inside)
    names = "\n".join(str(file.relative_to(root)) for file in sorted(root.rglob("*")))
    packed = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        input=names.encode(),
        cwd=root,
        check=True,
        capture_output=True,
    )
    archive = KEPT / "first.gz"
    archive.write_bytes(gzip.compress(packed.stdout))
    return archive


def _run(kernel: Path, first: Path) -> int:
    """Start the guest, show what it says, and return how it ended."""
    command = [
        *(EMULATOR, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048"),
        *("-nographic", "-no-reboot", "-nic", "none", "-kernel", str(kernel), "-initrd", str(first)),
        "-virtfs",
        "local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap",
        *("-append", "console=ttyS0 quiet panic=-1"),
    ]
    shown = b""
    with subprocess.Popen(
        ["timeout", str(TIMEOUT), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as guest:
        assert guest.stdout is not None
        while more := os.read(guest.stdout.fileno(), 4096):  # dots come one by one
            os.write(sys.stdout.fileno(), more)
            shown = (shown + more)[-4096:]
    found = re.findall(rb"the guest ends with (\d+)", shown)
    return int(found[-1]) if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
