"""The RPM package: what it requires, and that it is installed, upgraded and removed, with jobs in between."""

import os
import shutil
from pathlib import Path

import pytest

from testbed.system_packages import NAMING_THE_BUILD, built, ran, run_apart

PYTHON = Path("/usr/bin/python3").resolve()
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the package at its place"),
    pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="rpmbuild is missing: apt-get install rpm"),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package on the Python of this system."""
    return built("rpm", PYTHON, tmp_path_factory.mktemp("rpm"), RPM_PYTHON=str(PYTHON))


def asked(package: Path, *words: str) -> str:
    return ran("rpm", "-qp", *words, package)


def test_it_requires_the_python_that_it_was_built_on_and_what_every_system_has(package: Path) -> None:
    required = {line.split()[0] for line in asked(package, "--requires").splitlines()}
    assert {name for name in required if not name.startswith("rpmlib")} == {str(PYTHON), "glibc", "/bin/sh"}


def test_everything_belongs_to_root_and_nobody_else_may_write_it(package: Path) -> None:
    form = "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME}\n]"
    files = [line.split() for line in asked(package, "--qf", form).splitlines()]
    assert {(user, group) for _, user, group in files} == {("root", "root")}
    assert not [mode for mode, *_ in files if not mode.startswith("l") and "w" in (mode[5], mode[8])]


def test_it_is_installed_runs_jobs_is_upgraded_and_leaves_nothing_but_jobs(
    package: Path, tmp_path: Path
) -> None:
    layer = tmp_path / "layer"
    own = f"--dbpath {tmp_path}/db --nodeps"  # this system keeps its packages elsewhere
    lines = f"""
        mkdir {layer}
        mount -t tmpfs none {layer}
        mkdir {layer}/upper {layer}/work
        mount -t overlay overlay -o lowerdir=/usr,upperdir={layer}/upper,workdir={layer}/work /usr
        rpm -i {own} {package} 2> /dev/null
        hn up > up
        trap 'hn down --cancel-jobs > down' EXIT
        hn job submit --wait 'readlink -f /proc/$PPID/exe; echo job %CCP_JOBID%'
        rpm -V {own} headnode
        rpm -U --force {own} {package} 2> /dev/null
        hn job submit --wait 'echo job %CCP_JOBID%'
        trap - EXIT
        hn down > down
        ls /usr/share/man/man1/hn.1.gz /usr/share/bash-completion/completions/hn
        LC_ALL=C ls /usr/lib/systemd/system/headnode*
        {NAMING_THE_BUILD} /opt/headnode || true
        rpm -e {own} headnode 2> /dev/null
        ls /opt
        test ! -e /usr/bin/hn
        test -e state
    """
    output = run_apart(tmp_path, lines).splitlines()
    assert [line for line in output if not line.startswith("Job ")] == [
        str(PYTHON), "job 1", "job 2",
        "/usr/share/bash-completion/completions/hn",
        "/usr/share/man/man1/hn.1.gz",
        *(f"/usr/lib/systemd/system/headnode{part}.service" for part in ("-agent", "-sssrmap", "-web", "")),
    ]  # fmt: skip
