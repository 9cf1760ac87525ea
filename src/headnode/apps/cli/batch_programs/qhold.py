"""``qhold`` and ``qrls`` of PBS and of Grid Engine: the hold of the user, set and released.

Source:  PBS Professional 22, qhold(1B), qrls(1B); Grid Engine 8.1, qhold(1), qrls(1).
"""

import sys

from headnode.apps.cli.batch_programs.qsub import UNKNOWN_JOB, ids_of
from headnode.apps.cli.batch_programs.rows import LIVING, JobSource, numbers_of
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, number_of, read_pbs_words
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = {"pbs": acted_on("h"), "gridengine": acted_on("h u")}
_VERBS = {"qhold": "hold_job", "qrls": "release_job"}
_WRONG_STATE = 168  # the last byte of 15016
_DENIED = 3


def run(program: str, argv: "Sequence[str]", client: Client, system: str) -> int:
    """Hold or release each job; the worst exit status counts."""
    args = read_pbs_words(program, argv, OPTIONS[system])
    if args.value("h").strip("nu"):
        what = f"-h {args.text('h')} is not supported here: the hold is that of the user"
        raise ProgramRefusal(what, prefix="")
    targets, users = args.jobs(), args.parts("u")
    source = JobSource(client)
    targets += ids_of(users, source, ("Queued",))
    if not targets and not users:
        raise ProgramRefusal("no job was named", status=2, prefix="")
    return max([_act(program, target, source, system) for target in targets], default=0)


def _act(program: str, target: str, source: JobSource, system: str) -> int:
    from headnode.core.model.errors import NotFound, Refused

    job = number_of(target.partition(".")[0].partition("[")[0])
    listed = [] if job is None else source.listed([job])
    try:
        if not listed:
            raise NotFound(code="no-such-job", what=f"there is no job {target}")
        source.client.ask(_VERBS[program], job=job)
    except Refused as refused:
        return _refused(
            program, target, refused.what, system, known=bool(listed) and listed[0]["state"] in LIVING
        )
    if system == "gridengine":
        numbers = numbers_of(listed[0]["array"]) if listed[0]["array"] else ()
        for each in numbers or ("",):
            print(f"modified hold of job-array task {job}.{each}" if each else f"modified hold of job {job}")
    return 0


def _refused(program: str, target: str, what: str, system: str, *, known: bool) -> int:
    if system == "gridengine":
        print(f"denied: {what}" if known else f'denied: job "{target}" does not exist')
        return _DENIED
    message = "Request invalid for state of job" if known else "Unknown Job Id"
    sys.stderr.write(f"{program}: {message} {target}\n")
    return _WRONG_STATE if known else UNKNOWN_JOB
