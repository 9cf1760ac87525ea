"""The Debian package: what is in it, and that a cluster runs from it where it is unpacked."""

import os
import shutil
from pathlib import Path

import pytest

from testbed.s3_server import s3_server
from testbed.system_packages import NAMING_THE_BUILD, built, ran, run_apart

PYTHON = Path("/usr/bin/python3")
SERVICES = {"s3", "sts", "sso", "sso-oidc", "signin"}  # of botocore
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the package at its place"),
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="this is no Debian"),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package, without spending time on making it small."""
    return built("debian", PYTHON, tmp_path_factory.mktemp("deb"), DPKG_DEB_COMPRESSOR_TYPE="none")


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack it into a directory."""
    root = tmp_path_factory.mktemp("root")
    ran("dpkg-deb", "--extract", package, root)
    return root


def _packages(unpacked: Path) -> Path:
    (found,) = unpacked.glob("opt/headnode/.venv/lib/python3*/site-packages")
    return found


def test_everything_belongs_to_root_and_no_path_of_the_build_is_left(package: Path, unpacked: Path) -> None:
    listing = [line.split(None, 5) for line in ran("dpkg-deb", "--contents", package).splitlines()]
    assert {line[1] for line in listing} == {"root/root"}
    assert not [line[5] for line in listing if line[0][8] == "w" and not line[0].startswith("l")]
    assert not ran("sh", "-c", f"{NAMING_THE_BUILD} {unpacked} || true")


def test_the_units_start_programs_that_the_package_has(unpacked: Path) -> None:
    units = sorted((unpacked / "usr/lib/systemd/system").iterdir())
    assert [unit.name for unit in units] == [
        "headnode-agent.service", "headnode-sssrmap.service", "headnode-web.service", "headnode.service",
    ]  # fmt: skip
    for unit in units:
        program = unit.read_text().partition("ExecStart=")[2].split()[0]
        assert os.path.lexists(unpacked / program[1:]), program
        document = unit.read_text().partition("Documentation=file:///")[2].split()[0]
        assert (unpacked / document).is_file()


def test_pages_and_completion_are_where_the_system_looks_for_them(unpacked: Path) -> None:
    assert (unpacked / "usr/share/man/man1/hn.1.gz").is_file()
    assert "hn" in (unpacked / "usr/share/bash-completion/completions/hn").read_text()
    assert (unpacked / "usr/bin/hn").readlink() == Path("/opt/headnode/.venv/bin/hn")


def _run_inside(unpacked: Path, folder: Path, lines: str) -> str:
    """Run lines of shell where the package is at its place; `$hn` is its command."""
    mounted = f"""
        mkdir /opt/headnode
        mount --bind {unpacked}/opt/headnode /opt/headnode
        hn=/opt/headnode/.venv/bin/hn
    """
    return run_apart(folder, mounted + lines)


CLUSTER = """
        $hn up > up
        trap '$hn down --cancel-jobs > down' EXIT
"""


def test_a_job_runs_on_a_cluster_of_the_package(unpacked: Path, tmp_path: Path) -> None:
    lines = f"""{CLUSTER}
        $hn job submit --wait 'readlink -f /proc/$PPID/exe; echo job %CCP_JOBID%'
    """
    *_, shepherd, found = _run_inside(unpacked, tmp_path, lines).splitlines()
    assert (Path(shepherd), found) == (PYTHON.resolve(), "job 1")


def test_files_are_staged_with_s3_by_what_the_package_has_of_botocore(unpacked: Path, tmp_path: Path) -> None:
    for name in ("botocore", "moto", "flask"):
        pytest.importorskip(name)
    services = _packages(unpacked) / "botocore" / "data"
    assert {each.name for each in services.iterdir() if each.is_dir()} == SERVICES
    (tmp_path / ".aws").mkdir()
    with s3_server() as storage:
        storage.ask("PUT", "/bucket")
        storage.ask("PUT", "/bucket/in", b"5 words of some text")
        (tmp_path / ".aws" / "config").write_text(
            f"[default]\nendpoint_url = {storage.endpoint}\nregion = us-east-1\n"
            "aws_access_key_id = a\naws_secret_access_key = b\n"
        )
        staged = "--stage-in s3://bucket/in=in --stage-out out=s3://bucket/out"
        lines = f"""{CLUSTER}
            $hn cluster params TransferNetworks=127.0.0.1
            $hn job submit --wait {staged} 'wc -w < in > out'
            $hn job submit --wait --stage-in s3://bucket/out=out cat out
        """
        assert _run_inside(unpacked, tmp_path, lines).split()[-1] == "5"


def test_every_service_that_logs_in_to_storage_is_in_the_package(unpacked: Path) -> None:
    """The credentials of `~/.aws` may be those of a role, of single sign-on, or of `aws login`."""
    create = "session.get_session().create_client(name, 'us-east-1')"
    program = f"import sys; from botocore import session; [{create} for name in sys.argv[1:]]"
    ran(PYTHON, "-c", program, *SERVICES, PYTHONPATH=str(_packages(unpacked)))


def test_a_report_is_drawn_by_what_the_package_has_of_plotly(unpacked: Path, tmp_path: Path) -> None:
    jobs = [f"{n} {n} 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 9)]
    (tmp_path / "log.swf").write_text("".join(jobs))
    _run_inside(unpacked, tmp_path, "$hn simulate log.swf --processors 2 --html report.html")
    assert b"Plotly.newPlot" in (tmp_path / "report.html").read_bytes()
