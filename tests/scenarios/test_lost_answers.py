"""A client whose answer is lost asks again with the same key: each request is carried out once."""

import json
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_scripted_head import hn

from headnode.adapters.wire.frame_codec import frame
from headnode.apps.client.client import Client
from headnode.core.model.errors import BadRequest, Unavailable

SUBMISSIONS = 30
FRAME = 4  # bytes of a length


class Thief:
    """Stands between clients and a head; takes away some answers and hangs up."""

    def __init__(self, directory: Path, head: Path, seed: int) -> None:
        directory.mkdir()
        self.directory, self._head = directory, head
        self._dice = random.Random(seed)
        self.stolen = 0
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(directory / "head.sock"))
        self._door.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as head:
            head.connect(str(self._head))
            while request := whole(client):
                head.sendall(request)
                answer = whole(head)
                if self._dice.random() < 0.4:
                    self.stolen += 1
                    return
                client.sendall(answer)

    def close(self) -> None:
        self._door.close()


def whole(stream: socket.socket) -> bytes:
    """Return the next frame with its length; nothing at the end."""
    header = stream.recv(FRAME, socket.MSG_WAITALL)
    if len(header) < FRAME:
        return b""
    return header + stream.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)


@pytest.fixture
def thief(state: Path, tmp_path: Path) -> Iterator[Thief]:
    made = Thief(tmp_path / "thief", state / "head.sock", seed=3)
    yield made
    made.close()


def jobs_of(client: Client) -> list[int]:
    return [job["id"] for job in client.ask("jobs", limit=1000)["jobs"]]


def test_no_submission_is_doubled_when_answers_are_lost(thief: Thief, state: Path) -> None:
    honest, robbed = Client(str(state)), Client(str(thief.directory))
    before = len(jobs_of(honest))
    hold = {"hold": "later"}
    made = []
    for number in range(SUBMISSIONS):
        task = {"command": f"/bin/true {number}"}
        made.append(robbed.ask("submit_job", tasks=[task], terms=hold)["job"])
        copy = robbed.ask("clone_job", job=made[0])["job"]
        added = robbed.ask("add_tasks", job=copy, tasks=[task])
        assert added["tasks"] == [2]
        made.append(copy)
    assert thief.stolen > SUBMISSIONS / 2
    assert len(set(made)) == 2 * SUBMISSIONS
    assert len(jobs_of(honest)) - before == 2 * SUBMISSIONS
    robbed.close()
    honest.close()


def test_scripts_may_choose_the_key_and_another_request_with_it_is_refused(state: Path) -> None:
    words = ("job", "submit", "--idempotency-key", "nightly-1", "/bin/true")
    first, again = (hn(*words, state=state) for _ in range(2))
    assert first.returncode == again.returncode == 0
    assert first.stdout == again.stdout
    other = hn(*words[:-1], "/bin/false", state=state)
    assert other.returncode == 2
    assert "was used for another request" in other.stderr


def test_a_created_job_is_changed_and_submitted_with_one_key(state: Path) -> None:
    client = Client(str(state))
    job = client.ask("create_job", tasks=[{"command": "/bin/true"}])["job"]
    first, again = (
        client.ask(
            "submit_job", job=job, terms={"name": "nightly", "hold": "later"}, idempotency=f"job {job}"
        )
        for _ in range(2)
    )
    assert (first["job"], first.get("repeated")) == (job, None)
    assert (again["job"], again["repeated"]) == (job, True)
    assert client.ask("job", job=job)["job"]["name"] == "nightly"
    client.close()


@pytest.mark.parametrize(
    ("verb", "key"), [("cancel_job", "k"), ("submit_job", ""), ("submit_job", "x" * 65), ("submit_job", 7)]
)
def test_keys_that_are_none_are_refused(state: Path, verb: str, key: object) -> None:
    client = Client(str(state))
    with pytest.raises(BadRequest) as refused:
        client.ask(verb, job=1, idempotency=key)
    assert refused.value.code in ("idempotency", "field")
    client.close()


def test_a_client_that_is_refused_before_it_is_read_tells_why(tmp_path: Path) -> None:
    refusal = {"ok": False, "code": "too-many-connections", "class": "busy", "what": "w", "fix": "f"}
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "head.sock"))
        door.listen()

        def refuse() -> None:
            with door.accept()[0] as client:
                client.sendall(frame(json.dumps({**refusal, "exit_status": 1, "path": []}).encode()))

        threading.Thread(target=refuse, daemon=True).start()
        client = Client(str(tmp_path))
        with pytest.raises(Unavailable) as refused:
            client.ask("ping", much="x" * 4_000_000)  # more than the socket holds
        client.close()
    assert refused.value.code == "too-many-connections"
