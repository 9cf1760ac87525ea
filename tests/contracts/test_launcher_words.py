"""The launcher's command line is that of rsh and ssh."""

import pytest

from headnode.adapters.processes.launcher import handed_on, read_words


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["n2", "hostname"], (True, "n2", "hostname")),
        (["n2", "echo", "a  b", ";", "c"], (True, "n2", "echo a  b ; c")),
        (["-n", "n2", "ls", "-n"], (False, "n2", "ls -n")),
        (["-x", "-l", "ann", "-p", "22", "n2", "ls"], (True, "n2", "ls")),
        (["-oBatchMode=yes", "n2", "ls"], (True, "n2", "ls")),
        (["ann@n2", "ls"], (True, "n2", "ls")),
        (["--", "n2", "ls", "--", "x"], (True, "n2", "ls -- x")),
        (["n2", "--", "ls"], (True, "n2", "ls")),
    ],
)
def test_words_are_read_as_rsh_does(words: list[str], read: tuple[bool, str, str]) -> None:
    assert read_words(words) == read


@pytest.mark.parametrize("words", [[], ["n2"], ["-n"], ["-l", "ann", "n2"]])
def test_a_host_and_a_command_are_needed(words: list[str]) -> None:
    with pytest.raises(ValueError, match="usage"):
        read_words(words)


def test_what_belongs_to_this_node_or_to_an_mpiexec_is_not_handed_on() -> None:
    own = {"OMP_NUM_THREADS": "4", "PATH": "/a", "LD_LIBRARY_PATH": "/b"}
    others = dict.fromkeys(("HOME", "PWD", "HEADNODE_NODE", "CCP_COREIDS", "PMI_FD", "PRTE_MCA_x", "_"), "x")
    assert handed_on({**own, **others}) == own


def test_variables_that_are_not_utf_8_are_not_handed_on() -> None:
    assert handed_on({"OMP_NUM_THREADS": "4", "CITY": "K\udcf6ln", "K\udcf6ln": "x"}) == {
        "OMP_NUM_THREADS": "4"
    }
