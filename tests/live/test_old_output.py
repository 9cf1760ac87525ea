"""Captured output goes when its job has been over for as long as the site wishes to keep it."""

from pathlib import Path

from headnode.apps.agent.output import jobs_with_output, remove_outputs
from heads import RealHead, head_fixture

MOMENT = "0.00000001"  # days, about a millisecond: the first round begins at once

head = head_fixture()


def kept(head: RealHead) -> set[str]:
    return {folder.name for folder in head.state.glob("nodes/*/output/*")}


def test_output_of_jobs_that_are_over_goes_and_that_of_others_stays(head: RealHead) -> None:
    over = head.submit("/bin/echo over")
    assert head.wait(over)["state"] == "Finished"
    runs = head.submit("/bin/sh -c 'echo begun; exec sleep 1000'")
    head.until(lambda: str(runs) in kept(head))
    head.ask("set_parameters", values={"TTLCompletedJobs": MOMENT})
    head.until(lambda: str(over) not in kept(head))
    assert kept(head) == {str(runs)}
    assert "no longer exists" in head.ask("task_output", job=over, task=1, instance=None)["removed"]
    assert head.ask("task_output", job=runs, task=1, instance=None)["removed"] == ""


def test_nothing_goes_unless_the_site_wishes_it(head: RealHead) -> None:
    over = head.submit("/bin/echo over")
    assert head.wait(over)["state"] == "Finished"
    values = {one["name"]: one["value"] for one in head.ask("parameters")["parameters"]}
    assert values["TTLCompletedJobs"] == "0"
    assert head.ask("task_output", job=over, task=1, instance=None)["removed"] == ""


def test_jobs_are_listed_in_the_order_of_their_ids_a_page_at_a_time(tmp_path: Path) -> None:
    for name in ("9", "10", "100", "2", "lost+found", "\u0663"):
        (tmp_path / name).mkdir()
    assert jobs_with_output(tmp_path, 0, 3) == [2, 9, 10]
    assert jobs_with_output(tmp_path, 10, 3) == [100]
    assert jobs_with_output(tmp_path, 100, 3) == []


def test_what_a_user_put_there_leads_nowhere_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    output = tmp_path / "output"
    (output / "7").mkdir(parents=True)
    (output / "7" / "link").symlink_to(outside)
    (output / "8").symlink_to(outside)
    (output / "9").mkdir()
    troubles = remove_outputs(output, (7, 8, 9, 11), stay={9})
    assert sorted(path.name for path in output.iterdir()) == ["8", "9"]
    assert (outside / "precious").exists()
    assert [trouble.split(":")[0] for trouble in troubles] == [str(output / "8"), str(output / "11")]
