"""A server that speaks as OpenPBS or as Torque, with defects of both, and its qsub, qstat, qdel and others.

No PBS can be installed where the tests run.  This knows what manuals and issues say of one, and no more.
Run it with the directory of the site and the name of the program; it imports nothing of Headnode.

Source:  OpenPBS, qsub(1B), qstat(1B), pbs_error.h, issues 2041, 2672, 2677; Torque 6, qstat(1).
"""

import fcntl
import getopt
import json
import os
import pwd
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

KILL_DELAY = 2.0  # seconds from SIGTERM to SIGKILL
OPTIONS = {
    "qsub": "S:j:o:r:m:q:A:l:N:v:",
    "qstat": "fxF:",
    "qhold": "h:",
    "qrls": "h:",
    "qalter": "l:",
    "qdel": "",
    "qsig": "s:",
}


def fail(program, complaint, status):
    print(f"{program}: {complaint}", file=sys.stderr)
    raise SystemExit(status)


class Site:
    """The jobs of a server, each in a file."""

    def __init__(self, directory):
        self.directory = directory
        self.settings = json.loads((directory / "site.json").read_text())
        self.speaks_torque = self.settings["speaks"] == "torque"

    @contextmanager
    def locked(self):
        with (self.directory / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def jobs(self, *, ended=False):
        folders = ("live", "ended") if ended else ("live",)
        found = [
            json.loads(path.read_text())
            for name in folders
            for path in (self.directory / name).glob("*.json")
        ]
        return sorted(found, key=lambda job: job["number"])

    def keep(self, job):
        is_over = job["state"] in "FC"
        path = self.directory / ("ended" if is_over else "live") / f"{job['number']}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(job))
        new.rename(path)
        if is_over:
            (self.directory / "live" / path.name).unlink(missing_ok=True)

    def end(self, job, status):
        job["state"], job["status"] = "C" if self.speaks_torque else "F", status
        self.keep(job)

    def id_of(self, job):
        return f"{job['number']}.head"


# What a user types.


def qsub(site, options, words):
    name, settings = options.get("-N", "STDIN"), site.settings
    if len(name) > settings["longest_name"]:
        print("qsub: illegal -N value\nusage: qsub [-a date_time] ...", file=sys.stderr)
        raise SystemExit(2)
    if options.get("-q", "workq") not in settings["queues"]:
        fail("qsub", "Unknown queue", 170)
    wanted = dict(each.split("=", 1) for each in options.get("-l", "").split(",") if "=" in each)
    with site.locked():
        counter = site.directory / "counter"
        number = int(counter.read_text()) + 1
        counter.write_text(str(number))
        job = {
            "number": number, "name": name, "owner": pwd.getpwuid(os.geteuid()).pw_name, "state": "Q",
            "held": False, "deleted": False, "limits": wanted, "directory": str(Path.cwd()), "status": None,
            "script": Path(words[0]).read_text(),
            "log": options.get("-o", "log"), "pid": 0, "started": 0,
            "variables": dict(each.split("=", 1) for each in options.get("-v", "").split(",") if each),
        }  # fmt: skip
        site.keep(job)
    print(site.id_of(job))


def chosen(site, words):
    """Return the jobs with these ids, and the ids that are unknown."""
    known = {site.id_of(job): job for job in site.jobs(ended=True)}
    return [known[word] for word in words if word in known], [word for word in words if word not in known]


def change(site, program, words, do):
    status = 0
    with site.locked():
        found, unknown = chosen(site, words)
        for job in found:
            if job["state"] in "FC":
                print(f"{program}: Job has finished {site.id_of(job)}", file=sys.stderr)
                status = 35
            else:
                do(job)
                site.keep(job)
        for word in unknown:
            print(f"{program}: Unknown Job Id {word}", file=sys.stderr)
            status = 153
    raise SystemExit(status)


def qdel(site, options, words):
    change(site, "qdel", words, lambda job: job.update(deleted=True))


def hold(site, program, words, held):
    def do(job):
        job["held"] = held
        if job["state"] in "QH":
            job["state"] = "H" if held else "Q"

    change(site, program, words, do)


def qhold(site, options, words):
    hold(site, "qhold", words, held=True)


def qrls(site, options, words):
    hold(site, "qrls", words, held=False)


def qalter(site, options, words):
    name, _, value = options["-l"].partition("=")
    change(site, "qalter", words, lambda job: job["limits"].update({name: value}))


def qsig(site, options, words):
    def do(job):
        if job["state"] != "R":
            fail("qsig", f"Request invalid for state of job {site.id_of(job)}", 168)
        os.killpg(job["pid"], int(options["-s"]))

    change(site, "qsig", words, do)


def cells_of(site, job):
    """Return what is known of a job, under the names of qstat."""
    found = {
        "Job_Name": job["name"], "Job_Owner": f"{job['owner']}@head", "job_state": job["state"],
        "queue": "workq",
        "Hold_Types": "u" if job["held"] else "n", "Priority": 0, "Resource_List": job["limits"],
        "Variable_List": {"PBS_O_HOME": "/", **job["variables"], "A": "HERE"},
    }  # fmt: skip
    if job["state"] == "Q":
        found["comment"] = "Not Running: Insufficient amount of resource: ncpus"
    if job["status"] is not None:
        found["exit_status" if site.speaks_torque else "Exit_status"] = job["status"]
        found["resources_used"] = {"cput": "00:00:01", "mem": "4504kb"}
    return found


def qstat(site, options, words):
    if site.speaks_torque and "-F" in options:
        print("qstat: invalid option -- 'F'\nusage: qstat ...", file=sys.stderr)
        raise SystemExit(2)
    settings, history = site.settings, "-x" in options
    if history and not site.speaks_torque and not settings["history"]:
        fail("qstat", "PBS is not configured to maintain job history", 36)
    ended = history or site.speaks_torque
    with site.locked():
        found = chosen(site, words)[0] if words else site.jobs(ended=ended and settings["history"])
        unknown = chosen(site, words)[1]
    if site.speaks_torque and history:
        print_xml(site, found)
    elif "-F" in options:
        print_json(site, found[:1] if words else found)  # issue 2672
    else:
        print_text(site, found)
    for word in unknown:
        print(f"qstat: Unknown Job Id {word}", file=sys.stderr)
    raise SystemExit(153 if unknown else 0)


def print_json(site, jobs):
    head = {"timestamp": 1, "pbs_version": "22.05.11", "pbs_server": "head"}
    listed = {site.id_of(job): cells_of(site, job) for job in jobs}
    text = json.dumps(head | ({"Jobs": listed} if listed else {}), indent=4, separators=(",", ":"))
    defect = random.choice(site.settings["defects"] or [""])
    print(
        text.replace(
            '"HERE"', {"escapes": '"it\\\'s\\, so"', "quotes": '"say "so", then"'}.get(defect, '"HERE"')
        )
    )


def print_xml(site, jobs):
    if not jobs:
        return
    rows = []
    for job in jobs:
        cells = cells_of(site, job)
        cells["Variable_List"] = ",".join(f"{name}={value}" for name, value in cells["Variable_List"].items())
        inner = "".join(
            f"<{name}>{''.join(f'<{k}>{v}</{k}>' for k, v in value.items())}</{name}>"
            if isinstance(value, dict)
            else f"<{name}>{value}</{name}>"
            for name, value in cells.items()
        )
        rows.append(f"<Job><Job_Id>{site.id_of(job)}</Job_Id>{inner}</Job>")
    print(f"<Data>{''.join(rows)}</Data>")


def print_text(site, jobs):
    for job in jobs:
        cells = cells_of(site, job)
        variables = ",".join(f"{name}={value}" for name, value in cells.pop("Variable_List").items())
        print(f"Job Id: {site.id_of(job)}")
        for name, value in cells.items():
            pairs = (
                [(f"{name}.{k}", v) for k, v in value.items()] if isinstance(value, dict) else [(name, value)]
            )
            for each, found in pairs:
                print(f"    {each} = {found}")
        print(f"    Variable_List = {variables[:60]}" + (f"\n\t{variables[60:]}" if variables[60:] else ""))
        print()


# The server.


class Server:
    """Starts jobs as there is room, and notes how they end."""

    def __init__(self, site):
        self.site, self.running, self.killed = site, {}, {}

    def serve(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        (self.site.directory / "ready").touch()
        try:
            while True:
                with self.site.locked():
                    for job in self.site.jobs():
                        self.look(job)
                time.sleep(0.05)
        finally:
            for process in self.running.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def look(self, job):
        process = self.running.get(job["number"])
        if process is None:
            if job["deleted"]:
                self.site.end(job, 271 if self.site.speaks_torque else None)
            elif job["state"] == "Q" and len(self.running) < self.site.settings["slots"]:
                self.start(job)
            return
        status = process.poll()
        if status is not None:
            del self.running[job["number"]]
            self.site.end(job, self.status_of(job, status))
        elif job["deleted"] or time.time() - job["started"] > seconds(job["limits"].get("walltime", "")):
            self.kill(job, process)

    def start(self, job):
        script = self.site.directory / "spool" / f"{job['number']}.SC"
        script.write_text(job["script"])
        home = pwd.getpwuid(os.geteuid()).pw_dir
        variables = {"PBS_JOBID": self.site.id_of(job), "PBS_O_WORKDIR": job["directory"], "HOME": home}
        variables |= {"PATH": "/usr/bin:/bin", "PBS_NODEFILE": "/dev/null", **job["variables"]}
        with (Path(job["directory"]) / job["log"]).open("ab") as log:
            self.running[job["number"]] = subprocess.Popen(
                ["/bin/sh", str(script)], cwd="/", env=variables, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        job["state"], job["started"], job["pid"] = "R", time.time(), self.running[job["number"]].pid
        self.site.keep(job)

    def kill(self, job, process):
        is_first = job["number"] not in self.killed
        began, _ = self.killed.setdefault(job["number"], (time.monotonic(), job["deleted"]))
        late = time.monotonic() - began > KILL_DELAY
        if is_first or late:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL if late else signal.SIGTERM)

    def status_of(self, job, status):
        if job["number"] not in self.killed:
            return status if status >= 0 else 256 - status
        if self.killed[job["number"]][1]:
            return 271
        return -11 if self.site.speaks_torque else -29


def seconds(text):
    found = 0
    for part in text.split(":") if text else ["1000000"]:
        found = found * 60 + int(part)
    return found


def main():
    directory, program, *words = sys.argv[1:]
    site = Site(Path(directory))
    if program == "server":
        Server(site).serve()
        return
    try:
        pairs, rest = getopt.getopt(words, OPTIONS[program])
    except getopt.GetoptError as error:
        fail(program, f"{error}\nusage: {program} ...", 2)
    if (site.directory / "away").exists():
        if "-F" in dict(pairs) and not site.speaks_torque:
            print(json.dumps({"timestamp": 1, "pbs_version": "22.05.11", "pbs_server": "head"}))
        print("Connection refused", file=sys.stderr)
        fail(program, "cannot connect to server head (errno=15010)", 255)
    globals()[program](site, dict(pairs), rest)


if __name__ == "__main__":
    main()
