"""A resource whose scheduler was replaced gets its jobs by the commands of the new one."""

import os
import pwd
from pathlib import Path

from headnode.adapters.batch.orders import HandOffOrder, HandOffRound
from headnode.apps.handoff import HandOffProcess
from headnode.core.batch.attempt import ForeignAttempt
from headnode.core.batch.dialect import AttemptPlace, marker_of
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.task import TaskSpec


def order_for(resource: BatchResource) -> HandOffOrder:
    """Return the order to hand over one task of the user of this process."""
    own = pwd.getpwuid(os.geteuid())
    key = AttemptPlace(1, 1, 1, 1)
    spec = JobSpec(tasks=(TaskSpec(command="true"),))
    marker = marker_of(resource.mark, key)
    attempt = ForeignAttempt(key, marker, spec, own.pw_name, own.pw_dir, "/attempts", resource, "c", "h")
    return HandOffOrder(
        resource=resource.key,
        key=key,
        owner=own.pw_name,
        uid=own.pw_uid,
        gid=own.pw_gid,
        submission=attempt.submission(Instant(0.0)),
        script=attempt.script(),
    )


def test_a_job_is_submitted_by_the_commands_of_the_system_that_its_resource_has_now(tmp_path: Path) -> None:
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    attempts = tmp_path / "attempts"
    (attempts / pwd.getpwuid(os.geteuid()).pw_name).mkdir(parents=True)
    for name in ("sbatch", "qsub"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> {log}\necho no >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    resources = [
        BatchResource(
            name="physics",
            system=system,
            mark="12345678",
            programs=str(programs),
            directory=str(attempts),
        )
        for system in (ResourceSystem.SLURM, ResourceSystem.PBS)
    ]
    process = HandOffProcess()
    process.carry_out(HandOffRound(1, resources=(resources[0],)))
    process.carry_out(HandOffRound(2, resources=(resources[1],), orders=(order_for(resources[1]),)))
    while not process.answer(3).reports:
        continue
    assert set(log.read_text().split()) == {"qsub"}
