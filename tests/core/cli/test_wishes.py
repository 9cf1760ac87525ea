"""What a job asks for is shown in the words of its owner."""

from headnode.apps.cli.screens.job import requested
from headnode.apps.readable_values import instant


def test_a_choice_of_features_is_reported_as_it_is_typed() -> None:
    assert requested({"needs": {"features": [["ssd"], ["gpu", "tpu"]]}, "together": True}) == {
        "Needs": "features=ssd, gpu|tpu",
        "Together": "True",
    }


def test_each_alternative_has_a_line_with_what_is_other_there() -> None:
    alternatives = [
        {"run_time": 14400.0, "needs": {"features": [["gpu"]]}, "tasks": [{"minimum": 2, "maximum": 2}]},
        {"minimum": 1, "maximum": 4, "node_groups": ["blue", "red"]},
        {"tasks": [{"run_time": 60.0}, {}, {"minimum": 8}, {}, {}]},
        {},
    ]
    assert requested({"alternatives": alternatives})["Alternatives"].splitlines() == [
        "1: run time 4h, features gpu; size 2",
        "2: size 1-4, node groups blue, red",
        "3: task 1: run time 1m; task 3: size 8-*; 1 more task",
        "4: as the job",
    ]


def test_times_and_exit_codes_are_reported_as_everywhere() -> None:
    assert requested({"end_by": 0.0, "valid_exit_codes": [[0, 0], [3, 5]]}) == {
        "End By": instant(0.0),
        "Valid Exit Codes": "0, 3..5",
    }


def test_what_is_shown_elsewhere_is_not_repeated() -> None:
    assert requested({"name": "a", "minimum": 1, "run_time": 60.0, "tasks": [], "user": "b"}) == {"User": "b"}
