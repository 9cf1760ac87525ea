"""What each command of a submit file asks for, also of the files that are brought and taken away.

Source:  HTCondor 24, condor_submit(1), "Submit Description File Commands", "FILE TRANSFER COMMANDS".
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.command_reading import (
    SubmitCommand,
    as_written,
    at_least_one,
    number,
    sets,
    truth,
)
from headnode.core.formats.condor.draft import DOES_TRANSFER, LEAVE_IN_QUEUE, SubmitDraft
from headnode.core.formats.condor.expressions import whole_number
from headnode.core.formats.condor.policy_commands import POLICY_COMMANDS
from headnode.core.formats.condor.requirements import read_rank, read_requirements
from headnode.core.formats.condor.words import listed, read_arguments, read_environment, unquoted
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.staging import is_url

_KEPT, _TRANSLATED, _APPROXIMATED = Fidelity.KEPT, Fidelity.TRANSLATED, Fidelity.APPROXIMATED


def _should_transfer(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    word = text.strip('"').upper()
    if word not in DOES_TRANSFER:
        place.refuse(f"{text[:40]!r} is not understood", "write YES, NO or IF_NEEDED")
    draft.transfers = DOES_TRANSFER[word]
    if word == "IF_NEEDED":
        place.report(
            _TRANSLATED, "files are staged if transfer_input_files or transfer_output_files names any"
        )
    else:
        place.report(
            _KEPT, "the program runs in a directory of its own" if draft.transfers else "no files are staged"
        )


def _when_to_transfer(draft: SubmitDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    word = text.strip('"').upper()
    if word == "ON_EXIT":
        place.report(_KEPT, "files are taken away when the program has ended")
    elif word == "ON_SUCCESS":
        place.report(_APPROXIMATED, "files are taken away also if the program fails")
    elif word == "ON_EXIT_OR_EVICT":
        place.report(_APPROXIMATED, "files are taken away when the program has ended, not if it is preempted")
    else:
        place.refuse(f"{text[:40]!r} is not understood", "write ON_EXIT")


def _remaps(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.output_names = {}
    for part in text.strip().strip('"').split(";"):
        name, equals, target = (word.strip() for word in part.partition("="))
        if name and not equals:
            place.refuse(f"{part[:60]!r} is not NAME=NEWNAME", 'write "a = b; c = d"')
        if name:
            draft.output_names[name] = target
    place.report(_TRANSLATED, "the files get these names where they are taken to")


def _output_destination(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    if not is_url(text):
        place.refuse(f"{text[:60]!r} is not a URL", "write a URL: https://HOST/PATH/")
    draft.output_base = text
    place.report(_TRANSLATED, "files are staged to below this URL")


def _listed(place: OptionPlace, text: str) -> list[str]:  # noqa: ARG001
    return listed(text)


_SLASH: Final = "they are staged; a directory needs a slash at its end, and its contents"

TRANSFER_COMMANDS: Final[Mapping[str, SubmitCommand]] = {
    "should_transfer_files": SubmitCommand(_should_transfer),
    "when_to_transfer_output": SubmitCommand(_when_to_transfer),
    "transfer_executable": sets(
        "brings_program", truth, "whether the program is copied to the node with the files", _KEPT
    ),
    "transfer_input_files": sets("inputs", _listed, f"{_SLASH} come", swept=True),
    "transfer_output_files": sets("outputs", _listed, f"{_SLASH} go", swept=True),
    "transfer_output_remaps": SubmitCommand(_remaps, swept=True),
    "output_destination": SubmitCommand(_output_destination, swept=True),
}


def _text_of_job(field: str, what: str) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        draft.job[field] = unquoted(text)
        place.report(_TRANSLATED, what)

    return SubmitCommand(read)


def _stream(field: str, what: str) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        draft.streams[field] = text
        place.report(_KEPT, what)

    return SubmitCommand(read, swept=True)


def _universe(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    word = text.lower()
    draft.is_parallel = word in ("parallel", "11")
    if word in ("vanilla", "5"):
        place.report(_KEPT, "the program runs on a node")
    elif draft.is_parallel:
        place.report(_TRANSLATED, "the processes of the job start together")
    elif word in _UNIVERSES:
        place.refuse(
            f"{word} is not supported: {_UNIVERSES[word]}", "use universe = vanilla", "not-supported"
        )
    else:
        place.refuse(f"{text[:40]!r} is not a supported universe", "write vanilla or parallel")


_UNIVERSES: Final = {
    **dict.fromkeys(("local", "12", "scheduler", "7"), "users run no programs beside the scheduler"),
    **dict.fromkeys(("docker", "container"), "nodes start no containers"),
    **dict.fromkeys(("java", "10"), "nodes report no Java; write executable = /usr/bin/java"),
    **dict.fromkeys(("vm", "13"), "nodes start no virtual machines"),
    **dict.fromkeys(("grid", "9"), "use hn job submit --resource NAME for another scheduler"),
    **dict.fromkeys(("standard", "1", "mpi", "8", "pvm", "4"), "HTCondor has removed it"),
}


def _amount(plain: str) -> Callable[[OptionPlace, str], int]:
    """Return what reads an amount in MB; `plain` is the unit of a number without one."""

    def read(place: OptionPlace, text: str) -> int:
        found = whole_number(text)
        return place.megabytes(re.sub(r"\s+", "", text) if found is None else str(found), plain=plain)

    return read


def _core_size(place: OptionPlace, text: str) -> int:
    return -1 if text.strip() == "-1" else number(place, text)


def _log(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.log = text
    if not text.startswith("/") and not draft.directory:
        what = "no event log is written: the head does not know the directory of the submission"
        place.report(Fidelity.NOT_SUPPORTED, what)
        return
    place.report(_KEPT, "the head writes the events of the job into it, as the owner")


def _leave_in_queue(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.properties[LEAVE_IN_QUEUE] = text
    place.report(_APPROXIMATED, "condor_q shows the job after its end if it is named by its id")


def _rank(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.job["order_by"] = read_rank(place, text)
    place.report(_TRANSLATED, "nodes with more of it are chosen first")


def _getenv(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    """Read true, false, or a list of patterns; one with ``!`` leaves variables out."""
    shell = draft.shell
    if text.lower() in ("true", "false"):
        draft.shell_variables = dict(shell) if text.lower() == "true" else {}
    else:
        words = [word for word in re.split(r"[\s,;]+", text) if word]
        wanted = [word for word in words if not word.startswith("!")] or ["*"]
        unwanted = [word[1:] for word in words if word.startswith("!")]
        draft.shell_variables = {
            name: value for name, value in shell.items() if _any(name, wanted) and not _any(name, unwanted)
        }
    place.report(_KEPT, "variables of the shell in which the file is submitted")


def _any(name: str, patterns: list[str]) -> bool:
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) for pattern in patterns)


def _priority(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = whole_number(text)
    if found is None:
        place.refuse(f"{text[:60]!r} is not a priority", "write a whole number")
    draft.priority = found
    if found:
        what = "it is 2000 more here, from 0 to 4000, and compared with jobs of other users too"
        place.report(_APPROXIMATED, what)
    else:
        place.report(_TRANSLATED, "the priority is Normal")


def _nice_user(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.is_nice = truth(place, text)
    place.report(_TRANSLATED, "the priority is Lowest" if draft.is_nice else "the priority is as usual")


def _notification(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    word = text.lower()
    if word not in ("never", "complete", "always", "error"):
        place.refuse(f"{text[:40]!r} is no notification", "write Never, Complete, Error or Always")
    draft.job["notify_on_completion"] = word != "never"
    if word == "error":
        place.report(_APPROXIMATED, "a notification is sent whenever the job ends")
    else:
        place.report(_TRANSLATED, "notifications of the end of the job")


def _concurrency_limits(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.licences = []
    for word in re.split(r"[\s,]+", text.strip()):
        name, colon, amount = word.partition(":")
        if name:
            draft.licences.append((name.lower(), place.number(amount, 1) if colon else 1))
    place.report(_TRANSLATED, "they are licences, which the cluster counts: hn cluster params Licences")


_PLACE: Final = "paths are relative to it; it is the work directory if no files are transferred"
_CPUS: Final = "each process has this many processors of one node"
_GPUS: Final = "the job counts GPUs; each process has this many of one node"
_MEMORY: Final = "the job reserves this memory for each process"
_DISK: Final = "the job reserves this disk on the node of its process"

COMMANDS: Final[Mapping[str, SubmitCommand]] = {
    "universe": SubmitCommand(_universe),
    "executable": sets("executable", as_written, "it is the program", _KEPT, swept=True),
    "arguments": sets(
        "arguments", read_arguments, "they are the arguments of the program", _KEPT, swept=True
    ),
    "environment": sets("variables", read_environment, "they are variables of the task", _KEPT),
    "getenv": SubmitCommand(_getenv),
    "initialdir": sets("initial_directory", as_written, _PLACE, swept=True),
    "input": _stream("standard_input", "it is the file of standard input"),
    "output": _stream("standard_output", "it is the file of standard output"),
    "error": _stream("standard_error", "it is the file of standard error"),
    "batch_name": _text_of_job("name", "it is the name of the job"),
    "description": _text_of_job("description", "it is the description of the job"),
    "accounting_group": _text_of_job("project", "it is the project of the job"),
    "notify_user": _text_of_job("email", "notifications go to this address"),
    "request_cpus": sets("processors", at_least_one, _CPUS, calculated=True),
    "request_gpus": sets("gpus", number, _GPUS, calculated=True),
    "request_memory": sets("memory", _amount("m"), _MEMORY, calculated=True),
    "request_disk": sets("disk", _amount("k"), _DISK, calculated=True),
    "requirements": sets("needs", read_requirements, "they are requirements of nodes"),
    "rank": SubmitCommand(_rank),
    "priority": SubmitCommand(_priority),
    "nice_user": SubmitCommand(_nice_user),
    "notification": SubmitCommand(_notification),
    "concurrency_limits": SubmitCommand(_concurrency_limits),
    "machine_count": sets("machine_count", at_least_one, "in the parallel universe so many start together"),
    "max_materialize": sets("at_once", at_least_one, "at most so many processes run at once"),
    "coresize": sets("core_size", _core_size, "it is the limit of core files, in bytes"),
    "log": SubmitCommand(_log, swept=True),
    "leave_in_queue": SubmitCommand(_leave_in_queue),
    **POLICY_COMMANDS,
    **TRANSFER_COMMANDS,
}
"""The commands that have an effect here; others are in `other_commands`."""
