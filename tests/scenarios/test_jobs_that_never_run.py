"""What can never run is refused, also where a template or the owner of the job is the reason."""

import json
from pathlib import Path

import pytest
from test_local_socket import Scene, run
from test_who_may import ADMINISTRATOR, OTHER, asking

from headnode.core.model.node import NodeFacts
from headnode.core.state import join as c

TEMPLATE = """name = "Gpu"
[node_groups]
default = ["gpu"]
"""
TASKS = [{"command": "true"}]


def test_a_node_group_that_a_template_gives_must_have_nodes(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, ADMINISTRATOR) as peer:
            await peer.done(verb="set_template", text=TEMPLATE)
        wish = {"verb": "submit_job", "tasks": TASKS, "terms": {"jobtemplate": "Gpu"}}
        async with asking(scene, OTHER) as peer:
            refused = await peer.ask(**wish)
            assert (refused["code"], "gpu" in refused["what"]) == ("never-fits", True), refused
            assert "never-fits" in json.dumps(await peer.ask(**{**wish, "verb": "check_job"}))
            made = (await peer.done(verb="create_job", tasks=TASKS, terms={"jobtemplate": "Gpu"}))["job"]
            assert await peer.refused(verb="submit_job", job=made) == "never-fits"
            facts = NodeFacts(name="n2", processors=1, groups=("gpu",))
            await scene.batcher.ask(c.RegisterNode(facts=facts, approved=True))
            job = (await peer.done(**wish))["job"]
            assert (await peer.done(verb="job", job=job))["job"]["allocation"][0]["node"] == "n2"

    run(tmp_path, story)


def test_a_job_of_a_user_whom_no_node_serves_is_refused(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        facts = NodeFacts(name="n2", processors=1, only_user="bob")
        await scene.batcher.ask(c.RegisterNode(facts=facts, approved=True))
        async with asking(scene, ADMINISTRATOR) as peer:
            wish = {"verb": "submit_job", "tasks": TASKS, "terms": {"requestednodes": "n2", "user": "nobody"}}
            refused = await peer.ask(**wish)
            assert refused["code"] == "never-fits"
            assert "n2" in refused["what"]
            assert "bob" in refused["what"]
        async with asking(scene, OTHER) as peer:
            await peer.done(verb="submit_job", tasks=TASKS, terms={"requestednodes": "n2"})

    run(tmp_path, story)


SEE = "request what the cluster has; see: hn node list"


@pytest.mark.parametrize(
    ("terms", "fix"),
    [
        ({"numprocessors": "99"}, SEE),
        ({"feature": "x"}, f"{SEE}, hn node view NAME (memory, features, groups)"),
        ({"license": "solver:9"}, f"{SEE}, hn cluster view (licences)"),
    ],
)
def test_a_refusal_names_the_commands_that_show_what_was_requested(
    tmp_path: Path, terms: dict[str, str], fix: str
) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, ADMINISTRATOR) as peer:
            await peer.done(verb="set_parameters", values={"Licences": "solver:2"})
            refused = await peer.ask(verb="submit_job", tasks=TASKS, terms=terms)
            assert (refused["code"], refused["fix"]) == ("never-fits", fix)

    run(tmp_path, story)
