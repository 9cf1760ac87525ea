"""What users and projects have used: who sees it, in pages."""

from pathlib import Path
from typing import Any

from test_local_socket import Scene, run
from test_owner_limits_on_screen import limit, submit
from test_who_may import ADMINISTRATOR, OPERATOR, OTHER, OWNER, asking

from headnode.core.model.user import User


async def shown(scene: Scene, by: User, **fields: Any) -> dict[str, Any]:
    async with asking(scene, by) as peer:
        return await peer.done(verb="usage", **fields)


def accounts(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["user"], each["project"]) for each in answer["accounts"]]


def test_a_user_sees_its_own_usage_and_an_operator_that_of_all(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, ProjectLimits="idle:jobs=3;*:jobs=9")
        await submit(scene, OWNER, "chem")
        await submit(scene, OTHER)
        mine = await shown(scene, OWNER)
        assert (accounts(mine), mine["every"]) == ([("ada", "chem")], False)
        every = await shown(scene, OPERATOR)
        assert (accounts(every), every["every"]) == ([("ada", "chem"), ("bob", "")], True)
        assert mine["projects"] == every["projects"] == ["idle"]
        assert mine["half_life"] == 604800.0
        assert every["total"] >= sum(each["used"] for each in every["accounts"]) >= 0.0

    run(tmp_path, story)


def test_usage_is_listed_in_pages(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for project in ("", "a,b"):
            await submit(scene, OWNER, project)
        seen, after = list[tuple[str, str]](), ""
        for _ in range(2):
            page = await shown(scene, ADMINISTRATOR, after=after, limit=1)
            seen, after = seen + accounts(page), page["more"] or ""
        assert (seen, after) == ([("ada", ""), ("ada", "a,b")], "")

    run(tmp_path, story)
