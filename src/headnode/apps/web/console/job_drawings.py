"""The drawings on the page of a job: its tasks with what they wait for, and its times.

Tasks are in columns from left to right, with lines between them.  Times are the phases of the history of the
job, and what lies ahead.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headnode.apps.readable_values import duration
from headnode.apps.web.console.visit import HeadAnswer, Model

MAX_BOXES: Final = 200
MAX_LINES: Final = 600
BOX_WIDTH: Final = 150.0
BOX_HEIGHT: Final = 30.0
BETWEEN_COLUMNS: Final = 48.0
BETWEEN_ROWS: Final = 12.0
_ORDER: Final = ("failed", "running", "queued", "configuring", "canceled", "finished")


class TaskBox(NamedTuple):
    """Tasks of one name: a line to it means all of them.  A task without a name is alone."""

    key: str
    numbers: tuple[int, ...]  # the first one is 1
    waits_for: tuple[str, ...]  # keys

    @property
    def label(self) -> str:
        """What is written in the box."""
        name = self.key if not self.key.startswith("\0") else f"Task {self.numbers[0]}"
        return name if len(self.numbers) == 1 else f"{name} ×{len(self.numbers)}"


def boxes_of(tasks: Sequence[HeadAnswer]) -> dict[str, TaskBox]:
    """Return the boxes of a job's tasks by their keys; names that no task has are left out."""
    numbers: dict[str, list[int]] = defaultdict(list)
    waits: dict[str, dict[str, None]] = defaultdict(dict)
    for number, task in enumerate(tasks, start=1):
        key = task.get("name") or f"\0{number}"
        numbers[key].append(number)
        waits[key] |= dict.fromkeys(task.get("depends_on") or ())
    return {
        key: TaskBox(
            key, tuple(matches), tuple(name for name in waits[key] if name in numbers and name != key)
        )
        for key, matches in numbers.items()
    }


def columns_of(boxes: Mapping[str, TaskBox]) -> dict[str, int]:
    """Return the column of each box: one more than the farthest that it waits for."""
    waiting = {key: len(box.waits_for) for key, box in boxes.items()}
    after: dict[str, list[str]] = defaultdict(list)
    for key, box in boxes.items():
        for name in box.waits_for:
            after[name].append(key)
    columns = dict.fromkeys(boxes, 0)
    ready = [key for key, count in waiting.items() if not count]
    for key in ready:  # grows as it is read
        for following in after[key]:
            columns[following] = max(columns[following], columns[key] + 1)
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    return columns


def task_graph(tasks: Sequence[HeadAnswer], states: Mapping[int, str]) -> Model | None:
    """Return the drawing of tasks of which some depend on others; None for others.

    `states` of tasks by number, in lower case.  Of many boxes and lines the first are drawn.
    """
    boxes = boxes_of(tasks)
    if not any(box.waits_for for box in boxes.values()):
        return None
    columns = columns_of(boxes)
    drawn = sorted(boxes, key=lambda key: (columns[key], boxes[key].numbers[0]))[:MAX_BOXES]
    places = _places(drawn, boxes, columns)
    lines = [
        _line(places[name], places[key]) for key in drawn for name in boxes[key].waits_for if name in places
    ]
    return {
        "width": max(x for x, _ in places.values()) + BOX_WIDTH + 2,
        "height": max(y for _, y in places.values()) + BOX_HEIGHT + 2,
        "box_width": BOX_WIDTH,
        "box_height": BOX_HEIGHT,
        "boxes": [
            {
                "label": boxes[key].label,
                "task": boxes[key].numbers[0],
                "state": _state(boxes[key], states),
                "x": places[key][0],
                "y": places[key][1],
                "waits_for": [boxes[name].label for name in boxes[key].waits_for],
            }
            for key in drawn
        ],
        "lines": lines[:MAX_LINES],
        "cut": len(boxes) - len(drawn),
    }


