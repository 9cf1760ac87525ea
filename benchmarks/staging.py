"""A large file and 10,000 small ones that are brought to a task, by each protocol, beside curl or sftp in the
same run; and a sweep, alone and beside 1,000 tasks whose files come.

The large file is brought by a task and by one `curl`, or `sftp`, in turns.  The small ones are brought by a
task, and the first 100 of them by a program for each, as a loop in a shell does it: the time of the loop is
that of 100 times 100.  The servers are the same: an HTTP server that uses sendfile (also that of S3, which is
read by GET), pyftpdlib, and OpenSSH.  Files are in memory: the disk is not measured.  What the tasks beside a
sweep cost is the processor time of the head until the end of the sweep: both share the machine.
As root, for sshd; credentials and a line of ~/.ssh/known_hosts are in the home directory meanwhile.
"""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from heads import Head, head, machine

LARGE = 5_000_000_000  # bytes; as large as the memory file system allows, else less
SMALL, SMALL_SIZE = 10_000, 2_000
TURNS = 3
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
FTPHandler.authorizer.add_anonymous(sys.argv[1])
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


def brought(one: Head, work: Path, files: list[dict[str, str]]) -> float:
    """Return the seconds from the submission of a task to its end, of which it uses none itself."""
    text = json.dumps({"command": "true", "stage_in": files, "work_directory": str(work)})
    begun = time.perf_counter()
    job = one.client.ask("submit_job", jobfile=text)["job"]
    while (state := one.client.ask("job", job=job)["job"]["state"]) not in ("Finished", "Failed"):
        time.sleep(0.01)
    spent = time.perf_counter() - begun
    if state != "Finished":
        raise SystemExit(one.client.ask("task", job=job, task=1)["task"]["message"])
    return spent


class Peer(NamedTuple):
    """A protocol: the URL of the files, the credential for it, and the program that a user would take."""

    url: str
    credential: str
    program: list[str]  # it is given the URL, or the path for sftp, and the file that is to be written


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
def peers(directory: Path, made: Path, http: str) -> Iterator[dict[str, Peer]]:
    """Run all servers for the files of a directory, and make the credentials for them."""
    folder = Path("~/.config/headnode/credentials").expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    curl, keys = ["curl", "-sf", "-o"], made / "keys"
    texts = {
        "bench-s3": f'hosts = ["bucket"]\naccess_key = "a"\nsecret_key = "b"\nendpoint = "{http}"\n',
        "bench-sftp": f'hosts = ["127.0.0.1"]\nuser = "root"\nkey_file = "{keys / "user"}"\n',
    }
    for name, text in texts.items():
        path = folder / f"{name}.toml"
        path.touch(0o600)
        path.write_text(text)
    try:
        with ftp_server(directory) as ftp, ssh_server(keys) as port:
            sftp = ["sftp", "-q", "-P", str(port), "-i", str(keys / "user")]
            yield {
                "http": Peer(f"{http}/bucket", "", curl),
                "s3": Peer("s3://bucket", "bench-s3", curl),
                "ftp": Peer(f"{ftp}/bucket", "", curl),
                "sftp": Peer(f"sftp://127.0.0.1:{port}{directory}/bucket", "bench-sftp", sftp),
                "file": Peer(f"file://{directory}/bucket", "", curl),
            }
    finally:
        for name in texts:
            (folder / f"{name}.toml").unlink()


def by_program(peer: Peer, http: str, directory: Path, name: str, target: Path) -> list[str]:
    """Return the command by which a user would bring a file."""
    if peer.program[0] == "sftp":
        return [*peer.program, f"root@127.0.0.1:{directory}/bucket/{name}", str(target)]
    url = f"{http}/bucket" if peer.url.startswith("s3:") else peer.url
    return [*peer.program, str(target), f"{url}/{name}"]


def main() -> None:
    """Print the figures beside what was promised."""
    print(machine())
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        directory, work = Path(made, "files"), Path(made, "work")
        bucket = directory / "bucket"
        bucket.mkdir(parents=True)
        work.mkdir()
        room = os.statvfs(made)
        size = min(LARGE, room.f_bavail * room.f_frsize // 3)
        with (bucket / "large").open("wb") as large:
            large.truncate(size)
        for number in range(SMALL):
            (bucket / str(number)).write_bytes(bytes(SMALL_SIZE))
        with server(directory) as url, head(processors=STAGING + 2) as one:
            one.client.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
            beside_a_sweep(one, work, url)
        with server(directory) as url, peers(directory, Path(made), url) as found, head(processors=2) as one:
            one.client.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
            for name, peer in found.items():
                command = partial(by_program, peer, url, directory)
                small_files(one, work, name, peer, command)
                large_file(one, work, name, peer, command, size)


Command = Callable[[str, Path], list[str]]


def large_file(one: Head, work: Path, name: str, peer: Peer, command: Command, size: int) -> None:
    """Print how long one large file takes."""
    own, theirs, target = [], [], work / "by-program"
    file = {"path": "large", "url": f"{peer.url}/large", "credential": peer.credential}
    by_hand = command("large", target)
    for _ in range(TURNS):
        own.append(brought(one, work, [file]))
        theirs.append(seconds(lambda: subprocess.run(by_hand, check=True, stdout=subprocess.DEVNULL)))
        target.unlink()
    ours, other = statistics.median(own), statistics.median(theirs)
    print(
        f"{name}: a file of {size / 1e9:.1f} GB: a task {ours:.2f} s, {by_hand[0]} {other:.2f} s, "
        f"ratio {ours / other:.2f} (promised: 1.10)",
        flush=True,
    )


def small_files(one: Head, work: Path, name: str, peer: Peer, command: Command) -> None:
    """Print how long many small files take."""
    files = [
        {"path": f"in/{number}", "url": f"{peer.url}/{number}", "credential": peer.credential}
        for number in range(SMALL)
    ]
    ours = brought(one, work, files)
    target = work / "by-program"
    begun = time.perf_counter()
    for number in range(LOOPED):
        subprocess.run(command(str(number), target), check=True, stdout=subprocess.DEVNULL)
    each = (time.perf_counter() - begun) / LOOPED * SMALL
    target.unlink()
    print(
        f"{name}: {SMALL:,} files of {SMALL_SIZE} bytes: a task {ours:.1f} s, "
        f"a loop of {command('', target)[0]} {each:.0f} s",
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
