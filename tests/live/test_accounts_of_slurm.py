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
                "ProjectLimits": "idle:jobs=3,processors=8,gpus=2,submitted=50,"
                "processor-minutes=600,gpu-minutes=60,gpu-minutes-running=40,gpu-minutes-per-job=20",
                "UserLimits": "*:jobs=10,submitted=99",
            },
        )
        yield started


@pytest.fixture(scope="module")
def slurm(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    programs = Programs(head, tmp_path_factory.mktemp("slurm"), "--only", "slurm")
    for options in ("-A chem", "-A bio", ""):
        programs.output(f"sbatch --wait {options} -n 2 --wrap 'sleep 0.2'", programs.folder)
    return programs


def test_a_project_is_an_account_once_a_job_or_a_limit_names_it(slurm: Programs, tmp_path: Path) -> None:
    assert slurm.output("sacctmgr -nP show account format=account", tmp_path).split() == [
        "bio",
        "chem",
        "idle",
    ]
    output = slurm.output(
        "sacctmgr -nP show assoc format=cluster,account,user,grpjobs,grptres,grpsubmit", tmp_path
    )
    cluster = slurm.output("scontrol show config | sed -n 's/^ClusterName *= *//p'", tmp_path)
    assert output.splitlines() == [
        f"{cluster}|bio||||",
        f"{cluster}|bio|root|||",
        f"{cluster}|chem||||",
        f"{cluster}|chem|root|||",
        f"{cluster}|idle||3|cpu=8,gres/gpu=2|50",
        f"{cluster}|idle|root|||",
    ]
    minutes = "format=grptresmins,grptresrunmins,maxtresmins"
    assert slurm.output(f"sacctmgr -nP show assoc account=idle {minutes}", tmp_path).splitlines() == [
        "cpu=600,gres/gpu=60|gres/gpu=40|gres/gpu=20",
        "||",
    ]
    assert slurm.output("sacctmgr -nP show assoc account=chem user=root format=account", tmp_path) == "chem"
    assert (
        slurm.output("sacctmgr -nP show qos format=name,maxjobspu,maxsubmitpu", tmp_path) == "Default|10|99"
    )


@pytest.mark.parametrize(
    "command",
    ['sacctmgr -n -s list user "root" format=account%256', "sshare -U --format Account%256 --noheader"],
)
def test_tools_find_the_accounts_of_a_user(slurm: Programs, tmp_path: Path, command: str) -> None:
    assert slurm.output(command, tmp_path).split() == ["bio", "chem", "idle"]


def test_sshare_has_what_was_used_below_its_account(slurm: Programs, tmp_path: Path) -> None:
    output = slurm.output("sshare -aPn -o account,user,normshares,effectvusage,fairshare", tmp_path)
    rows = [line.split("|") for line in output.splitlines()]
    assert [(account, user) for account, user, *_ in rows] == [
        ("root", ""), (" root", "root"), (" bio", ""), ("  bio", "root"), (" chem", ""), ("  chem", "root"),
        (" idle", ""), ("  idle", "root"),
    ]  # fmt: skip
    assert {row[2] for row in rows[1:]} == {"0.250000"}, "nobody has jobs now, so all who had are compared"
    assert sum(float(row[3]) for row in rows if row[1]) <= 1.0 + 1e-5, "an hour of the cluster is much more"
    assert float(rows[-1][4]) == 1.0 > float(rows[3][4])


def test_sshare_and_sprio_have_the_shares_and_the_weighted_factors(slurm: Programs, tmp_path: Path) -> None:
    weights = {"PriorityWeights": "fair-share=1000,age=50", "ProjectShares": "chem:3;bio:1"}
    slurm.head.ask("set_parameters", values=weights)
    try:
        held = [slurm.output("sbatch --parsable -A bio -n 2 --wrap 'sleep 99'", tmp_path) for _ in range(3)]
        rows = slurm.output("sshare -aPn -A bio,chem -o account,rawshares,normshares", tmp_path).splitlines()
        assert [row for row in rows if not row.startswith("  ")] == [" bio|1|1.000000", " chem|3|0.750000"]
        shares = slurm.output("sacctmgr -nP show assoc account=chem format=user,share", tmp_path)
        assert shares.splitlines() == ["|3", "root|1"]
        lines = slurm.output("sprio -w", tmp_path).splitlines()
        assert lines[0].split() == ["JOBID", "PARTITION", "PRIORITY", "SITE", "AGE", "FAIRSHARE"]
        assert lines[1].split() == ["Weights", "50", "1000"]
        (waits,) = (line.split() for line in slurm.output(f"sprio -h -j {held[-1]}", tmp_path).splitlines())
        assert waits[0] == held[-1]
        assert 0 < int(waits[-1]) <= 1000
        (share,) = slurm.output(f"sprio -h -n -o %f -j {held[-1]}", tmp_path).split()
        assert float(share) == pytest.approx(int(waits[-1]) / 1000, abs=0.01)
        slurm.output(f"scancel {' '.join(held)}", tmp_path)
    finally:
        slurm.head.ask("set_parameters", values=dict.fromkeys(weights))


@pytest.mark.parametrize(
    ("words", "use"),
    [
        ("add account x", "hn cluster params ProjectLimits="),
        ("-i modify user where name=ada set maxjobs=5", "hn cluster params UserLimits="),
        ("delete qos long", "hn template import"),
        ("-i modify account chem set fairshare=3", "hn cluster params ProjectShares="),
        ("-i modify user ada set Fairshare=3", "hn cluster params UserShares="),
    ],
)
def test_what_changes_something_is_refused_with_the_command_that_does_it(
    slurm: Programs, tmp_path: Path, words: str, use: str
) -> None:
    done = slurm.run(f"sacctmgr {words}", tmp_path)
    assert done.returncode == 1
    assert use in done.stderr


def test_sreport_has_what_users_and_accounts_have_held(slurm: Programs, tmp_path: Path) -> None:
    period = "start=now-1hour end=now+1hour"
    by_account = slurm.output(
        f"sreport -nPt seconds cluster AccountUtilizationByUser {period} format=account,login,used", tmp_path
    )
    rows = [line.split("|") for line in by_account.splitlines()]
    seconds = {(account, login): int(used) for account, login, used in rows}
    assert list(seconds) == [(name, user) for name in ("root", "bio", "chem") for user in ("", "root")]
    assert seconds["bio", ""] == seconds["bio", "root"]
    jobs = slurm.head.ask("ended_jobs", limit=500)["jobs"]
    [chem] = [job for job in jobs if job["project"] == "chem" and job["started"]]
    assert abs(seconds["chem", "root"] - chem["processors"] * (chem["ended"] - chem["started"])) < 1.0
    top = f"sreport -nP -t seconds user top {period} format=login,account"
    assert sorted(slurm.output(top, tmp_path).splitlines()) == ["root|bio", "root|chem", "root|root"]
    assert slurm.output(f"{top} group", tmp_path) == "root|root,bio,chem"
    assert slurm.output(f"{top} group users=nobody", tmp_path) == ""
    assert slurm.output("sreport -nP us top start=2020-01-01 end=2020-02-01", tmp_path) == ""


def test_sreport_says_what_it_has_and_what_not(slurm: Programs, tmp_path: Path) -> None:
    heading = slurm.output("sreport cluster accountu start=2026-11-01 end=2026-11-02", tmp_path).splitlines()
    assert heading[1:3] == [
        "Cluster/Account/User Utilization 2026-11-01T00:00:00 - 2026-11-01T23:59:59 (86400 secs)",
        "Usage reported in CPU Minutes",
    ]
    assert heading[4].split() == ["Cluster", "Account", "Login", "Proper", "Name", "Used", "Energy"]
    for wrong, what in {
        "cluster utilization": "is no report here",
        "user top -t percent": "write one of seconds, minutes, hours",
        "user top -T gres/gpu": "only the usage of processors",
        "user top colour=red": "Unknown condition: colour=red",
        "user top start=2026-02-01 end=2026-01-01": "Start time must be before end time",
        "user top format=nosuch": "Unknown field 'nosuch'",
    }.items():
        assert what in slurm.output(f"sreport {wrong} 2>&1; true", tmp_path), wrong
