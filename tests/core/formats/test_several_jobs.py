"""Several jobs of one file become one file again, or each a file of its own, with what is lost reported."""

import pytest

from headnode.core.formats.batch import BatchSystem
from headnode.core.formats.dialects import WRITTEN, ReadOptions, convert, convert_each, read
from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest

FILE = """
[[jobs]]
name = "mesh"
command = "/bin/mesh"

[[jobs]]
name = "so/lve"
command = "/bin/solve"
parents = "mesh"
"""


@pytest.mark.parametrize("to", ["native", "native-json"])
def test_jobs_and_their_links_are_the_same_in_a_file_that_holds_several(to: str) -> None:
    was, report, (text, lost) = convert(FILE, ReadOptions(), to)
    found, before = read(text), read(FILE)
    assert (was, report, lost) == ("native", (), ())
    assert (found.dialect, found.jobs, found.links) == (to, before.jobs, (DependencyLink(1, 0),))


@pytest.mark.parametrize("to", ["sss", "sss-3.0"])
def test_a_group_of_sss_has_all_jobs_and_their_links(to: str) -> None:
    found = read(convert(FILE, ReadOptions(), to)[2][0])
    assert (found.dialect, [job.name for job in found.jobs], found.links) == (
        to,
        ["mesh", "so/lve"],
        (DependencyLink(1, 0),),
    )


@pytest.mark.parametrize("to", ["ccs", "hpcpack", "hpcpack-2008", "grid", "grid-task"])
def test_a_language_of_one_job_a_file_says_what_to_do_instead(to: str) -> None:
    with pytest.raises(BadRequest, match="several-jobs") as refused:
        convert(FILE, ReadOptions(), to)
    assert "--directory" in refused.value.fix


@pytest.mark.parametrize("to", WRITTEN)
def test_each_job_becomes_a_file_and_what_it_waits_for_is_reported_as_lost(to: str) -> None:
    was, _, (files, report) = convert_each(FILE, ReadOptions(), to)
    suffix = {
        **{"native": ".toml", "native-json": ".json", "grid": ".json", "grid-task": ".json"},
        **dict.fromkeys(BatchSystem, ".sh"),
        "htcondor": ".sub",
    }.get(to, ".xml")
    assert was == "native"
    assert [name for name, _ in files] == [f"1-mesh{suffix}", f"2-so-lve{suffix}"]
    for name, text in files:
        found = read(text)
        assert found.dialect == to, name
        assert len(found.jobs) == 1
        assert found.links == ()
    links = [item for item in report if "waits for" in item.what]
    assert [(item.kind, item.where) for item in links] == [(Fidelity.NOT_SUPPORTED, "job 2 ('so/lve')")]
    assert "parents" in links[0].what


def test_a_lost_link_refuses_under_awareness_policy_reject() -> None:
    with pytest.raises(BadRequest, match="not-understood"):
        convert_each(FILE, ReadOptions(awareness=Awareness.REJECT), "native")


def test_files_keep_their_order_by_name() -> None:
    text = "\n".join(f'[[jobs]]\nname = "{name}"\ncommand = "a"' for name in "jihgfedcba")
    names = [name for name, _ in convert_each(text, ReadOptions(), "native")[2][0]]
    assert names == sorted(names)
    assert names[0] == "01-j.toml"
