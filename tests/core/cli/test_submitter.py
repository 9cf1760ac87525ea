"""What a job takes from the shell that it is submitted from."""

import pytest

from headnode.apps.client.submitter import below, passed_variables
from headnode.core.launching.expansion import expand_path
from headnode.core.model.errors import BadRequest
from headnode.core.model.task import substitute

SESSION = (
    "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TERM", "DISPLAY", "SSH_AUTH_SOCK", "SUDO_USER", "PS1",
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "LD_PRELOAD", "CCP_JOBID", "HEADNODE_STATE",
    "HYDRA_LAUNCHER", "OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "PBS_NODEFILE",
)  # fmt: skip
WANTED = ("PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LOADEDMODULES", "PYTHONPATH", "OMP_NUM_THREADS", "LANG")


def test_all_variables_are_passed_but_those_of_the_login_the_terminal_the_loader_and_the_own_job() -> None:
    mine = dict.fromkeys((*SESSION, *WANTED), "x")
    assert passed_variables(mine) == dict.fromkeys(WANTED, "x")


def test_an_empty_variable_is_not_passed_for_it_would_take_the_name_away() -> None:
    assert passed_variables({"PATH": "", "A": "1"}) == {"A": "1"}


@pytest.mark.parametrize("here", ["/data/a*b", "/data/^^x", "/data/^*", "/data/***", "/data/100%", "/a b;c"])
@pytest.mark.parametrize("given", ["", "run1"])
def test_a_task_and_each_instance_of_a_sweep_run_in_the_directory_by_its_very_name(
    here: str, given: str
) -> None:
    wanted = f"{here}/{given}".rstrip("/")
    assert expand_path(below(here, given, swept=False), {}) == wanted
    assert expand_path(substitute(below(here, given, swept=True), 7), {}) == wanted


@pytest.mark.parametrize("here", ["/data/$HOME", "/data/${x}", "/data/%CCP_JOBID%"])
def test_a_directory_that_the_node_would_call_otherwise_is_refused(here: str) -> None:
    with pytest.raises(BadRequest, match="has a name that is read as a variable"):
        below(here, "", swept=False)
