"""A queue that is not there is refused in the words of the program that was typed."""

from collections.abc import Callable
from functools import partial

import pytest

from headnode.apps.cli.batch_programs.bsub import in_words_of_lsf
from headnode.apps.cli.batch_programs.qsub import in_words_of
from headnode.apps.cli.batch_programs.sbatch import in_words_of_slurm
from headnode.apps.cli.batch_programs.words import ProgramRefusal
from headnode.core.model.errors import HeadnodeError, NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.template import JobTemplate
from headnode.core.model.user import User
from headnode.core.state.templates import templated_spec


def refused() -> NotFound:
    """Return how the head refuses a job with a template that it does not have."""
    with pytest.raises(NotFound) as found:
        templated_spec({"night": JobTemplate(name="night")}, User("ann", 1, 1), JobSpec(template="nosuch"))
    return found.value


@pytest.mark.parametrize(
    ("words", "first", "status"),
    [
        (partial(in_words_of, "pbs"), "Unknown queue", 170),
        (
            partial(in_words_of, "gridengine"),
            "Unable to run job: Job was rejected because job requests an",
            1,
        ),
        (in_words_of_slurm, "Batch job submission failed: Invalid qos specification", 1),
        (partial(in_words_of_lsf, "nosuch"), "nosuch: No such queue", 255),
    ],
)
def test_an_unknown_queue_is_no_template_and_the_queues_are_named(
    words: Callable[[HeadnodeError], ProgramRefusal], first: str, status: int
) -> None:
    result = words(refused())
    assert result.lines[0].startswith(first)
    assert result.status == status
    text = " ".join(result.lines)
    assert "choose from: Default, night" in text
    assert "there is no job template" not in text
