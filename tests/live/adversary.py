"""Somebody who does everything that can be done to jobs, in no order: jobs of every kind, every verb."""

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import ticking

from headnode.core.model.errors import Refused, Unavailable
from heads import RealHead

FAR = "far"  # a feature that only the last node has
OPEN_FILES = 77  # a resource limit
MAX_WAITING = 10  # jobs
HOLDS = ("user", "data")
WAYS_TO_WAIT = ("parents", "after_failure", "after_exit", "after_start")


class Adversary:
    """Asks one thing after the other; `acknowledged` are the jobs that the head said it had."""

    def __init__(self, head: RealHead, folder: Path, seed: str) -> None:
        self.head = head
        self.random = random.Random(seed)
        self.tracks, self.work = folder / "tracks", folder / "work"
        self.program = folder / "ticker.py"
        self.program.write_text(ticking.PROGRAM)
        self.tracks.mkdir()
        self.work.mkdir()
        self.acknowledged: list[int] = []
        self.done: Counter[str] = Counter()  # verbs that had their way
        self.refused: Counter[str] = Counter()
        self._groups = 0

    def act(self) -> None:
        """Do one thing, right or wrong; the head may be away."""
        verbs = [self.let_be] * 12 + [self.submit] * 5 + [self.suspend] * 3 + [self.resume] * 3 + [
            self.submit_group, self.submit_terms, self.create, self.submit_created, self.hold, self.release,
            self.cancel, self.finish, self.requeue, self.modify, self.add, self.cancel_task, self.cancel_task,
            self.requeue_task, self.requeue_task, self.stop_group, self.clone,
        ]  # fmt: skip
        verb = self.random.choice(verbs)
        try:
            verb()
            self.done[verb.__name__] += 1
        except Refused as refusal:
            self.refused[f"{verb.__name__}: {refusal.code}"] += 1
        except Unavailable:
            time.sleep(0.02)

    def let_be(self) -> None:
        time.sleep(0.05)

    def submit(self) -> None:
        self._await_room()
        self._noted(self.head.ask("submit_job", jobfile=json.dumps(self._spec()), dialect="native"))

    def submit_terms(self) -> None:
        self._await_room()
        terms = {"suspendable": "true", "priority": self._any("BelowNormal", "Normal", "Highest")}
        if self._rarely():
            terms["license"] = "solver:1"
        task = {"command": self._command(), "rerunnable": self._any("true", "false")}
        if self._rarely():
            task["parametric"] = f"1-{self.random.randint(1, 5)}"
        self._noted(self.head.ask("submit_job", tasks=[task], terms=terms))

    def submit_group(self) -> None:
        self._await_room()
        self._groups += 1
        jobs: list[dict[str, Any]] = []
        for number in range(self.random.randint(2, 4)):
            job = self._spec(simple=True) | {"name": f"job-{number}"}
            if jobs:
                job[self._any(*WAYS_TO_WAIT)] = [self.random.choice(jobs)["name"]]
            jobs.append(job)
        described = {"job_group": f"group-{self._groups}", "jobs": jobs}
        self._noted(self.head.ask("submit_job", jobfile=json.dumps(described), dialect="native"))

    def create(self) -> None:
        self._await_room()
        self._noted(self.head.ask("create_job", jobfile=json.dumps(self._spec()), dialect="native"))

    def submit_created(self) -> None:
        self._noted(self.head.ask("submit_job", job=self._job("configuring")))

    def clone(self) -> None:
        self._await_room()
        self._noted(self.head.ask("clone_job", job=self._job()))

    def suspend(self) -> None:
        self.head.ask("suspend_job", job=self._job("running"))

    def resume(self) -> None:
        self.head.ask("resume_job", job=self._job("suspended", "running"))

    def hold(self) -> None:
        job, name = self._job("queued", "suspended", "running"), self._any(*HOLDS)
        self.head.ask("hold_job", job=job, name=name, requeue=self._rarely())

    def release(self) -> None:
        self.head.ask("release_job", job=self._job("queued", "suspended"), name=self._any(*HOLDS))

    def cancel(self) -> None:
        self.head.ask("cancel_job", job=self._job("active"), force=self._rarely(), graceful=self._rarely())

    def finish(self) -> None:
        self.head.ask("finish_job", job=self._job("active"), force=self._rarely(), graceful=self._rarely())

    def requeue(self) -> None:
        self.head.ask("requeue_job", job=self._job())

    def modify(self) -> None:
        terms = self._any(
            {"priority": "Highest"},
            {"priority": "Lowest"},
            {"suspendable": "false"},
            {"suspendable": "true"},
            {"runtime": "0:01"},
            {"name": "changed"},
            {"exclusive": "true"},
        )
        job = self._job("active") if self.random.random() < 0.9 else self._job()
        self.head.ask("modify_job", job=job, terms=terms)

    def add(self) -> None:
        self.head.ask("add_tasks", job=self._job("active"), tasks=[{"command": self._command()}])

    def cancel_task(self) -> None:
        self.head.ask("cancel_task", job=self._job("running"), **self._task(), force=self._rarely())

    def requeue_task(self) -> None:
        self.head.ask("requeue_task", job=self._job("running", "suspended"), **self._task())

    def stop_group(self) -> None:
        verb = self._any("cancel_group", "finish_group")
        self.head.ask(verb, group=f"group-{self.random.randint(1, max(1, self._groups))}")

    def let_all_end(self) -> list[int]:
        """Take away whatever keeps jobs from ending; return those that are not over."""
        left = self.head.ask("jobs", states=["active", "configuring"], limit=1000)["jobs"]
        over = {"Finished", "Failed", "Canceled"}
        for short in left:
            job = short["id"]
            try:
                if short["state"] == "Configuring":
                    self.head.ask("cancel_job", job=job)
                    continue
                shown = self.head.ask("job", job=job)["job"]
                if shown["holds"]:
                    self.head.ask("release_job", job=job, all=True)
                if shown["state_detail"] in ("suspending", "suspended"):
                    self.head.ask("resume_job", job=job)
                if any(task["kind"] == "service" for task in self.head.ask("tasks", job=job)["tasks"]):
                    self.head.ask("finish_job", job=job)  # it would go on for ever
                reasons = self.head.ask("explain_job", job=job)["reasons"]
                if any(reason["kind"] == "never-fits" for reason in reasons):
                    self.head.ask(
                        "cancel_job", job=job
                    )  # a gang has got more tasks than there are processors
                if any(d["status"] == "open" and d["state"] in over for d in shown["dependencies"]):
                    self.head.ask("cancel_job", job=job)
            except Refused:
                continue  # it has moved on meanwhile
        return [short["id"] for short in left]

    def _await_room(self) -> None:
        if int(self.head.ask("cluster")["cluster"]["jobs"].get("Queued", 0)) > MAX_WAITING:
            raise Refused(code="enough", what="enough jobs wait")

    def _noted(self, answer: dict[str, Any]) -> None:
        self.acknowledged += answer.get("jobs", [answer["job"]])

    def _any(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def _rarely(self) -> bool:
        return self.random.random() < 0.2

    def _job(self, *states: str) -> int:
        found = self.head.ask("jobs", states=list(states), limit=30)["jobs"]
        if not found:
            raise Refused(code="no-job", what="there is no such job")
        return int(self.random.choice(found)["id"])

    def _task(self) -> dict[str, int]:
        one = {"task": self.random.randint(1, 2)}
        return one | ({"instance": self.random.randint(1, 3)} if self.random.random() < 0.3 else {})

    def _command(self, least: int = 5) -> str:
        ticks = self.random.choice((least, least + 20, least + 60, least + 150))
        manners = [manner for manner in ("deaf", "child") if self.random.random() < 0.15]
        code = 3 if self._rarely() else 0
        return ticking.command(self.program, self.tracks, ticks, code, *manners)

    def _spec(self, *, simple: bool = False) -> dict[str, Any]:
        """Return a job in the native form."""
        kinds = (self._plain, self._sweep, self._flow) if simple else (
            self._plain, self._sweep, self._flow, self._gang, self._gang, self._alternatives, self._spread,
            self._limited, self._private, self._prepared, self._prepared, self._service,
        )  # fmt: skip
        job: dict[str, Any] = self._any(*kinds)()
        job["suspendable"] = self.random.random() < 0.8
        job["run_time"] = self._any("5m", "20s", "20s", "2s")
        rerunnable = self.random.random() < 0.5
        for task in job["tasks"]:
            if "type" not in task:
                task["rerunnable"] = rerunnable
        for wish in self.random.sample(self._requests(), self._any(0, 0, 1, 1, 2)):
            job |= wish
        return job

    def _requests(self) -> list[dict[str, Any]]:
        now = time.time()
        return [
            {"licences": {"solver": self._any(1, 2)}},
            {"end_by": now + self.random.uniform(2, 15)},
            {"holds": self._any(["user"], ["data"], ["user", "data"])},
            {"hold_until": now + self.random.uniform(0.2, 2)},
            {self._any(*WAYS_TO_WAIT): self.random.sample(self.acknowledged[-8:], 1)}
            if self.acknowledged
            else {},
            {"priority": self._any(1000, 2500, 3000)},
            {"exclusive": True},
            {"task_retry_limit": 1},
            {"fail_on_task_failure": True},
            {"features": [FAR]},
        ]

    def _plain(self) -> dict[str, Any]:
        return {"tasks": [{"command": self._command(), "processors": self._any(1, 1, 2)}]}

    def _sweep(self) -> dict[str, Any]:
        last = self.random.randint(1, 6)
        return {"tasks": [{"command": self._command(), "sweep": f"1-{last}"}]}

    def _flow(self) -> dict[str, Any]:
        first = {"name": "first", "command": self._command()}
        return {"tasks": [first, {"command": self._command(), "depends_on": ["first"]}]}

    def _gang(self) -> dict[str, Any]:
        tasks: list[dict[str, Any]] = [{"command": self._command(100)} for _ in range(self._any(2, 2, 3))]
        if self._rarely():
            tasks[0]["sweep"] = "1-2"
        if self._rarely():
            tasks[-1]["features"] = [FAR]
        return {"together": True, "tasks": tasks}

    def _alternatives(self) -> dict[str, Any]:
        others = [{"tasks": [{"processors": 2}]}, {"run_time": "10s", "tasks": [{"processors": 1}]}]
        return {"tasks": [{"command": self._command(), "processors": 4}], "alternatives": others}

    def _spread(self) -> dict[str, Any]:
        distribution = self._any({"nodes": 2}, {"per_node": 1}, {"geometry": [[1], [2]]})
        task = {"command": self._command(), "processors": 2, "distribution": distribution}
        return {"tasks": [task]}

    def _prepared(self) -> dict[str, Any]:
        first = {"type": "node-prep", "command": self._command()}
        last = {"type": "node-release", "command": self._command()}
        return {"tasks": [first, last, {"command": self._command(), "sweep": "1-4"}]}

    def _service(self) -> dict[str, Any]:
        service = {"type": "service", "command": self._command()}
        return {"processors": "1-2", "tasks": [{"type": "node-prep", "command": self._command()}, service]}

    def _limited(self) -> dict[str, Any]:
        return {"resource_limits": {"nofile": OPEN_FILES}, "tasks": [{"command": self._command()}]}

    def _private(self) -> dict[str, Any]:
        task = {"command": self._command(), "private_directory": True, "work_directory": str(self.work)}
        return {"tasks": [task, {**task, "sweep": "1-3"}]}
