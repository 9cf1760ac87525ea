"""Large files that are brought and taken away, and many small ones, by each protocol, beside curl or sftp.

A large file is brought or taken by a task and by one `curl`, or `sftp`, in turns.  The 10,000 small ones
are brought by a task, and the first 100 of them by a program for each, as a loop in a shell does it: the time
of the loop is that of 100 times 100.  A sweep is measured alone and beside 1,000 tasks whose files come.

The servers are the same: an HTTP server that uses sendfile, pyftpdlib, OpenSSH, and moto for S3, which keeps
objects in memory: its files are of 1 GB at most.  Files are in memory: the disk is not measured.  What the
tasks beside a sweep cost is the processor time of the head until its end: both share the machine.
As root, for sshd; credentials and a line of ~/.ssh/known_hosts are in the home directory meanwhile.

    .venv/bin/python benchmarks/staging.py --protocols ftp,sftp --down 5 --up 1 --small 0 --no-sweep

`--processor-time` runs the transfer process alone, without a head, and compares its processor time with that
of the program: that is what a busy machine can tell.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.own_python import module_command
from heads import Head, head, machine

DOWN, UP = 5.0, 5.0  # GB; as large as the memory file system allows, else less
MAX_OBJECT = 1.0  # GB, of S3
SMALL, SMALL_SIZE = 10_000, 2_000
TURNS = 3
PROTOCOLS = ("http", "s3", "ftp", "sftp", "file")
LOOPED = 100  # of the small files, by a program for each
STAGING = 1_000  # tasks beside a sweep
SWEEP = 2_000  # instances of it
MEMORY = Path("/dev/shm")

SERVER = """
import http.server, os, sys, time
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def do_GET(self):
        if self.path != "/endless":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "1000000000000")
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(10000))
                time.sleep(0.5)
        except OSError:
            self.close_connection = True
    def do_PUT(self):
        left, room = int(self.headers["Content-Length"]), memoryview(bytearray(1 << 20))
        with open(self.translate_path(self.path), "wb", buffering=0) as target:
            while left:
                length = self.rfile.readinto1(room[: min(left, len(room))])
                if not length:
                    self.close_connection = True
                    return
                target.write(room[:length])
                left -= length
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
    def copyfile(self, source, _):
        self.wfile.flush()
        at, size = 0, os.fstat(source.fileno()).st_size
        while at < size:
            at += os.sendfile(self.connection.fileno(), source.fileno(), at, size - at)
