"""An agent finds the GPUs of its machine by real programs, and none where these are broken."""

import os
from pathlib import Path

import pytest

from headnode.adapters.processes import gpus
from headnode.apps.agent.machine import facts_of_this_machine, gpus_of_this_machine, read_options
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeFacts
from heads import real_head

GIVEN = ["--head", "h", "--state", "s", "--name", "n1"]
TWO = """#!/bin/sh
[ "$1" = --query-gpu=index,uuid,name,pci.bus_id ] || exit 2
[ "$2" = --format=csv,noheader ] || exit 2
echo "0, GPU-5a6f9f2c-1b0e-4a3f-9d53-0f6a7d6c1e11, NVIDIA A100-SXM4-40GB, 00000000:07:00.0"
echo "1, GPU-0c3f1f04-95c3-4a52-8f6c-6a1e5c2b7d22, NVIDIA A100-SXM4-40GB, 00000000:0F:00.0"
"""
BROKEN = {
    "it prints another thing": "echo NVIDIA-SMI has failed because it could not communicate with the driver.",
    "it fails": "echo 0, GPU-1, NVIDIA T4, 00000000:07:00.0; exit 9",
    "it prints without end": "exec yes 0, GPU-1, NVIDIA T4, 00000000:07:00.0",
    "it prints ten megabytes": "head -c 10000000 /dev/zero",
    "it hangs": "exec sleep 600",
    "it hangs behind another process": "sleep 600 & wait",
    "it prints nothing": "",
}


def with_program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program first on PATH that is called nvidia-smi."""
    (folder / "nvidia-smi").write_text(script)
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def found(*options: str) -> NodeFacts:
    read = read_options([*GIVEN, *options])
    return facts_of_this_machine(read, gpus_of_this_machine(read))


def test_gpus_are_counted_and_their_models_are_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_program(tmp_path, monkeypatch, TWO)
    facts = found("--features", "ssd,gpu")
    assert facts.gpus == 2
    assert facts.features == ("ssd", "gpu", "nvidia_a100-sxm4-40gb", "a100", "sxm4")


def test_an_agent_counts_as_many_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_program(tmp_path, monkeypatch, TWO)
    assert found("--gpus", "3").gpus == 3
    none = found("--gpus", "0")
    assert (none.gpus, none.features) == (0, ())


def test_an_agent_in_a_job_of_another_scheduler_has_the_gpus_of_that_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_program(tmp_path, monkeypatch, TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpus_of_this_machine(read_options(GIVEN)).names == ("1",)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    facts = found()
    assert (facts.gpus, facts.features) == (0, ())


def test_the_first_of_several_nodes_of_a_machine_has_its_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_program(tmp_path, monkeypatch, TWO)
    with real_head(tmp_path, nodes=2) as head:
        counted = sorted((node["name"], node["gpus"]) for node in head.ask("nodes")["nodes"])
    assert [gpus for _, gpus in counted] == [2, 0]


@pytest.mark.parametrize("what", BROKEN)
def test_a_program_that_does_not_work_counts_as_no_gpus(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpus, "TIME_LIMIT", 0.5)
    with_program(tmp_path, monkeypatch, f"#!/bin/sh\n{BROKEN[what]}\n")
    facts = found()
    assert (facts.gpus, facts.features) == (0, ())
    assert len(caplog.records) == (what != "it prints nothing")


def test_gpus_of_amd_are_those_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_program(tmp_path, monkeypatch, "#!/bin/sh\n")
    for node, shown in (
        ("0", "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"),
        ("1", "cpu_cores_count 0\nsimd_count 440\ngfx_target_version 90010\n"),
        ("2", "cpu_cores_count 0\nsimd_count 440\ngfx_target_version 90010\n"),
    ):
        (tmp_path / "nodes" / node).mkdir(parents=True)
        (tmp_path / "nodes" / node / "properties").write_text(shown)
    monkeypatch.setattr(gpus, "_AMD_NODES", tmp_path / "nodes")
    monkeypatch.setattr(gpus, "_AMD_DEVICE", tmp_path)
    machine = gpus_of_this_machine(read_options(GIVEN))
    assert (machine.names, machine.vendor) == (("0", "1"), "amd")
    assert machine.features == ("gpu", "amd_gfx90a", "gfx90a")
    monkeypatch.setattr(gpus, "_AMD_DEVICE", tmp_path / "none")
    assert not found().gpus


def test_a_program_that_other_users_can_change_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_program(tmp_path, monkeypatch, TWO)
    (tmp_path / "nvidia-smi").chmod(0o757)
    assert found().gpus == 0
    assert "can be changed by everybody" in caplog.text


def test_a_number_of_gpus_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_options([*GIVEN, "--gpus", "-1"])
    assert "'-1' is not a whole number from 0 to 1024" in capsys.readouterr().err


def test_gpus_can_be_named_by_their_device_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_program(tmp_path, monkeypatch, "#!/bin/sh\n")
    read = read_options([*GIVEN, "--gpu-files", "/dev/null,/dev/zero"])
    machine = gpus_of_this_machine(read)
    assert (machine.names, machine.devices) == (("0", "1"), (((1, 3),), ((1, 5),)))
    assert found("--gpu-files", "/dev/null", "--gpus", "0").gpus == 0
    for wrong, what in (("/dev/null,/etc/passwd", "is no device file"), ("/dev/null", "not the same number")):
        with pytest.raises(BadRequest, match=what):
            found("--gpu-files", wrong, "--gpus", str(2))


def test_the_devices_of_gpus_are_found_and_those_that_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_program(tmp_path, monkeypatch, TWO)
    monkeypatch.setattr(gpus, "_NVIDIA_GPUS", tmp_path / "proc")
    monkeypatch.setattr(gpus, "_DEVICES", tmp_path)
    assert gpus_of_this_machine(read_options(GIVEN)).devices == ()
    for bus, minor, device in (("0000:07:00.0", 1, "/dev/null"), ("0000:0f:00.0", 0, "/dev/zero")):
        (tmp_path / "proc" / bus).mkdir(parents=True)
        (tmp_path / "proc" / bus / "information").write_text(f"Model: \t NVIDIA\nDevice Minor: \t {minor}\n")
        (tmp_path / f"nvidia{minor}").symlink_to(device)
    assert gpus_of_this_machine(read_options(GIVEN)).devices == (((1, 3),), ((1, 5),))
    one = gpus_of_this_machine(read_options([*GIVEN, "--gpus", "1"]))
    assert (one.devices, one.other_devices) == ((((1, 3),),), ((1, 5),))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    last = gpus_of_this_machine(read_options(GIVEN))
    assert (last.names, last.devices, last.other_devices) == (("1",), (((1, 5),),), ((1, 3),))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5a6f9f2c")
    assert gpus_of_this_machine(read_options(GIVEN)).devices == ()
