"""A slurm.conf becomes commands: what they set, what is reported, and no text of it is a command."""

import shlex
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.batch.slurm_conf import setup_script
from headnode.core.formats.job_templates import read_template
from headnode.core.model.errors import BadRequest
from headnode.engine.settings import check_parameter

NODES = "NodeName=DEFAULT CPUs=8\nNodeName=n[1-3] Feature=ib\nNodeName=g1 Gres=gpu:4 Weight=7\n"


def commands(text: str) -> list[list[str]]:
    """Return the commands of the script, as a shell reads them, without the files of templates."""
    found, inside = [], False
    for line in setup_script(text).splitlines():
        if not inside and (words := shlex.split(line, comments=True)):
            found.append(words)
        inside = line.startswith("cat > ") or (inside and line != "END")
    return found


def parameters(text: str) -> dict[str, str]:
    words = (line[3] for line in commands(text) if line[:3] == ["hn", "cluster", "params"])
    return dict(word.split("=", 1) for word in words)


@pytest.mark.parametrize(
    ("line", "set_"),
    [
        ("SlurmdTimeout=300", {"HeartbeatInterval": "100s", "InactivityCount": "3"}),
        ("KillWait=0", {"TaskCancelGracePeriod": "0s"}),
        ("SchedulerType=sched/builtin", {"SchedulingPolicy": "fcfs"}),
        ("SchedulerType=sched/backfill", {}),
        ("Licenses=a:3,b", {"Licences": "a:3,b:1"}),
        ("Prolog=/etc/p.sh", {"PrologProgram": "/etc/p.sh"}),
        ("PriorityDecayHalfLife=14-0", {"UsageHalfLife": "1209600s"}),
        (
            "PriorityWeightAge=5 \\\nPriorityWeightJobSize=7\nPriorityFavorSmall=yes",
            {"PriorityWeights": "age=5,size=-7"},
        ),
        ("PriorityType=priority/basic\nPriorityWeightAge=5", {}),
    ],
)
def test_a_setting_becomes_the_parameter_of_the_same_meaning(line: str, set_: dict[str, str]) -> None:
    found = parameters("ClusterName=lab\n" + line)
    assert found == set_
    for name, value in found.items():
        check_parameter(name, value)  # the head takes it


def test_partitions_become_node_groups_and_job_templates() -> None:
    text = NODES + (
        "PartitionName=DEFAULT MaxTime=2-0\nPartitionName=batch Nodes=n[1-3] Default=YES DefaultTime=30\n"
        "PartitionName=gpu Nodes=g1 AllowGroups=staff MaxTime=60\n"
        "PartitionName=open Nodes=ALL MaxTime=UNLIMITED\n"
    )
    found = commands(text)
    assert ["hn", "node", "set", "n[1-3]", "--groups", "batch,open", "--features", "ib"] in found
    assert ["hn", "node", "set", "g1", "--groups", "gpu,open"] in found
    assert ["hn", "node", "invite", "--approve", "--for", "n[1-3],g1"] in found
    imported = [line[3] for line in found if line[:3] == ["hn", "template", "import"]]
    assert imported == ["batch.toml", "gpu.toml", "Default.toml"]
    assert 'groups = ["staff"]\n[run_time]\ndefault = "1h"\nmost = "1h"\n' in setup_script(text)
    assert 'name = "Default"\n[run_time]\ndefault = "30m"\n[node_groups]' in setup_script(text)


def test_what_is_not_carried_over_is_named_with_its_line_and_what_is_there_instead() -> None:
    script = setup_script(f"ClusterName=lab\nJobSubmitPlugins=lua\nFancy=1\nInclude more.conf\n{NODES}")
    assert "line 2: jobsubmitplugins=lua: write a submission filter" in script
    assert "line 3: fancy=1" in script
    assert "include more.conf is not read" in script
    assert "weight=7 of g1: a job orders nodes by /orderby" in script


@pytest.mark.parametrize("text", ["", "# nothing\n", "#!/bin/sh\necho hello\n", "NodeName=n[1-9999999]"])
def test_what_is_no_slurm_conf_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        setup_script(text)


EVIL = "$(touch /x)`id`;'\"\\&|<>\n"


@given(
    st.text(alphabet="abE[1-3],=/. #" + EVIL, max_size=40),
    st.sampled_from(["ClusterName", "Prolog", "Licenses"]),
)
def test_no_text_of_the_file_becomes_a_command(value: str, key: str) -> None:
    text = f"{key}={value}\nPartitionName={value} Nodes={value} AllowGroups={value}\n"
    text += f"NodeName=a Feature={value}\nPartitionName=p Nodes=a AllowGroups={value} MaxTime=5\n"
    try:
        found = commands(text)
    except BadRequest:
        return
    known = {("hn", "up"), ("hn", "cluster"), ("hn", "node"), ("hn", "template"), ("cat", ">")}
    assert {tuple(words[:2]) for words in found} <= known
    assert all(not set(words[2]) & set("$()`;'\"\\&|<>/ \n") for words in found if words[0] == "cat")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        script = setup_script(text)
    except BadRequest:
        return
    assert script.startswith("# Read this script")


@pytest.mark.parametrize("hidden", ["\x1b[2K", "\0", "\u202e", "\x9b", "\u200b"])
def test_a_setting_that_terminals_do_not_show_is_refused_with_its_line(hidden: str) -> None:
    setup_script(f"ClusterName=lab # {hidden}\n")  # no text of a comment is printed
    with pytest.raises(BadRequest, match=r"line 2 has the character U\+"):
        setup_script(f"# a comment\nClusterName=lab{hidden}\n")


def test_a_node_whose_name_would_be_an_option_is_named_and_left_out() -> None:
    text = "NodeName=--force,n1 Feature=ib\nPartitionName=p Nodes=--force,n1\n"
    assert "line 1: '--force' cannot be the name of a node" in setup_script(text)
    assert "--force" not in {word for line in commands(text) for word in line}
    assert ["hn", "node", "set", "n1", "--groups", "p", "--features", "ib"] in commands(text)


@pytest.mark.parametrize(
    "text",
    [
        "X=1 " + "a" * 1_000_000,
        "NodeName=a\nPartitionName=p Nodes=" + "," * 1_000_000,
        "NodeName=n[1-60000]\nPartitionName=p Nodes=" + "ALL," * 100_000,
        "NodeName=n[1-60000]\nNodeSet=s Nodes=n[1-60000]\nPartitionName=p Nodes=" + "s," * 100_000,
        "NodeName=n[1-60000]\n" + "".join(f"PartitionName=p{i} Nodes=ALL\n" for i in range(50_000)),
        "NodeName=n[1-60000]\n" + "".join(f"PartitionName=p{i} Nodes=n{i}\n" for i in range(50_000)),
        "".join(f"NodeName=a{i}x[1-60000]\n" for i in range(100_000)),
    ],
    ids=["word", "commas", "all", "sets", "partitions", "small-partitions", "nodes"],
)
def test_a_large_file_is_read_or_refused_in_seconds(text: str) -> None:
    begin = time.process_time()
    with suppress(BadRequest):
        setup_script(text)
    assert time.process_time() - begin < 10


def test_the_head_reads_the_templates() -> None:
    script = setup_script(
        "PartitionName=p MaxTime=1-12:30 MaxNodes=4 OverSubscribe=EXCLUSIVE Nodes=ALL\nNodeName=a\n"
    )
    text = script.partition("<<'END'\n")[2].partition("END\n")[0]
    assert read_template(text).name == "p"
    with pytest.raises(BadRequest):
        read_template(text.replace("1d12h30m", "1-12:30"))
