"""The names of states that programs know are those that the head gives."""

from headnode.core.state.transitions import STATE_NAMES, JobState
from headnode.protocol.state_names import ENDED_STATES, JOB_STATES, OPEN_STATES


def test_every_state_of_a_job_has_its_name_and_those_that_have_ended_are_distinguished() -> None:
    assert {STATE_NAMES[state] for state in JobState if state.is_final} == set(ENDED_STATES)
    assert {STATE_NAMES[state] for state in JobState if not state.is_final} == set(OPEN_STATES)
    assert len(JOB_STATES) == len(set(JOB_STATES))
