"""The record of an ended attempt in the journal of its shepherd."""

from headnode.adapters.processes.attempts import ShepherdAttempt, ended_record
from headnode.adapters.processes.spawning import TaskProgram
from headnode.core.model.outcome import ResourceUsage


def test_every_measured_value_of_an_attempt_is_in_its_record() -> None:
    attempt = ShepherdAttempt((1, 1, 1), "", TaskProgram(["true"], {}, "", "", "", "", ""), None)
    attempt.used = ResourceUsage(*range(1, len(ResourceUsage._fields) + 1))
    said = ended_record(1, attempt, "").outcome.usage
    measured_while_it_runs = {"peak_memory": 0, "average_memory": 0}
    assert said._asdict() == attempt.used._asdict() | measured_while_it_runs
