"""One large file and 10,000 small ones that are brought to a task by HTTP, beside curl in the same run; and
a sweep, alone and beside 1,000 tasks whose files come.

The large file is brought by a task and by one `curl` in turns; the small ones by a task, by a `curl` for each
as a loop in a shell does it, and by one `curl` for all of them.  The server is the same.  Its files and those
that are brought are in memory: the disk is not measured.  What the tasks beside a sweep cost is the processor
time of the head until the end of the sweep: transfers and sweep share the machine.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from heads import Head, head, machine

LARGE = 5_000_000_000  # bytes; as large as the memory file system allows, else less
SMALL, SMALL_SIZE = 10_000, 2_000
TURNS = 3
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


@contextlib.contextmanager
def server(directory: Path) -> Iterator[str]:
    """Serve the files of a directory; give the address."""
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


def main() -> None:
    """Print the figures beside what was promised."""
    print(machine())
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        directory, work = Path(made, "files"), Path(made, "work")
        directory.mkdir()
        work.mkdir()
        room = os.statvfs(made)
        size = min(LARGE, room.f_bavail * room.f_frsize // 3)
        with (directory / "large").open("wb") as large:
            large.truncate(size)
        for number in range(SMALL):
            (directory / str(number)).write_bytes(bytes(SMALL_SIZE))
        with server(directory) as url, head(processors=2) as one:
            one.client.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
            large_file(one, work, url, size)
            small_files(one, work, url)
        with server(directory) as url, head(processors=STAGING + 2) as one:
            one.client.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
            beside_a_sweep(one, work, url)


def large_file(one: Head, work: Path, url: str, size: int) -> None:
    """Print how long one large file takes."""
    own, curls, target = [], [], work / "by-curl"
    by_curl = ["curl", "-sfo", str(target), f"{url}/large"]
    for _ in range(TURNS):
        own.append(brought(one, work, [{"path": "large", "url": f"{url}/large"}]))
        curls.append(seconds(lambda: subprocess.run(by_curl, check=True)))
        target.unlink()
    ours, theirs = statistics.median(own), statistics.median(curls)
    print(
        f"a file of {size / 1e9:.1f} GB: a task {ours:.2f} s, curl {theirs:.2f} s, "
        f"ratio {ours / theirs:.2f} (promised: 1.10)"
    )


def small_files(one: Head, work: Path, url: str) -> None:
    """Print how long many small files take."""
    files = [{"path": f"in/{number}", "url": f"{url}/{number}"} for number in range(SMALL)]
    ours = brought(one, work, files)
    loop = f"i=0; while [ $i -lt {SMALL} ]; do curl -sfo {work}/$i {url}/$i || exit 1; i=$((i+1)); done"
    each = seconds(lambda: subprocess.run(["sh", "-c", loop], check=True))
    together = seconds(
        lambda: subprocess.run(["curl", "-sf", "-o", f"{work}/#1", f"{url}/[0-{SMALL - 1}]"], check=True)
    )
    print(
        f"{SMALL:,} files of {SMALL_SIZE} bytes: a task {ours:.1f} s, a loop of curl {each:.1f} s, "
        f"one curl {together:.1f} s"
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
