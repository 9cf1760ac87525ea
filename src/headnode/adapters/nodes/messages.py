"""What the head and an agent say to each other: msgpack, each message behind its length (4 bytes).

The agent dials.  Its first message is `Hello` with the full table of what it has; the head answers `Welcome`
and then whatever puts the two tables right.  Results are repeated until acknowledged, so losing a
connection, an agent or a head loses none.
"""

from typing import Literal

import msgspec

from headnode.core.lifecycle.events import Place
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds

PROTOCOL = 1
LARGEST_MESSAGE = 64 * 1024 * 1024  # bytes


class Message(msgspec.Struct, tag=True, frozen=True, array_like=False, omit_defaults=True, gc=False):
    """Anything said."""


class Live(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt that the agent has and that is not over."""

    job: JobId
    task: int
    instance: int
    attempt: int
    running: bool


class Hello(Message, frozen=True):
    """Agent: who I am and all I have.

    `open_jobs` are the jobs that have a shepherd here.  `ended` are the attempts that are over and whose
    results were not acknowledged yet: they follow.  What is in neither table is not here and never will be.
    """

    protocol: int
    facts: NodeFacts
    open_jobs: tuple[JobId, ...] = ()
    live: tuple[Live, ...] = ()
    ended: tuple[Live, ...] = ()


class Begun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt began to run."""

    task: int
    instance: int
    attempt: int
    at: Instant


class Started(Message, frozen=True):
    """Agent: these began to run.  Said once; a result tells the start again."""

    job: JobId
    begun: tuple[Begun, ...]


class Result(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one attempt ended.

    kind: ``exited``       the program ended by itself: `exit_code` or `signal` says how
          ``timed-out``    its run time limit was over and it was killed
          ``stopped``      it was killed because the head asked
          ``not-started``  it could not be started; `message` says why and what to do
          ``never-ran``    it was taken back before it started
          ``lost``         its shepherd died; nobody knows how it ended, but it does not run any more
    Times in seconds, `peak_memory` in kB.
    """

    task: int
    instance: int
    attempt: int
    kind: Literal["exited", "timed-out", "stopped", "not-started", "never-ran", "lost"]
    exit_code: int | None = None
    signal: int | None = None
    started: Instant | None = None
    ended: Instant | None = None
    user_time: Seconds = Seconds(0.0)
    system_time: Seconds = Seconds(0.0)
    peak_memory: int = 0
    message: str = ""


class Results(Message, frozen=True):
    """Agent: these are over.  Repeated on each connection until `Ack` names the number."""

    number: int
    job: JobId
    results: tuple[Result, ...]


class JobClosed(Message, frozen=True):
    """Agent: nothing of the job is left here."""

    job: JobId


class Heartbeat(Message, frozen=True):
    """Agent: I live.  Sent when nothing else was for a while."""


class Welcome(Message, frozen=True):
    """Head: you are known.  `heartbeat` in seconds, `grace` between asking a task to end and killing it."""

    cluster: str
    heartbeat: Seconds
    grace: Seconds
    state_directory: str = ""  # of the head, when its tasks may reach it there


class OpenJob(Message, frozen=True):
    """Head: run this job's tasks as this user.  Repeated when the allocation changes.

    `spec` is an encoded JobSpec; `deadline` is when the job's run time limit is over.
    """

    job: JobId
    owner: str
    uid: int
    gid: int
    spec: bytes
    allocation: Place
    deadline: Instant
    previous_job: JobId | None = None


class Run(Message, frozen=True):
    """Head: run these instances of a task at the place, one after the other.

    `attempts` holds (instance, attempt).  An attempt that is here already is left alone.
    """

    job: JobId
    task: int
    place: Place
    attempts: tuple[tuple[int, int], ...]


class Stop(Message, frozen=True):
    """Head: stop these (task, instance, attempt); the ones not yet started are given back.

    `force`: kill at once, without grace.
    """

    job: JobId
    attempts: tuple[tuple[int, int, int], ...]
    force: bool = False


class CloseJob(Message, frozen=True):
    """Head: the job is over here: kill whatever is left of it and forget it; answer `JobClosed`."""

    job: JobId


class Ack(Message, frozen=True):
    """Head: the results with this number are durable; forget them."""

    number: int


class Goodbye(Message, frozen=True):
    """Head: end yourself; `cancel`: only after everything here was killed."""

    reason: str = ""


FromAgent = Hello | Started | Results | JobClosed | Heartbeat
FromHead = Welcome | OpenJob | Run | Stop | CloseJob | Ack | Goodbye