def _places(
    drawn: Iterable[str], boxes: Mapping[str, TaskBox], columns: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """Return where each box is: in its column near those that it waits for, so that few lines cross."""
    by_column: dict[int, list[str]] = defaultdict(list)
    for key in drawn:
        by_column[columns[key]].append(key)
    tallest = max(map(len, by_column.values()))
    row_of: dict[str, float] = {}
    for column in sorted(by_column):
        keys = by_column[column]

        def middle(key: str) -> float:
            rows = [row_of[name] for name in boxes[key].waits_for if name in row_of]
            return sum(rows) / len(rows) if rows else 0.0

        begin = (tallest - len(keys)) / 2
        for row, key in enumerate(sorted(keys, key=middle)):
            row_of[key] = begin + row
    return {
        key: (
            1 + columns[key] * (BOX_WIDTH + BETWEEN_COLUMNS),
            round(1 + row * (BOX_HEIGHT + BETWEEN_ROWS), 1),
        )
        for key, row in row_of.items()
    }


def _line(begin: tuple[float, float], end: tuple[float, float]) -> str:
    """Return the path from the right side of a box to the left side of another."""
    x, y = begin[0] + BOX_WIDTH, begin[1] + BOX_HEIGHT / 2
    to_x, to_y = end[0], end[1] + BOX_HEIGHT / 2
    bend = (to_x - x) / 2
    return f"M{x:.0f} {y:.1f}C{x + bend:.0f} {y:.1f} {to_x - bend:.0f} {to_y:.1f} {to_x:.0f} {to_y:.1f}"


def _state(box: TaskBox, states: Mapping[int, str]) -> str:
    """Return the state of a box: a failure in it, or else what goes on."""
    counts = Counter(states.get(number, "queued") for number in box.numbers)
    return next((state for state in _ORDER if counts[state]), "queued")


TIMES_WIDTH: Final = 640.0
_PHASES: Final = (
    ("Created", "set-up", "being created"),
    ("Given", "", ""),
    ("Reconfigured", "set-up", "being created"),
    ("Submitted", "waited", "waiting"),
    ("Passed", "waited", "waiting"),
    ("Validated", "waited", "waiting"),
    ("Hold", "held", "held"),
    ("Started on", "ran", "running"),
    ("Suspended", "held", "suspended"),
    ("Resumed on", "ran", "running"),
    ("Back in the queue", "waited", "waiting"),
    ("Requeued", "waited", "waiting"),
    ("Job Finished", "over", ""),
    ("Job Failed", "over", ""),
    ("Job Canceled", "over", ""),
)
"""How a sentence of the history begins -> the kind of the phase that begins with it, and its words."""


class Phase(NamedTuple):
    """A part of a job's life; `until` may lie ahead.  Times in seconds since 1970."""

    kind: str
    words: str
    since: float
    until: float


def timeline(job: HeadAnswer, now: float, history: Iterable[HeadAnswer] = ()) -> Model | None:
    """Return the drawing of a job's times; None before it was submitted.

    Its parts are in the order of time, each with its share of the width.  Without a history they are taken
    from the times of the job.
    """
    begun, submitted, ended = job["created"], job["submitted"], job["ended"]
    if submitted is None or (ended or now) <= begun:
        return None
    phases = [*(list(_history_phases(job, now, history)) or _from_times(job, now)), *_ahead(job, now)]
    scale = TIMES_WIDTH / (phases[-1].until - begun)
    return {
        "parts": [
            {
                "kind": kind,
                "words": f"{title}: {duration(until - since)}",
                "since": since,
                "x": round((since - begun) * scale, 2),
                "width": round((until - since) * scale, 2),
            }
            for kind, title, since, until in phases
            if until > since
        ],
        "now": None if ended else round((now - begun) * scale, 2),
        "points": [
            (name, at)
            for name, at in (
                ("created", begun),
                ("submitted", submitted),
                ("started", job["started"]),
                ("ended", ended),
            )
            if at is not None
        ],
    }


def _history_phases(job: HeadAnswer, now: float, history: Iterable[HeadAnswer]) -> Iterator[Phase]:
    """Yield the phases that a history tells of."""
    kind, title, since = "", "", 0.0
    for entry in history:
        following = next(
            ((to, name) for begins, to, name in _PHASES if to and entry["text"].startswith(begins)), None
        )
        if entry["text"].startswith("Hold") and "released by" in entry["text"]:
            following = ("waited", "waiting") if kind == "held" else None
        if following is None or following == (kind, title) or (following[0] == "held" and kind == "set-up"):
            continue
        if kind and kind != "over":
            yield Phase(kind, title, since, entry["at"])
        (kind, title), since = following, entry["at"]
    if kind and kind != "over":
        yield Phase(kind, title, since, job["ended"] or now)


def _from_times(job: HeadAnswer, now: float) -> list[Phase]:
    begun, submitted, started, ended = job["created"], job["submitted"], job["started"], job["ended"]
    last = ended or now
    phases = [
        Phase("set-up", "being created", begun, submitted),
        Phase("waited", "waiting", submitted, started or last),
    ]
    return [*phases, Phase("ran", "running", started, last)] if started else phases


def _ahead(job: HeadAnswer, now: float) -> list[Phase]:
    """Return what is expected of a job that is not over."""
    if job["ended"]:
        return []
    started = job["started"] if job["state"] == "Running" else None
    limit = started + job["run_time"] if started and job["run_time"] else None
    end = limit if started else (job.get("expected") or {}).get("p50")
    if end is None or end <= now:
        return []
    return [Phase("ahead", "until its time limit" if started else "until its expected start", now, end)]