os.chdir(sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


FTP_SERVER = """
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_anonymous(sys.argv[1], perm="elradfmwMT")
server = FTPServer(("127.0.0.1", 0), FTPHandler)
print(server.address[1], flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def server(directory: Path) -> Iterator[str]:
    """Serve the files of a directory by HTTP; give the address."""
    command = [sys.executable, "-I", "-c", SERVER, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def staged(one: Head, work: Path, **files: object) -> float:
    """Return the seconds from the submission of a task to its end, of which it uses none itself."""
    text = json.dumps({"command": "true", "work_directory": str(work), **files})
    begun = time.perf_counter()
    job = one.client.ask("submit_job", jobfile=text)["job"]
    while (state := one.client.ask("job", job=job)["job"]["state"]) not in ("Finished", "Failed"):
        time.sleep(0.01)
    spent = time.perf_counter() - begun
    if state != "Finished":
        raise SystemExit(one.client.ask("task", job=job, task=1)["task"]["message"])
    return spent


def moved_alone(work: Path, direction: str, file: dict[str, str]) -> float:
    """Return the processor time of the transfer process for a file, in seconds."""
    order = {
        **{"directory": str(work), "token": "bench", "home": str(Path.home()), "files": [file]},
        **{"attempts": 1, "timeout": 60, "networks": ["127.0.0.0/8"], "at_once": 1, "direction": direction},
    }
    told = os.memfd_create("order")
    os.write(told, json.dumps(order).encode())
    os.lseek(told, 0, os.SEEK_SET)
    command = module_command("headnode.adapters.staging")
    shell = ["/bin/bash", "-c", f'exec "$@" 3<&{told}', "bash", *command]

    def run() -> None:
        with subprocess.Popen(
            shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(told,), text=True
        ) as process:
            assert process.stdout is not None
            last = list(process.stdout)[-1]
            if "done" not in last:
                raise SystemExit(last)

    used = processor_seconds(run)
    os.close(told)
    return used


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of the children that something starts and waits for, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Peer(NamedTuple):
    """A protocol: the URL of the files, the credential for it, and the program that a user would take."""

    url: str
    credential: str
    web: str  # the URL for curl; of SFTP the host and directory for sftp
    program: list[str]

    def fetching(self, name: str, target: Path) -> list[str]:
        """Return the command by which a user brings a file."""
        if self.program[0] == "sftp":
            return [*self.program, f"{self.web}/{name}", str(target)]
        return ["curl", "-sf", "-o", str(target), f"{self.web}/{name}"]

    def storing(self, source: Path, name: str) -> list[str]:
        """Return the command by which a user takes a file away."""
        if self.program[0] == "sftp":
            host, _, folder = self.web.partition(":")
            put = f"echo put {source} {folder}/{name} | {' '.join(self.program)} -b - {host}"
            return ["sh", "-c", put]
        return ["curl", "-sf", "-T", str(source), f"{self.web}/{name}"]


@contextlib.contextmanager
def ftp_server(directory: Path) -> Iterator[str]:
    """Serve the files of a directory by FTP; give the address."""
    command = [sys.executable, "-c", FTP_SERVER, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"ftp://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


@contextlib.contextmanager
def ssh_server(keys: Path) -> Iterator[int]:
    """Run an sshd that knows one key of the user, who knows it; give its port."""
    keys.mkdir()
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)]
        subprocess.run(command, check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        **{"Port": port, "ListenAddress": "127.0.0.1", "HostKey": keys / "host", "PidFile": "none"},
        **{"AuthorizedKeysFile": keys / "user.pub", "StrictModes": "no", "UsePAM": "no"},
        **{"PermitRootLogin": "yes", "Subsystem": "sftp internal-sftp", "MaxStartups": "100"},
    }
    (keys / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    known = Path("~/.ssh/known_hosts").expanduser()
    known.parent.mkdir(mode=0o700, exist_ok=True)
    before = known.read_text() if known.exists() else ""
    host = " ".join((keys / "host.pub").read_text().split()[:2])
    command = ["/usr/sbin/sshd", "-D", "-f", str(keys / "config")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            known.write_text(f"{before}[127.0.0.1]:{port} {host}\n")
            yield port
        finally:
            process.terminate()
            known.write_text(before)


@contextlib.contextmanager
def s3_server(bucket: Path) -> Iterator[str]:
    """Run moto with the small files and a large one of a directory; give its address."""
    code = "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "Running on" in line)
            threading.Thread(target=process.stderr.read, daemon=True).start()
            url = line.rpartition("http://")[2].split()[0]
            for path in (Path(), *(each.relative_to(bucket) for each in sorted(bucket.iterdir()))):
                source = (
                    ["-T", str(bucket / path), "-H", "x-amz-acl: public-read"] if path.name else ["-X", "PUT"]
                )
                command = ["curl", "-sf", *source, f"http://{url}/bucket/{path if path.name else ''}"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            yield f"http://{url}"
        finally:
            process.terminate()


@contextlib.contextmanager
def peer_of(name: str, directory: Path, made: Path) -> Iterator[Peer]:
    """Run the server of a protocol for the files of a directory, and make the credential for it."""
    with contextlib.ExitStack() as stack:
        if name == "http":
            web = stack.enter_context(server(directory))
            yield Peer(f"{web}/bucket", "", f"{web}/bucket", ["curl"])
        elif name == "ftp":
            web = stack.enter_context(ftp_server(directory))
            yield Peer(f"{web}/bucket", "", f"{web}/bucket", ["curl"])
        elif name == "file":
            yield Peer(f"file://{directory}/bucket", "", f"file://{directory}/bucket", ["curl"])
        elif name == "s3":
            web = stack.enter_context(s3_server(directory / "bucket"))
            text = f'hosts = ["bucket"]\naccess_key = "a"\nsecret_key = "b"\nendpoint = "{web}"\n'
            stack.enter_context(credential("bench-s3", text))
            yield Peer("s3://bucket", "bench-s3", f"{web}/bucket", ["curl"])
        else:
            port, key = stack.enter_context(ssh_server(made / "keys")), made / "keys" / "user"
            text = f'hosts = ["127.0.0.1"]\nuser = "root"\nkey_file = "{key}"\n'
            stack.enter_context(credential("bench-sftp", text))
            program = ["sftp", "-q", "-P", str(port), "-i", str(key)]
            url = f"sftp://127.0.0.1:{port}{directory}/bucket"
            yield Peer(url, "bench-sftp", f"root@127.0.0.1:{directory}/bucket", program)


@contextlib.contextmanager
def credential(name: str, text: str) -> Iterator[None]:
    """Have a credential in the home directory."""
    path = Path(f"~/.config/headnode/credentials/{name}.toml").expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(text)
    try:
        yield
    finally:
        path.unlink()


def options() -> argparse.Namespace:
    """Return what is to be measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--protocols", default=",".join(PROTOCOLS), help="names, with commas")
    parser.add_argument("--down", type=float, default=DOWN, help="GB that are brought; 0: none")
    parser.add_argument("--up", type=float, default=UP, help="GB that are taken away; 0: none")
    parser.add_argument("--small", type=int, default=SMALL, help="small files; 0: none")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--no-sweep", action="store_true")
    parser.add_argument("--processor-time", action="store_true")
    return parser.parse_args()


def sized(path: Path, gigabytes: float, room: Path) -> int:
    """Make a file of so many GB, or what a third of the memory file system allows; return its bytes."""
    free = os.statvfs(room)
    size = min(int(gigabytes * 1e9), free.f_bavail * free.f_frsize // 3)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return size


def main() -> None:
    """Print the figures beside what was promised."""
    asked = options()
    print(machine())
    with tempfile.TemporaryDirectory(dir=MEMORY) as made, head(processors=2) as one:
        if not asked.no_sweep:
            with server(Path(made)) as url, head(processors=STAGING + 2) as many:
                many.client.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
                beside_a_sweep(many, Path(made), url)
        one.client.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
        for name in filter(None, asked.protocols.split(",")):
            of_protocol(one, name, Path(made, name), asked)


def of_protocol(one: Head, name: str, made: Path, asked: argparse.Namespace) -> None:
    """Print the figures of a protocol."""
    directory, work = made / "files", made / "work"
    bucket = directory / "bucket"
    bucket.mkdir(parents=True)
    work.mkdir()
    most = MAX_OBJECT if name == "s3" else 1e9
    size = sized(bucket / "large", min(asked.down, most), made) if asked.down else 0
    for number in range(asked.small):
        (bucket / str(number)).write_bytes(bytes(SMALL_SIZE))
    with peer_of(name, directory, made) as peer:
        if size:
            large_file(one, work, name, peer, asked, size)
        (bucket / "large").unlink(missing_ok=True)
        if asked.up:
            size = sized(work / "result", min(asked.up, most), made)
            result(one, work, name, peer, asked, size, bucket / "result")
            (work / "result").unlink()
        if asked.small and not asked.processor_time:
            small_files(one, work, name, peer, asked.small)
    shutil.rmtree(made)


def large_file(one: Head, work: Path, name: str, peer: Peer, asked: argparse.Namespace, size: int) -> None:
    """Print how long one large file takes that is brought."""
    file = {"path": "large", "url": f"{peer.url}/large", "credential": peer.credential}
    command = peer.fetching("large", work / "by-program")

    def ours() -> float:
        if not asked.processor_time:
            return staged(one, work, stage_in=[file])
        spent = moved_alone(work, "in", file)
        (work / "large").unlink()
        return spent

    compared(name, "is brought", ours, command, asked, size, work / "by-program")


def result(
    one: Head, work: Path, name: str, peer: Peer, asked: argparse.Namespace, size: int, stored: Path
) -> None:
    """Print how long one large file takes that is taken away; the server has it as `stored`."""
    file = {"path": str(work / "result"), "url": f"{peer.url}/result", "credential": peer.credential}

    def ours() -> float:
        if asked.processor_time:
            return moved_alone(work, "out", file)
        return staged(one, work, stage_out=[file])

    compared(name, "is taken away", ours, peer.storing(work / "result", "result"), asked, size, stored)


def compared(
    name: str,
    way: str,
    ours: Callable[[], float],
    by_hand: list[str],
    asked: argparse.Namespace,
    size: int,
    made: Path,
) -> None:
    """Print the medians of a task and of a program, in turns.

    A virtual machine gets memory that it has not used lately slowly: the first turn does not count.  What was
    `made` is removed each time: a program that writes over a file has its memory at once.
    """
    measure = processor_seconds if asked.processor_time else seconds
    own, theirs = [], []
    for _ in range(asked.turns + 1):
        own.append(ours())
        made.unlink(missing_ok=True)
        theirs.append(measure(lambda: subprocess.run(by_hand, check=True, stdout=subprocess.DEVNULL)))
        made.unlink(missing_ok=True)
    mine, other = statistics.median(own[1:]), statistics.median(theirs[1:])
    what, program = ("processor time of the transfer", "curl or sftp")
    what = what if asked.processor_time else "a task"
    print(
        f"{name}: a file of {size / 1e9:.1f} GB {way}: {what} {mine:.2f} s, {program} {other:.2f} s, "
        f"ratio {mine / other:.2f} (promised: 1.10)",
        flush=True,
    )


def small_files(one: Head, work: Path, name: str, peer: Peer, count: int) -> None:
    """Print how long many small files take."""
    files = [
        {"path": f"in/{number}", "url": f"{peer.url}/{number}", "credential": peer.credential}
        for number in range(count)
    ]
    ours = staged(one, work, stage_in=files)
    target, looped = work / "by-program", min(LOOPED, count)
    begun = time.perf_counter()
    for number in range(looped):
        subprocess.run(peer.fetching(str(number), target), check=True, stdout=subprocess.DEVNULL)
    each = (time.perf_counter() - begun) / looped * count
    target.unlink()
    print(
        f"{name}: {count:,} files of {SMALL_SIZE} bytes are brought: a task {ours:.1f} s, a loop of "
        f"{peer.program[0]} {each:.0f} s ({looped} of them measured, times {count // looped})",
        flush=True,
    )


def processor_time(one: Head) -> float:
    """Return the processor time that the head has used, in seconds."""
    fields = Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def swept(one: Head) -> tuple[float, float]:
    """Return the seconds that a sweep takes, and the head's processor time in microseconds for a task."""
    before, begun = processor_time(one), time.perf_counter()
    terms = {"numprocessors": "2"}
    tasks = [{"command": "/bin/true", "parametric": f"1-{SWEEP}"}]
    job = one.client.ask("submit_job", tasks=tasks, terms=terms)["job"]
    for answer in one.client.follow("watch_jobs", job=job):
        if answer["done"] and answer["jobs"][0]["state"] != "Finished":
            raise SystemExit("the sweep failed")
    return time.perf_counter() - begun, (processor_time(one) - before) / SWEEP * 1e6


def staging_job(one: Head, work: Path, url: str) -> int:
    """Return a job of which 1,000 tasks are staging."""
    tasks = [{"command": "true", "parametric": f"1-{STAGING}", "stagein": f"{url}/endless=x"}]
    tasks[0]["workdir"] = str(work)
    terms = {"numprocessors": str(STAGING)}
    job: int = one.client.ask("submit_job", tasks=tasks, terms=terms)["job"]
    while not one.client.ask("task", job=job, task=1)["task"]["message"].startswith(
        "0 of 1 files are brought"
    ):
        time.sleep(0.1)
    return job


def beside_a_sweep(one: Head, work: Path, url: str) -> None:
    """Print what a sweep costs the head, alone and beside tasks that are staging, in turns."""
    swept(one)
    alone, beside = [], []
    for _ in range(TURNS):
        alone.append(swept(one))
        job = staging_job(one, work, url)
        beside.append(swept(one))
        one.client.ask("cancel_job", job=job)
        for answer in one.client.follow("watch_jobs", job=job):
            if answer["done"]:
                break
    (time_alone, cost_alone), (time_beside, cost_beside) = (
        (statistics.median(each[0] for each in found), statistics.median(each[1] for each in found))
        for found in (alone, beside)
    )
    print(
        f"a sweep of {SWEEP:,}: alone {cost_alone:.0f} us of the head for a task ({time_alone:.1f} s), "
        f"beside {STAGING:,} tasks that are staging {cost_beside:.0f} us ({time_beside:.1f} s), "
        f"ratio {cost_beside / cost_alone:.2f} (promised: 1.05)"
    )


if __name__ == "__main__":
    main()
