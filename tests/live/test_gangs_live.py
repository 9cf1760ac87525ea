"""Gangs of real processes: at once, on the nodes they ask for, within their limits, and accounted for."""

from pathlib import Path

from heads import RealHead, shared_head_fixture

# Each process says that it is here and waits for all the others: only those that run together get through.
BARRIER = (
    "touch here.$HEADNODE_TASK; until [ $(ls | grep -c here) = 4 ]; do sleep 0.02; done; echo $HEADNODE_HOSTS"
)

head = shared_head_fixture(nodes=2, processors=2)


def submit(head: RealHead, text: str) -> int:
    job: int = head.ask("submit_job", jobfile=text)["job"]
    return job


def names(head: RealHead) -> list[str]:
    return sorted(node["name"] for node in head.ask("nodes")["nodes"])


def test_all_processes_of_a_gang_run_at_the_same_time(head: RealHead, tmp_path: Path) -> None:
    job = submit(
        head,
        f"""
        together = true
        run_time = "1m"
        [[tasks]]
        name = "master"
        command = '{BARRIER}'
        work_directory = "{tmp_path}"
        [[tasks]]
        name = "worker"
        command = '{BARRIER}'
        work_directory = "{tmp_path}"
        sweep = "1-3"
        """,
    )
    assert head.wait(job)["state"] == "Finished", head.ask("job", job=job)["job"]["message"]
    found = [head.task(job, 1), *(head.task(job, 2, instance) for instance in (1, 2, 3))]
    ran = [(task["started"], task["ended"]) for task in found]
    assert max(started for started, _ in ran) <= min(ended for _, ended in ran)


def test_a_program_finds_its_hosts_as_its_geometry_draws_them(head: RealHead) -> None:
    job = submit(
        head,
        """
        [[tasks]]
        command = 'echo $HEADNODE_HOSTS; echo $CCP_NODES'
        processors = 4
        distribution = {geometry = [[1, 3], [2, 4]]}
        """,
    )
    assert head.wait(job)["state"] == "Finished"
    hosts, nodes = head.output(job).splitlines()
    one, two = hosts.split()[:2]
    assert sorted((one, two)) == names(head)
    assert hosts.split() == [one, two, one, two]
    assert nodes == f"2 {one} 2 {two} 2"


def test_what_a_job_used_is_told_when_it_is_over_and_after_a_restart(head: RealHead) -> None:
    spin = "python3 -I -S -c 'x = b\"x\" * 50_000_000\nfor i in range(5_000_000): pass'; exit 3"
    job = submit(
        head,
        f"""
        processors = 2
        [[tasks]]
        processors = 2
        command = '''{spin}'''
        """,
    )
    assert head.wait(job)["state"] == "Failed"

    def reported() -> object:
        return head.ask("job", job=job)["job"]["usage"]

    used = head.ask("job", job=job)["job"]["usage"]
    assert (used["processors"], len(used["nodes"]), used["exit_code"]) == (2, 1, 3)
    assert 0.05 < used["cpu_time"] < 300
    assert 0.05 < used["wall_time"] < 300
    assert 0 < used["average_memory"] <= used["peak_memory"]
    assert 45_000 < used["peak_memory"] < 100_000
    exported = head.ask("export_job", job=job, dialect="sss")["text"]
    delivered = exported[exported.index("<Delivered>") : exported.index("</Delivered>")]
    assert "<Processors>2</Processors>" in delivered
    assert used["nodes"][0] in delivered
    assert 'metric="Max"' in delivered
    head.kill()
    head.start_again()
    assert reported() == used


def test_a_limit_of_the_job_counts_for_its_tasks_and_is_named_when_it_is_reached(head: RealHead) -> None:
    job = submit(
        head,
        """
        [resource_limits]
        fsize = 1000
        nofile = "40:50"
        [[tasks]]
        command = "bash -c 'ulimit -Sn; ulimit -Hn'"
        [[tasks]]
        command = "head -c 5000 /dev/zero"
        """,
    )
    assert head.wait(job)["state"] == "Failed"
    assert head.output(job, 1).split() == ["40", "50"]
    assert "it reached its limit 'fsize', 1000 bytes" in head.task(job, 2)["message"]


def test_a_task_that_asks_for_a_feature_waits_in_words_and_goes_where_it_is(head: RealHead) -> None:
    far = names(head)[-1]
    head.ask("modify_node", node=far, features=["cuda"])
    job = submit(
        head,
        """
        processors = 3
        [[tasks]]
        command = "true"
        [[tasks]]
        command = "echo $HEADNODE_NODE"
        features = "CUDA"
        """,
    )
    assert head.wait(job)["state"] == "Finished"
    assert head.output(job, 2).strip() == far
