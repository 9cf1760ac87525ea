"""The catalogue of options says of every field of a job what it is, and names no other."""

from headnode.core.model.field_rows import OPERATORS, QUEUED, RUNNING, JobOption, fields_that
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS
from headnode.core.model.job import JobSpec
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.task import TaskSpec


def filled(options: tuple[JobOption, ...]) -> set[str]:
    return {field for option in options for field in option.fields}


def test_every_field_of_a_job_and_of_a_task_is_filled_by_an_option() -> None:
    needs = {f"needs.{field}" for field in NodeNeeds.__struct_fields__}
    assert filled(OPTIONS_OF_JOBS) == {*JobSpec.__struct_fields__} - {"needs"} | needs
    assert filled(OPTIONS_OF_TASKS) == {*TaskSpec.__struct_fields__} - {"needs"} | needs


def test_an_option_has_a_name_wherever_it_can_be_said() -> None:
    for option in (*OPTIONS_OF_JOBS, *OPTIONS_OF_TASKS):
        assert option.in_files or option.slash or option.form == "own", option.key
        assert option.help or not option.in_files, option.key


def test_each_name_means_one_option() -> None:
    for options in (OPTIONS_OF_JOBS, OPTIONS_OF_TASKS):
        names = [name for option in options if option.slash for name in option.slash.spellings]
        assert len(set(names)) == len(names)
        keys = [option.key for option in options]
        assert len(set(keys)) == len(keys)


NODES = {
    "minimum_memory", "maximum_memory", "minimum_processors_per_node", "maximum_processors_per_node",
    "requested_nodes", "excluded_nodes", "node_groups", "node_group_op", "single_node", "exclusive", "needs",
}  # fmt: skip


def test_all_that_a_job_asks_of_its_nodes_can_change_while_it_is_queued_and_not_while_it_runs() -> None:
    assert fields_that(QUEUED, OPTIONS_OF_JOBS) >= NODES
    assert fields_that(RUNNING, OPTIONS_OF_JOBS).isdisjoint(NODES)
    assert NODES - {"needs"} <= fields_that(OPERATORS, OPTIONS_OF_JOBS)


def test_what_a_running_job_holds_does_not_change() -> None:
    held = {"minimum", "maximum", "unit", "needs", "held", "licences", "exclusive", "requested_nodes"}
    assert held <= fields_that(QUEUED, OPTIONS_OF_JOBS)
    assert not held & fields_that(RUNNING, OPTIONS_OF_JOBS)
