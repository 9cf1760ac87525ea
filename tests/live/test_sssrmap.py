"""SSSRMAP peers at a real head: what they ask for happens, as the user they name, and nothing else."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sssrmap_peers import ACTOR, KEY, ROOT, RealListener, listener_with_head, real_listener

from headnode.adapters.wire.sssrmap import request_frame
from headnode.core.formats.sss.sssrmap.messages import RmapResponse, canonical, envelope, text_of
from headnode.core.formats.sss.sssrmap.signatures import SHA256, signature_of
from heads import TIMEOUT, RealHead

WIRE = Path(__file__).parents[3] / "shared" / "samples" / "sss" / "wire"
SLEEP = "<Executable>/bin/sleep</Executable><Arguments>60</Arguments>"


@pytest.fixture(scope="module")
def peer() -> Iterator[RealListener]:
    with listener_with_head(processors=4) as found:
        yield found


@pytest.fixture(scope="module")
def head(peer: RealListener) -> RealHead:
    return peer.head


def job(inside: str = SLEEP, name: str = "x") -> str:
    return (
        f"<Data><Job><JobId>{name}</JobId>{inside}<Requested><Processors>1</Processors>"
        "<WallDuration>600</WallDuration></Requested></Job></Data>"
    )


def named(*jobs: int, inside: str = "") -> str:
    return "<Data>" + "".join(f"<Job><JobId>{one}</JobId>{inside}</Job>" for one in jobs) + "</Data>"


def submitted(peer: RealListener, inside: str = SLEEP, action: str = "Submit", more: str = "") -> int:
    answer = peer.ask(action, "Job", job(inside), more=more)
    assert answer.status.code == "000", answer.status
    return int(text_of(answer.data[0], "JobId"))


def rows(answer: RmapResponse) -> list[str]:
    assert answer.status.word != "Failure", answer.status
    assert answer.count == len(answer.data)
    return [canonical(one) for one in answer.data]


def state_of(peer: RealListener, number: int) -> str:
    answer = peer.ask("Query", "Job", f'<Get name="JobState"></Get><Where name="JobId">{number}</Where>')
    return text_of(answer.data[0], "JobState")


def canceled(peer: RealListener, *jobs: int) -> None:
    assert peer.ask("Cancel", "Job", named(*jobs)).status.code == "000"


def code(answer: RmapResponse) -> str:
    return answer.status.code


# ---------------------------------------------------------------- jobs


def test_a_submitted_job_runs_as_the_actor_and_is_shown_as_completed(
    head: RealHead, peer: RealListener
) -> None:
    number = submitted(peer, "<Executable>/usr/bin/id</Executable><Arguments>-un</Arguments>")
    head.wait(number)
    assert head.output(number) == f"{ACTOR}\n"
    assert head.ask("job", job=number)["job"]["owner"] == ACTOR
    assert state_of(peer, number) == "Completed"


def test_a_script_travels_with_its_job(head: RealHead, peer: RealListener) -> None:
    inside = "<Data><Job><JobId>s</JobId><Executable>#Script</Executable></Job>"
    answer = peer.ask(
        "Submit", "Job", f'{inside}<File id="Script">#!/bin/sh\necho from a file\n</File></Data>'
    )
    number = int(text_of(answer.data[0], "JobId"))
    head.wait(number)
    assert head.output(number) == "from a file\n"


def test_what_a_job_asks_for_and_does_not_get_is_reported(peer: RealListener) -> None:
    answer = peer.ask("Create", "Job", job(f"{SLEEP}<Checkpointable>true</Checkpointable>"))
    assert (answer.status.word, code(answer)) == ("Warning", "126")
    assert "Checkpointable" in answer.status.message
    canceled(peer, int(text_of(answer.data[0], "JobId")))


def test_the_poll_of_a_scheduler_has_the_jobs_that_are_not_over(head: RealHead, peer: RealListener) -> None:
    over, runs = submitted(peer, "<Executable>/bin/true</Executable>"), submitted(peer)
    head.wait(over)
    head.wait_for(runs, "Running")
    names = ("JobId", "JobState", "UserId", "WallDuration", "NodeList")
    gets = "".join(f'<Get name="{name}"></Get>' for name in names)
    answer = rows(peer.ask("Query", "Job", f'{gets}<Where name="JobClass">active</Where>'))
    (node,) = head.ask("job", job=runs)["job"]["usage"]["nodes"]
    assert (
        f"<Job><JobId>{runs}</JobId><JobState>Running</JobState><UserId>{ACTOR}</UserId>"
        f"<Requested><WallDuration>600</WallDuration></Requested>"
        f"<Delivered><NodeList><Node>{node}</Node></NodeList></Delivered></Job>"
    ) in answer
    assert not any(f"<JobId>{over}</JobId>" in one for one in answer)
    canceled(peer, runs)


def test_properties_that_only_the_description_has_are_reported(peer: RealListener) -> None:
    number = submitted(peer)
    where = f'<Where name="{{}}">{number}</Where>'
    asked = '<Get name="Executable"></Get><Get name="Requested/Processors"></Get>'
    (found,) = rows(peer.ask("Query", "Job", asked + where.format("JobId")))
    assert (
        found
        == "<Job><Executable>/bin/sleep</Executable><Requested><Processors>1</Processors></Requested></Job>"
    )
    (whole,) = rows(peer.ask("Query", "Job", '<Option name="ShowHidden">True</Option>' + where.format("Id")))
    assert f"<Id>{number}</Id>" in whole
    assert "<Duration>600</Duration>" in whole
    matched = rows(
        peer.ask("Query", "Job", '<Get name="JobId"></Get><Where name="Executable" op="Match">*sl??p</Where>')
    )
    assert f"<Job><JobId>{number}</JobId></Job>" in matched
    canceled(peer, number)


def test_a_job_is_submitted_and_told_in_the_names_of_0_2(head: RealHead, peer: RealListener) -> None:
    answer = peer.ask(
        "Submit",
        "job",
        "<Data><job><jobId>x</jobId><executable>/bin/sleep</executable><arguments>60</arguments>"
        f"<userName>{ACTOR}</userName><wallclockLimit>120</wallclockLimit>"
        "<requestedProcessors>2</requestedProcessors></job></Data>",
    )
    number = int(text_of(answer.data[0], "jobId"))
    shown = head.ask("job", job=number)["job"]
    assert (shown["run_time"], shown["minimum"]) == (120.0, 2)
    gets = "".join(f'<Get name="{name}"></Get>' for name in ("jobId", "userName", "requestedProcessors"))
    (found,) = rows(peer.ask("Query", "Job", f'{gets}<Where name="jobId">{number}</Where>'))
    assert found == (
        f"<Job><jobId>{number}</jobId><userName>{ACTOR}</userName><requestedProcessors>2</requestedProcessors></Job>"
    )
    assert code(peer.ask("Delete", "Job", f"<Data><job><jobId>{number}</jobId></job></Data>")) == "000"


def test_a_created_job_waits_for_start(head: RealHead, peer: RealListener) -> None:
    number = submitted(peer, action="Create")
    assert state_of(peer, number) == "Hold"
    assert code(peer.ask("Start", "Job", named(number))) == "000"
    head.wait_for(number, "Running")
    assert code(peer.ask("Start", "Job", named(number))) == "740"
    canceled(peer, number)


def test_another_scheduler_starts_a_held_job_on_the_nodes_that_it_chose(
    head: RealHead, peer: RealListener
) -> None:
    number = submitted(peer, f"{SLEEP}<Hold>Scheduler</Hold>")
    assert state_of(peer, number) == "Hold"
    (node,) = [each["name"] for each in head.ask("nodes")["nodes"]]
    unknown = peer.ask("Start", "Job", named(number, inside="<NodeList><Node>nowhere</Node></NodeList>"))
    assert unknown.status.word == "Failure"
    assert state_of(peer, number) == "Hold"
    nodes = f"<NodeList><Node>{node}</Node><Node>{node}</Node></NodeList>"
    assert code(peer.ask("Start", "Job", named(number, inside=nodes))) == "000"
    head.wait_for(number, "Running")
    assert head.ask("job", job=number)["job"]["spec"]["requested_nodes"] == [node]
    canceled(peer, number)


def test_start_releases_no_hold_of_a_person(peer: RealListener) -> None:
    number = submitted(peer, f"{SLEEP}<Hold>User</Hold>")
    refused = peer.ask("Start", "Job", named(number))
    assert (code(refused), state_of(peer, number)) == ("740", "Hold")
    canceled(peer, number)


def test_a_job_is_suspended_resumed_requeued_and_canceled(head: RealHead, peer: RealListener) -> None:
    number = submitted(peer, f"{SLEEP}<Suspendable>true</Suspendable><Restartable>true</Restartable>")
    head.wait_for(number, "Running")
    assert code(peer.ask("Suspend", "Job", named(number))) == "000"
    head.until(lambda: state_of(peer, number) == "Suspended")
    assert code(peer.ask("Resume", "Job", named(number))) == "000"
    head.until(lambda: state_of(peer, number) == "Running")
    canceled(peer, number)
    head.wait(number)
    assert code(peer.ask("Requeue", "Job", named(number))) == "000"
    assert head.ask("job", job=number)["job"]["state"] != "Canceled"
    canceled(peer, number)


def test_no_job_has_a_checkpoint(peer: RealListener) -> None:
    refused = peer.ask("Checkpoint", "Job", named(1))
    assert (refused.status.word, code(refused)) == ("Failure", "710")
    assert "checkpoint" in refused.status.message


def test_a_notice_is_the_progress_message_of_its_job(head: RealHead, peer: RealListener) -> None:
    number = submitted(peer)
    head.wait_for(number, "Running")
    text = "<StatusMessage>half of it</StatusMessage>"
    assert code(peer.ask("Notify", "Job", named(number, inside=text))) == "000"
    assert head.ask("job", job=number)["job"]["progress_message"] == "half of it"
    canceled(peer, number)


def test_properties_are_set_counted_up_and_held(head: RealHead, peer: RealListener) -> None:
    number = submitted(peer, f"{SLEEP}<Hold>User</Hold>")
    where = f'<Where name="JobId">{number}</Where>'
    sets = '<Set name="Priority">1500</Set><Set name="WallDuration" op="Inc">90</Set>'
    sets += '<Set name="ProjectId">p</Set>'
    assert code(peer.ask("Modify", "Job", sets + where)) == "000"
    shown = head.ask("job", job=number)["job"]
    assert (shown["priority"], shown["run_time"], shown["project"]) == (1500, 720.0, "p")
    assert code(peer.ask("Modify", "Job", f'<Set name="Hold">None</Set>{where}')) == "000"
    head.wait_for(number, "Running")
    for wrong, expected in (
        ('<Set name="Environment">x</Set>', "316"),
        ('<Set name="ProjectId" op="Inc">1</Set>', "310"),
        ('<Set name="Priority">many</Set>', "317"),
        ('<Set name="Priority">1</Set><Set name="Priority">2</Set>', "318"),
        ("", "314"),
    ):
        assert code(peer.ask("Modify", "Job", wrong + where)) == expected
    canceled(peer, number)


def test_a_job_group_is_submitted_told_and_canceled(peer: RealListener) -> None:
    jobs = "".join(f"<Job><Id>{name}</Id>{SLEEP}</Job>" for name in "ab")
    answer = peer.ask("Submit", "JobGroup", f"<Data><JobGroup><Id>flow</Id>{jobs}</JobGroup></Data>")
    assert answer.count == 2, answer.status
    (found,) = rows(peer.ask("Query", "JobGroup", '<Where name="JobGroupId">flow</Where>'))
    assert "<JobGroupId>flow</JobGroupId><JobGroupState>Active</JobGroupState>" in found
    ended = peer.ask("Cancel", "JobGroup", "<Data><JobGroup><Id>flow</Id></JobGroup></Data>")
    assert (code(ended), ended.count) == ("000", 2)


# ---------------------------------------------------------------- other objects


def test_nodes_are_reported_with_the_structure_that_was_asked_for(head: RealHead, peer: RealListener) -> None:
    (node,) = head.ask("nodes")["nodes"]
    paths = ("NodeId", "NodeState", "Configured/Processors", "Configured/Memory", "Available/Memory")
    gets = "".join(f'<Get name="{path}"></Get>' for path in paths)
    expected = (
        f"<Node><NodeId>{node['name']}</NodeId><NodeState>Idle</NodeState>"
        f"<Configured><Processors>4</Processors><Memory>{node['memory']}</Memory></Configured></Node>"
    )
    head.until(lambda: rows(peer.ask("Query", "Node", gets)) == [expected])


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("Queue", "<QueueId>Default</QueueId>"),
        ("User", f"<UserId>{ACTOR}</UserId>"),
        ("Project", "<ProjectId>chemistry</ProjectId>"),
        ("Account", "<AccountId>chemistry</AccountId>"),
    ],
)
def test_queues_users_and_projects_are_reported(peer: RealListener, kind: str, known: str) -> None:
    number = submitted(peer, f"{SLEEP}<ProjectId>chemistry</ProjectId>")
    assert any(known in one for one in rows(peer.ask("Query", kind)))
    assert code(peer.ask("Query", kind, '<Get name="Nothing"></Get>')) == "316"
    canceled(peer, number)


def test_jobs_are_joined_with_their_users_and_nodes(head: RealHead, peer: RealListener) -> None:
    number = submitted(peer, f"{SLEEP}<ProjectId>chemistry</ProjectId>")
    head.wait_for(number, "Running")
    (node,) = head.ask("job", job=number)["job"]["usage"]["nodes"]
    asked = "<Object>User</Object><Object>Node</Object>"
    asked += '<Get name="JobId" object="Job"></Get><Get name="UserId" object="User"></Get>'
    asked += '<Get name="NodeState" object="Node"></Get><Where name="JobClass">active</Where>'
    asked += '<Where name="UserId" object="Job" subject="User">UserId</Where>'
    asked += f'<Where conj="And" name="JobId" object="Job">{number}</Where>'
    asked += '<Where name="NodeId" object="Node" subject="Job">NodeList/Node</Where>'
    (output,) = rows(peer.ask("Query", "Job", asked))
    found = f"<Job_User_Node><JobId>{number}</JobId><UserId>{ACTOR}</UserId><NodeState>"
    assert output.startswith(found), (output, node)
    (described,) = rows(
        peer.ask(
            "Query",
            "Job",
            '<Object alias="P">Project</Object><Get name="Executable"></Get>'
            f'<Get name="ProjectId" object="P"></Get><Where name="JobId">{number}</Where>'
            '<Where name="ProjectId" object="P" subject="Job">ProjectId</Where>',
        )
    )
    assert described == (
        "<Job_Project><Executable>/bin/sleep</Executable><ProjectId>chemistry</ProjectId></Job_Project>"
    )
    assert code(peer.ask("Cancel", "Job", f"<Object>User</Object>{named(number)}")) == "318"
    assert code(peer.ask("Query", "Job", "<Object>Moon</Object>")) == "315"
    assert (
        code(peer.ask("Query", "Job", '<Object>User</Object><Get name="Odd" object="User"></Get>')) == "316"
    )
    canceled(peer, number)


def test_only_administrators_reserve_and_drain(head: RealHead, peer: RealListener) -> None:
    (node,) = [each["name"] for each in head.ask("nodes")["nodes"]]
    start = int(time.time()) + 36_000
    data = (
        f"<Data><Reservation><ReservationId>course</ReservationId><StartTime>{start}</StartTime>"
        f"<EndTime>{start + 60}</EndTime><NodeId>{node}</NodeId><UserId>{ACTOR}</UserId></Reservation></Data>"
    )
    drain = f'<Set name="NodeState">Drained</Set><Where name="NodeId">{node}</Where>'
    assert code(peer.ask("Create", "Reservation", data)) == "444"
    assert code(peer.ask("Modify", "Node", drain)) == "444"
    head.ask("set_parameters", values={"SiteKeyRoles": ACTOR, "Administrators": ACTOR})
    try:
        made = peer.ask("Create", "Reservation", data)
        assert code(made) == "000", made.status
        (found,) = rows(peer.ask("Query", "Reservation"))
        assert (
            f"<ReservationId>course</ReservationId><ReservationState>Planned</ReservationState><StartTime>{start}"
            in found
        )
        assert code(peer.ask("Cancel", "Reservation", '<Where name="ReservationId">course</Where>')) == "000"
        assert code(peer.ask("Modify", "Node", drain)) == "000"
        (state,) = rows(peer.ask("Query", "Node", '<Get name="NodeState"></Get>'))
        assert state in (f"<Node><NodeState>{word}</NodeState></Node>" for word in ("Drained", "Draining"))
        assert code(peer.ask("Modify", "Node", drain.replace("Drained", "Idle"))) == "000"
    finally:
        head.ask("set_parameters", values={"SiteKeyRoles": None, "Administrators": None})


# ---------------------------------------------------------------- whom it believes


def test_messages_without_the_key_are_refused(peer: RealListener) -> None:
    assert code(peer.send("<Body></Body>", b"other")) == "424"
    assert code(peer.read(peer.exchange(request_frame(envelope("<Body></Body>"))))[0]) == "424"


def test_an_actor_is_a_user_who_is_not_root(peer: RealListener) -> None:
    for actor in ("root", "no-such-user", "x" * 300):
        assert code(peer.ask("Query", "Job", actor=actor)) == "444"


@pytest.mark.skipif(not ROOT, reason="needs jobs of another user")
def test_a_site_key_lends_no_role_unless_told_so(head: RealHead, peer: RealListener) -> None:
    number = head.submit("sleep 60")  # of root
    head.ask("set_parameters", values={"Administrators": ACTOR})
    try:
        assert code(peer.ask("Cancel", "Job", named(number))) == "444"
        head.ask("set_parameters", values={"SiteKeyRoles": ACTOR})
        assert code(peer.ask("Cancel", "Job", named(number))) == "000"
    finally:
        head.ask("set_parameters", values={"SiteKeyRoles": None, "Administrators": None})
    entries = [each for each in head.ask("audit_log", job=number)["entries"] if each["verb"] == "cancel_job"]
    assert [(each["user"], each["from"], each["outcome"]) for each in entries] == [
        (ACTOR, "sss 127.0.0.1", "not-owner"),
        (ACTOR, "sss 127.0.0.1", "done"),
    ]


def test_a_request_with_an_id_is_carried_out_once(head: RealHead, peer: RealListener) -> None:
    found = f' id="{int(time.time())}-0123456789abcdef"'
    first, second = (submitted(peer, more=found) for _ in range(2))
    assert first == second
    other = found.replace("abcdef", "fedcba")
    assert code(peer.ask("Cancel", "Job", named(first), more=other)) == "000"
    assert code(peer.ask("Cancel", "Job", named(first), more=other)) == "342"
    old = f' id="{int(time.time()) - 3600}-0123456789abcdef"'
    assert code(peer.ask("Submit", "Job", job(), more=old)) == "424"


def test_an_id_can_be_required_and_sha_1_refused(head: RealHead) -> None:
    with real_listener(head, "--require-id", "--only-sha256") as strict:
        body = '<Body><Request action="{}" actor="{}"{}><Object>Job</Object>{}</Request></Body>'
        query = body.format("Query", ACTOR, "", "")
        assert code(strict.send(query)) == "424"
        assert code(strict.send(query, method=SHA256)) == "000"
        assert code(strict.send(body.format("Submit", ACTOR, "", job()), method=SHA256)) == "314"


@pytest.mark.skipif(not WIRE.exists(), reason="the samples are not beside the repository")
def test_messages_of_other_clients_are_answered_byte_for_byte(head: RealHead) -> None:
    table = head.state.parent / "actors"
    table.write_text(f"# actor user\nmaui {ACTOR}\namy {ACTOR}\n")
    table.chmod(0o644)
    expected = {
        "query_active_jobs": "000",
        "query_nodes_xpath": "000",
        "query_where_groups": "000",
        "charge_job": "313",  # there is no bank here
    }
    with real_listener(head, "--actors", str(table)) as peer:
        for name, wanted in expected.items():
            (answer,) = peer.read(peer.exchange((WIRE / f"{name}.http").read_bytes()))
            assert code(answer) == wanted, (name, answer.status)
        assert code(peer.ask("Query", "Job", actor="scottmo")) == "444"


def test_a_message_in_the_form_of_maui_is_answered(peer: RealListener) -> None:
    """Signature first and without a token, the actor in the Body, `chunked;` and a NUL byte at the end."""
    asked = '<Request action="Query"><Object>Node</Object><Get name="NodeId"></Get></Request>'
    body = f'<Body actor="{ACTOR}">{asked}</Body>'
    signature = signature_of(body, KEY).partition("<SecurityToken")[0] + "</Signature>"
    found = 'count="1" name="x" version="3.0" component="ClusterScheduler" type="nonblocking"'
    message = f'<?xml version="1.0"?><Envelope {found}>{signature}{body}</Envelope>'.encode()
    head = b'POST /SSSRMAP3 HTTP/1.1\r\nContent-Type: text/xml; charset="utf-8"\r\n'
    head += b"Transfer-Encoding: chunked;\r\n\r\n%X\r\n" % len(message)
    (answer,) = peer.read(peer.exchange(head + message + b"0\r\n\0"))
    assert (code(answer), answer.count) == ("000", 1)


def test_a_message_in_the_form_of_slurm_is_answered(peer: RealListener) -> None:
    """Ops of one letter, `groups` with a sign; the client skips 88 bytes, and reads the length of a chunk."""
    number = submitted(peer, action="Create")
    inside = (
        f'<Where name="UserId" groups="+1">{ACTOR}</Where><Where name="Priority" conj="And" op="G">0</Where>'
        '<Where name="Priority" conj="And" op="L" groups="-1">9999</Where>'
        f'<Where name="JobId" conj="And">{number}</Where>'
    )
    body = f'<Body><Request action="Query" actor="{ACTOR}"><Object>Job</Object>{inside}</Request></Body>'
    reply = peer.exchange(request_frame(envelope(body, signature_of(body, KEY))))
    size, _, rest = reply[87 + 1 :].partition(b"\r\n")
    found = rest[: int(size, 16)]
    assert found.endswith(b"</Envelope>")
    assert f"<JobId>{number}</JobId>".encode() in found
    canceled(peer, number)


@pytest.mark.skipif(not WIRE.exists(), reason="the samples are not beside the repository")
def test_a_job_object_of_maui_is_created(head: RealHead, peer: RealListener) -> None:
    text = (WIRE.parent / "maui" / "job_ms3_comment_1.xml").read_text().replace(">brett<", f">{ACTOR}<")
    answer = peer.ask("Create", "Job", f"<Data>{text}</Data>")
    assert answer.status.word != "Failure", answer.status
    number = int(text_of(answer.data[0], "JobId"))
    shown = head.ask("job", job=number)["job"]
    assert (shown["owner"], shown["run_time"], shown["minimum"]) == (ACTOR, 300.0, 32)
    canceled(peer, number)


# ---------------------------------------------------------------- the connection


def test_an_answer_comes_in_chunks_with_all_objects(peer: RealListener) -> None:
    jobs = [submitted(peer, action="Create") for _ in range(3)]
    found = ' chunking="True" chunkSize="1"'
    body = f'<Body><Request action="Query" actor="{ACTOR}"{found}><Object>Job</Object>'
    body += '<Get name="JobId" op="Tros"></Get><Where name="JobState">hold</Where></Request></Body>'
    chunks = peer.read(peer.exchange(request_frame(envelope(body, signature_of(body, KEY)))))
    assert [chunk.chunk for chunk in chunks] == [(n, len(chunks)) for n in range(1, len(chunks) + 1)]
    shown = [int(text_of(one, "JobId")) for chunk in chunks for one in chunk.data]
    assert shown[:3] == jobs[::-1]
    canceled(peer, *jobs)


def test_a_client_that_asks_for_it_keeps_its_connection(peer: RealListener) -> None:
    body = f'<Body><Request action="Query" actor="{ACTOR}"><Object>Node</Object></Request></Body>'
    message = request_frame(envelope(body, signature_of(body, KEY)), keep_alive=True)
    with closing(socket.create_connection(("127.0.0.1", peer.port), TIMEOUT)) as connection:
        answers = connection.makefile("rb")
        for _ in range(3):
            connection.sendall(message)
            while answers.readline() != b"\r\n":
                pass
            size = int(answers.readline(), 16)
            assert b"<Code>000</Code>" in answers.read(size)
            assert [answers.readline() for _ in range(3)] == [b"\r\n", b"0\r\n", b"\r\n"]


def test_a_job_id_with_a_dot_is_taken_whole(peer: RealListener) -> None:
    where = '<Where name="JobId" subject="PBS">1234.0</Where>'
    answer = peer.ask("Query", "Job", f'<Get name="JobId"></Get>{where}')
    assert (code(answer), answer.count) == ("000", 0)
    refused = peer.ask("Cancel", "Job", where)
    assert (code(refused), "PBS.1234.0" in refused.status.message) == ("740", True)


@pytest.mark.parametrize(
    ("action", "kind", "inside", "expected"),
    [
        ("Query", "", "", "311"),
        ("Query", "Moon", "", "315"),
        ("Juggle", "Job", "", "313"),
        ("Suspend", "Node", "", "710"),
        ("Query", "Job", '<Get name="Boggus"></Get>', "316"),
        ("Query", "Job", '<Where name="User" op="LIKE">x</Where>', "310"),
        ("Query", "Job", '<Option name="Odd">1</Option>', "126"),
        ("Submit", "Job", "", "314"),
        ("Submit", "Job", "<Data><Job><Id>x</Id><Processors>many</Processors></Job></Data>", "317"),
        ("Cancel", "Job", "", "314"),
        ("Cancel", "Job", '<Where name="User">x</Where>', "318"),
        ("Cancel", "Job", "<Data><Job><Id>99999999</Id></Job></Data>", "740"),
        ("Modify", "Node", '<Set name="State">Idle</Set>', "314"),
    ],
)
def test_a_wrong_request_has_the_code_of_its_fault(
    peer: RealListener, action: str, kind: str, inside: str, expected: str
) -> None:
    assert code(peer.ask(action, kind, inside)) == expected


def test_a_head_that_is_away_is_reported_and_found_again(head: RealHead, peer: RealListener) -> None:
    head.kill()
    assert code(peer.ask("Query", "Queue")) == "730"
    head.start_again()
    assert code(peer.ask("Query", "Queue")) == "000"


@pytest.mark.parametrize(
    ("modes", "message"), [((0o644, 0o644), "chmod 600"), ((0o600, 0o666), "can be changed by everybody")]
)
def test_a_key_that_others_can_read_and_actors_that_they_can_write_are_refused(
    head: RealHead, tmp_path: Path, modes: tuple[int, int], message: str
) -> None:
    key, actors = tmp_path / "auth_key", tmp_path / "actors"
    for path, text, mode in ((key, "sss\n", modes[0]), (actors, "a b\n", modes[1])):
        path.write_text(text)
        path.chmod(mode)
    words = ["-m", "headnode.apps.web.sssrmap", "--state", str(head.state), "--key-file", str(key)]
    done = subprocess.run(
        [sys.executable, *words, "--actors", str(actors)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
