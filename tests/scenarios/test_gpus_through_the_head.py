"""A head and its users speak of jobs that count GPUs."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from test_local_socket import Peer, Scene, run

from headnode.apps.cli.screens.explain import explanation_page
from headnode.apps.cli.screens.job import row, view
from headnode.core.model.node import NodeFacts
from headnode.core.state import join as c

GPU_NODE = NodeFacts(name="g1", processors=8, memory=4000, gpus=2, groups=("gpu", "a100"))
TEMPLATE = 'name = "Training"\n[processors_per_gpu]\ndefault = 4\n[maximum_gpus]\nmost = 1\n'


def on_a_gpu_node(tmp_path: Path, story: Callable[[Peer], Awaitable[None]]) -> None:
    """Run a story on a cluster with a node of two GPUs beside one without any."""

    async def reported(scene: Scene) -> None:
        await scene.batcher.ask(c.RegisterNode(facts=GPU_NODE, approved=True))
        async with scene.peer() as peer:
            await story(peer)

    run(tmp_path, reported)


async def submit(peer: Peer, gpus: int, **terms: str) -> int:
    size = {"numgpus": str(gpus)}
    answer = await peer.done(verb="submit_job", tasks=[{"command": "x", **size}], terms=size | terms)
    return int(answer["job"])


async def shown(peer: Peer, job: int) -> dict[str, Any]:
    answer: dict[str, Any] = (await peer.done(verb="job", job=job))["job"]
    return answer


def test_a_job_on_gpus_runs_where_they_are_and_is_shown_with_them(tmp_path: Path) -> None:
    async def story(peer: Peer) -> None:
        answer = await shown(peer, await submit(peer, 2, corespergpu="3"))
        assert (answer["state"], answer["unit"], answer["allocated"]) == ("Running", "gpu", 6)
        assert [held["node"] for held in answer["allocation"]] == ["g1"]
        assert row(answer)["Resource Request"] == "2 GPUs"
        assert view(answer, detailed=True)["Processors Per GPU"] == "3"
        one = await shown(peer, await submit(peer, 1))
        assert (one["state"], row(one)["Resource Request"]) == ("Queued", "1 GPU")

    on_a_gpu_node(tmp_path, story)


def test_fewer_gpus_or_fewer_processors_for_each_are_proposed_and_the_command_starts_the_job(
    tmp_path: Path,
) -> None:
    async def story(peer: Peer) -> None:
        plain = {"numprocessors": "5", "requestednodes": "g1"}
        await peer.done(verb="submit_job", tasks=[{"command": "x", "numprocessors": "5"}], terms=plain)
        job = await submit(peer, 2, corespergpu="2")
        answer = await peer.done(verb="explain_job", job=job)
        (change,) = [change for change in answer["changes"] if "corespergpu" in change["options"]]
        assert change["text"] == "with 1 processor for each GPU instead of 2"
        assert change["command"] == f"hn job modify {job} /corespergpu:1"
        text = explanation_page(answer, await shown(peer, job), now=1_000_000.0).replace("\n", " ")
        assert "2 GPUs" in text
        await peer.done(verb="modify_job", job=job, terms=change["options"])
        assert (await shown(peer, job))["state"] == "Running"

    on_a_gpu_node(tmp_path, story)


def test_a_job_that_no_node_has_gpus_for_is_refused_with_what_there_is(tmp_path: Path) -> None:
    async def story(peer: Peer) -> None:
        for gpus, each, what in (
            (3, "1", "needs 3 GPUs; at most 2 GPUs on 1 node would fit"),
            (2, "8", "needs 2 GPUs with 8 processors each; at most 1 GPU on 1 node would fit"),
            (1, "9", "node 'g1' has 8 processors; a GPU needs 9 of them"),
        ):
            terms = {"numgpus": str(gpus), "corespergpu": each}
            refused = await peer.ask(verb="submit_job", tasks=[{"command": "x"}], terms=terms)
            assert refused["code"] == "never-fits"
            assert what in refused["what"]
            assert "node 'n1' has no GPUs" in refused["what"]

    on_a_gpu_node(tmp_path, story)


def test_processors_of_a_gpu_are_refused_without_gpus_and_changed_as_long_as_the_job_waits(
    tmp_path: Path,
) -> None:
    async def story(peer: Peer) -> None:
        task = {"command": "x"}
        refused = await peer.ask(verb="submit_job", tasks=[task], terms={"corespergpu": "2"})
        assert (refused["code"], refused["path"]) == ("processors-per-gpu", ["processors_per_gpu"])
        await submit(peer, 2)
        waits = await submit(peer, 1)
        await peer.done(verb="modify_job", job=waits, terms={"numgpus": "1-2", "corespergpu": "4"})
        answer = await shown(peer, waits)
        assert (answer["minimum"], answer["maximum"], answer["spec"]["processors_per_gpu"]) == (1, 2, 4)
        refused = await peer.ask(verb="modify_job", job=waits, terms={"numnodes": "1"})
        assert refused["code"] == "processors-per-gpu"
        assert (await shown(peer, waits))["unit"] == "gpu"

    on_a_gpu_node(tmp_path, story)


def test_a_changed_batch_script_shows_its_program_what_it_asks_for_now(tmp_path: Path) -> None:
    async def story(peer: Peer) -> None:
        script = "#!/bin/sh\n#SBATCH --gpus=1 --cpus-per-gpu=2 -J one\ntrue\n"
        request = {"jobfile": script, "dialect": "slurm", "script": ["job.sh"], "environment": {}}
        await submit(peer, 2)
        waits = int((await peer.done(verb="submit_job", **request))["job"])
        terms = {"numgpus": "2", "corespergpu": "4", "jobname": "two"}
        await peer.done(verb="modify_job", job=waits, terms=terms)
        (task,) = (await shown(peer, waits))["spec"]["tasks"]
        found = {name: task["environment"][f"SLURM_{name}"] for name in ("NTASKS", "GPUS", "CPUS_PER_GPU")}
        assert (task["minimum"], task["environment"]["SLURM_JOB_NAME"]) == (2, "two")
        assert found == {"NTASKS": "2", "GPUS": "2", "CPUS_PER_GPU": "4"}

    on_a_gpu_node(tmp_path, story)


def test_rules_of_a_template_for_gpus_hold_for_jobs_that_count_them(tmp_path: Path) -> None:
    async def story(peer: Peer) -> None:
        await peer.done(verb="set_template", text=TEMPLATE)
        named = {"jobtemplate": "Training"}
        answer = await shown(peer, await submit(peer, 1, **named))
        assert (answer["spec"]["processors_per_gpu"], answer["allocated"]) == (4, 4)
        terms = named | {"numgpus": "2"}
        refused = await peer.ask(verb="submit_job", tasks=[{"command": "x"}], terms=terms)
        assert "maximum of GPUs is 2, at most 1 is allowed" in refused["what"]
        plain = await peer.done(verb="submit_job", tasks=[{"command": "x"}], terms=named)
        assert "processors_per_gpu" not in (await shown(peer, plain["job"]))["spec"]

    on_a_gpu_node(tmp_path, story)
