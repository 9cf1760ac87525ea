"""What the page of a job compares of its request with what it used."""

from typing import Any

from headnode.apps.web.console.job import delivered

USED = {
    "so_far": False, "processors": 2, "processor_time": 600.0, "held_time": 1200.0, "processor_share": 0.5,
    "run_time": 600.0, "run_time_limit": 3600.0, "run_time_share": 1 / 6, "process_memory": 300,
    "node_memory": None, "task_processors": 2, "peak_memory": 92_160, "memory_share": 0.15,
}  # fmt: skip


def words(**more: Any) -> list[str]:
    """Return the pairs in words."""
    return [
        f"{pair['name']}: {pair['used_words']} of {pair['asked_words']}" for pair in delivered(USED | more)
    ]


def test_time_processors_and_memory_are_beside_what_was_requested() -> None:
    assert words() == [
        "Time: 10 min of 1 h",
        "Processor time: 10 min of 20 min",
        "Memory of a task: 90 MB of 600 MB",
    ]


def test_memory_of_a_node_is_added_to_that_of_the_processors_of_a_task() -> None:
    assert words(node_memory=300)[-1] == "Memory of a task: 90 MB of 900 MB"
    assert words(process_memory=None, node_memory=300)[-1] == "Memory of a task: 90 MB of 300 MB"


def test_what_is_not_known_is_left_out() -> None:
    assert words(run_time_share=None, memory_share=None) == ["Processor time: 10 min of 20 min"]
    assert words(processor_share=None, memory_share=None) == ["Time: 10 min of 1 h"]
    assert words(so_far=True) == ["Time: 10 min of 1 h", "Memory of a task: 90 MB of 600 MB"]
