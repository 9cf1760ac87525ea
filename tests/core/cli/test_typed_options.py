"""A refusal names the option as it was typed, though the head names the field, or the option's own name."""

import pytest

from headnode.apps.cli.commands.job_submit import OPTIONS
from headnode.apps.cli.options import read_arguments
from headnode.apps.cli.typed_options import name_typed_options
from headnode.core.model.errors import BadRequest


@pytest.mark.parametrize(
    ("typed", "what", "path", "said"),
    [
        ("--deadline soon", "option 'endby': 'soon' is no date", ("endby",), "option '--deadline': 'soon'"),
        ("-t x", "option 'runtime': 'x' is no time", ("runtime",), "option '-t': 'x' is no time"),
        ("-n4-2", "the maximum 2 is below 4", ("maximum",), "option '-n': the maximum 2"),
        ("--num-cores=4-2", "the maximum 2 is below 4", ("maximum",), "option '--num-cores': the maximum 2"),
        ("/projectname:p", "project has 1 letter", ("project",), "option '/projectname': project has"),
        ("--feature x", "there is no x", ("needs", "features", 0), "option '--feature': there is no x"),
        ("-o f", "standard_output is long", ("tasks", 0, "standard_output"), "option '-o': standard_output"),
        ("--runtime x", "option 'runtime': 'x' is no time", ("runtime",), "option 'runtime': 'x'"),
        ("-N 1 -n 2", "options 'numprocessors' and 'numnodes' are given", (), "options '-n' and '-N' are"),
        ("--runtime 1m", "the job can never run", (), "the job can never run"),
        ("--runtime 1m", "project has 1 letter", ("project",), "project has 1 letter"),
    ],
)
def test_a_refusal_names_the_option_that_was_typed(
    typed: str, what: str, path: tuple[str | int, ...], said: str
) -> None:
    error = BadRequest(code="x", what=what, path=path)
    name_typed_options(error, read_arguments(typed.split(), OPTIONS))
    assert error.what.startswith(said)
