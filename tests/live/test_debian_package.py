"""The Debian package: what is in it, and that a cluster runs from it where it is unpacked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.s3_server import s3_server

BUILD = Path(__file__).parents[2] / "packaging" / "debian" / "build"
PYTHON = Path("/usr/bin/python3")
WAIT = 300.0  # seconds
SERVICES = {"s3", "sts", "sso", "sso-oidc", "signin"}  # of botocore
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the package at its place"),
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="this is no Debian"),
]


def _ran(*words: object, **more: str) -> str:
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **more}
    result = subprocess.run(
        [*map(str, words)], env=environment, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package, without spending time on making it small."""
    can_build = [PYTHON, "-c", "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"]
    if not PYTHON.exists() or subprocess.run(can_build, capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} is not 3.11 or newer, or has no venv module: apt-get install python3-venv")
    command = [BUILD, Path(sys.executable).with_name("hn"), tmp_path_factory.mktemp("deb")]
    uncompressed = {"DPKG_DEB_COMPRESSOR_TYPE": "none", "HOME": os.environ.get("HOME", "/root")}
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return Path(_ran(*command, **uncompressed, **pip).splitlines()[-1])


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack it into a directory."""
    root = tmp_path_factory.mktemp("root")
    _ran("dpkg-deb", "--extract", package, root)
    return root


def _packages(unpacked: Path) -> Path:
    (found,) = unpacked.glob("opt/headnode/.venv/lib/python3*/site-packages")
    return found


def test_everything_belongs_to_root_and_no_path_of_the_build_is_left(package: Path, unpacked: Path) -> None:
    listing = [line.split(None, 5) for line in _ran("dpkg-deb", "--contents", package).splitlines()]
    assert {line[1] for line in listing} == {"root/root"}
    assert not [line[5] for line in listing if line[0][8] == "w" and not line[0].startswith("l")]
    assert not _ran("sh", "-c", f"grep -rlE '/tmp/tmp[.]|{BUILD.parents[2]}' {unpacked} || true")


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
        set -e
        mount -t tmpfs none /opt
        mkdir /opt/headnode
        mount --bind {unpacked}/opt/headnode /opt/headnode
        cd {folder}
        hn=/opt/headnode/.venv/bin/hn
    """
    own = {"HEADNODE_STATE": str(folder / "state"), "HEADNODE_RESIDENT_CLIENT": "0", "HOME": str(folder)}
    return _ran("unshare", "--mount", "sh", "-c", mounted + lines, **own)


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
    _ran(PYTHON, "-c", program, *SERVICES, PYTHONPATH=str(_packages(unpacked)))


def test_a_report_is_drawn_by_what_the_package_has_of_plotly(unpacked: Path, tmp_path: Path) -> None:
    jobs = [f"{n} {n} 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 9)]
    (tmp_path / "log.swf").write_text("".join(jobs))
    _run_inside(unpacked, tmp_path, "$hn simulate log.swf --processors 2 --html report.html")
    assert b"Plotly.newPlot" in (tmp_path / "report.html").read_bytes()
