"""sacctmgr and sshare show users and projects, and change nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_programs import Programs

from heads import RealHead, real_head


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("accounts"), processors=2) as started:
        started.ask(
            "set_parameters",
            values={
                "ProjectLimits": "idle:jobs=3,processors=8,gpus=2,submitted=50",
                "UserLimits": "*:jobs=10,submitted=99",
            },
        )
        yield started


@pytest.fixture(scope="module")
def slurm(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    programs = Programs(head, tmp_path_factory.mktemp("slurm"), "--only", "slurm")
    for options in ("-A chem", "-A bio", ""):
        programs.said(f"sbatch --wait {options} -n 2 --wrap 'sleep 0.2'", programs.folder)
    return programs


def test_a_project_is_an_account_once_a_job_or_a_limit_names_it(slurm: Programs, tmp_path: Path) -> None:
    assert slurm.said("sacctmgr -nP show account format=account", tmp_path).split() == ["bio", "chem", "idle"]
    said = slurm.said(
        "sacctmgr -nP show assoc format=cluster,account,user,grpjobs,grptres,grpsubmit", tmp_path
    )
    cluster = slurm.said("scontrol show config | sed -n 's/^ClusterName *= *//p'", tmp_path)
    assert said.splitlines() == [
        f"{cluster}|bio||||",
        f"{cluster}|bio|root|||",
        f"{cluster}|chem||||",
        f"{cluster}|chem|root|||",
        f"{cluster}|idle||3|cpu=8,gres/gpu=2|50",
        f"{cluster}|idle|root|||",
    ]
    assert slurm.said("sacctmgr -nP show assoc account=chem user=root format=account", tmp_path) == "chem"
    assert slurm.said("sacctmgr -nP show qos format=name,maxjobspu,maxsubmitpu", tmp_path) == "Default|10|99"


@pytest.mark.parametrize(
    "command",
    ['sacctmgr -n -s list user "root" format=account%256', "sshare -U --format Account%256 --noheader"],
)
def test_tools_find_the_accounts_of_a_user(slurm: Programs, tmp_path: Path, command: str) -> None:
    assert slurm.said(command, tmp_path).split() == ["bio", "chem", "idle"]


def test_sshare_has_what_was_used_below_its_account(slurm: Programs, tmp_path: Path) -> None:
    said = slurm.said("sshare -aPn -o account,user,normshares,effectvusage,fairshare", tmp_path)
    rows = [line.split("|") for line in said.splitlines()]
    assert [(account, user) for account, user, *_ in rows] == [
        ("root", ""), (" root", "root"), (" bio", ""), ("  bio", "root"), (" chem", ""), ("  chem", "root"),
        (" idle", ""), ("  idle", "root"),
    ]  # fmt: skip
    assert {row[2] for row in rows[1:]} == {"0.250000"}
    assert sum(float(row[3]) for row in rows if row[1]) == pytest.approx(1.0, abs=1e-5)
    assert float(rows[-1][4]) == 1.0 > float(rows[3][4])


@pytest.mark.parametrize(
    ("words", "use"),
    [
        ("add account x", "hn cluster params ProjectLimits="),
        ("-i modify user where name=ada set maxjobs=5", "hn cluster params UserLimits="),
        ("delete qos long", "hn template import"),
    ],
)
def test_what_changes_something_is_refused_with_the_command_that_does_it(
    slurm: Programs, tmp_path: Path, words: str, use: str
) -> None:
    done = slurm.run(f"sacctmgr {words}", tmp_path)
    assert done.returncode == 1
    assert use in done.stderr
