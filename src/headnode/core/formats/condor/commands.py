"""What each command of a submit file asks for.

Source:  HTCondor 24, condor_submit(1), "Submit Description File Commands".
"""

import re
from collections.abc import Mapping
from typing import Final

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.command_reading import SubmitCommand, number, truth
from headnode.core.formats.condor.draft import LEAVE_IN_QUEUE, SubmitDraft
from headnode.core.formats.condor.expressions import whole_number
from headnode.core.formats.condor.policy_commands import POLICY_COMMANDS
from headnode.core.formats.condor.requirements import read_rank, read_requirements
from headnode.core.formats.condor.transfer_commands import TRANSFER_COMMANDS
from headnode.core.formats.condor.words import read_arguments, read_environment, unquoted
from headnode.core.formats.fidelity import Fidelity

_KEPT, _TRANSLATED, _APPROXIMATED = Fidelity.KEPT, Fidelity.TRANSLATED, Fidelity.APPROXIMATED


def _text_of_job(field: str, what: str) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        draft.job[field] = unquoted(text)
        place.tell(_TRANSLATED, what)

    return SubmitCommand(read)


def _stream(field: str, what: str) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        draft.streams[field] = text
        place.tell(_KEPT, what)

    return SubmitCommand(read, swept=True)


def _universe(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    word = text.lower()
    if word in ("vanilla", "5"):
        place.tell(_KEPT, "the program runs on a node")
    elif word in ("parallel", "11"):
        draft.machines = draft.machines or 1
        place.tell(_TRANSLATED, "the processes of the job start together")
    elif word in _UNIVERSES:
        place.refuse(f"the universe {word}: {_UNIVERSES[word]}", "use the vanilla universe", "not-supported")
    else:
        place.refuse(f"{text[:40]!r} is no universe that is supported", "write vanilla or parallel")


_UNIVERSES: Final = {
    **dict.fromkeys(
        ("local", "12", "scheduler", "7"), "it runs beside the scheduler, where no user runs here"
    ),
    **dict.fromkeys(("docker", "container"), "the image decides what runs, and nodes start no containers"),
    **dict.fromkeys(("java", "10"), "the node would have to know its Java; write java as the executable"),
    **dict.fromkeys(("vm", "13"), "nodes start no virtual machines"),
    **dict.fromkeys(("grid", "9"), "use hn job submit --resource NAME for another scheduler"),
    **dict.fromkeys(("standard", "1", "mpi", "8", "pvm", "4"), "HTCondor has it no longer"),
}


def _executable(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.executable = text
    place.tell(_KEPT, "it is the program")


def _arguments(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.arguments = read_arguments(place, text)
    place.tell(_KEPT, "they are the arguments of the program")


def _environment(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.variables = read_environment(place, text)
    place.tell(_KEPT, "they are variables of the task")


def _initial_directory(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.initial_directory = text
    place.tell(_TRANSLATED, "paths are relative to it; it is the work directory if no files are transferred")


def _request_cpus(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.processors = number(place, text, 1)
    place.tell(_TRANSLATED, "each process has this many processors of one node")


def _request_gpus(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.gpus = number(place, text)
    place.tell(_TRANSLATED, "the job counts GPUs; each process has this many of one node")


def _request_memory(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.memory = _amount(place, text, "m")
    place.tell(_TRANSLATED, "the job reserves this memory for each process")


def _request_disk(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.disk = _amount(place, text, "k")
    place.tell(_TRANSLATED, "the job reserves this disk on the node of its process")


def _amount(place: OptionPlace, text: str, plain: str) -> int:
    found = whole_number(text)
    return place.megabytes(re.sub(r"\s+", "", text) if found is None else str(found), plain=plain)


def _log(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.log = text
    if not text.startswith("/") and not draft.directory:
        what = "no event log is written: the head does not know the directory of the submission"
        place.tell(Fidelity.NOT_SUPPORTED, what)
        return
    place.tell(_KEPT, "the head writes the events of the job into it, as the owner")


def _leave_in_queue(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.properties[LEAVE_IN_QUEUE] = text
    place.tell(_APPROXIMATED, "condor_q shows the job after its end if it is named by its id")


def _requirements(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.needs = read_requirements(place, text)
    place.tell(_TRANSLATED, "they are requirements of nodes")


def _rank(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.job["order_by"] = read_rank(place, text)
    place.tell(_TRANSLATED, "nodes with more of it are chosen first")


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
    place.tell(_KEPT, "variables of the shell in which the file is submitted")


def _any(name: str, patterns: list[str]) -> bool:
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) for pattern in patterns)


def _priority(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = whole_number(text)
    if found is None:
        place.refuse(f"{text[:60]!r} is not a priority", "write a whole number")
    draft.priority = found
    if found:
        what = "it is 2000 more here, from 0 to 4000, and compared with jobs of other users too"
        place.tell(_APPROXIMATED, what)
    else:
        place.tell(_TRANSLATED, "the priority is Normal")


def _nice_user(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.is_nice = truth(place, text)
    place.tell(_TRANSLATED, "the priority is Lowest" if draft.is_nice else "the priority is as usual")


def _notification(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    word = text.lower()
    if word not in ("never", "complete", "always", "error"):
        place.refuse(f"{text[:40]!r} is no notification", "write Never, Complete, Error or Always")
    draft.job["notify_on_completion"] = word != "never"
    if word == "error":
        place.tell(_APPROXIMATED, "a notification is sent whenever the job ends")
    else:
        place.tell(_TRANSLATED, "notifications of the end of the job")


def _concurrency_limits(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.licences = []
    for word in re.split(r"[\s,]+", text.strip()):
        name, colon, amount = word.partition(":")
        if name:
            draft.licences.append((name.lower(), place.number(amount, 1) if colon else 1))
    place.tell(_TRANSLATED, "they are licences, which the cluster counts: hn cluster params Licences")


def _machine_count(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.machines = number(place, text, 1)
    place.tell(_TRANSLATED, "so many processes start together")


def _max_materialize(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.at_once = number(place, text, 1)
    place.tell(_TRANSLATED, "at most so many processes run at once")


def _core_size(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.core_size = -1 if text.strip() == "-1" else number(place, text)
    place.tell(_TRANSLATED, "it is the limit of core files, in bytes")


COMMANDS: Final[Mapping[str, SubmitCommand]] = {
    "universe": SubmitCommand(_universe),
    "executable": SubmitCommand(_executable, swept=True),
    "arguments": SubmitCommand(_arguments, swept=True),
    "environment": SubmitCommand(_environment),
    "getenv": SubmitCommand(_getenv),
    "initialdir": SubmitCommand(_initial_directory, swept=True),
    "input": _stream("standard_input", "it is the file of standard input"),
    "output": _stream("standard_output", "it is the file of standard output"),
    "error": _stream("standard_error", "it is the file of standard error"),
    "batch_name": _text_of_job("name", "it is the name of the job"),
    "description": _text_of_job("description", "it is the description of the job"),
    "accounting_group": _text_of_job("project", "it is the project of the job"),
    "notify_user": _text_of_job("email", "notifications go to this address"),
    "request_cpus": SubmitCommand(_request_cpus, calculated=True),
    "request_gpus": SubmitCommand(_request_gpus, calculated=True),
    "request_memory": SubmitCommand(_request_memory, calculated=True),
    "request_disk": SubmitCommand(_request_disk, calculated=True),
    "requirements": SubmitCommand(_requirements),
    "rank": SubmitCommand(_rank),
    "priority": SubmitCommand(_priority),
    "nice_user": SubmitCommand(_nice_user),
    "notification": SubmitCommand(_notification),
    "concurrency_limits": SubmitCommand(_concurrency_limits),
    "machine_count": SubmitCommand(_machine_count),
    "max_materialize": SubmitCommand(_max_materialize),
    "coresize": SubmitCommand(_core_size),
    "log": SubmitCommand(_log, swept=True),
    "leave_in_queue": SubmitCommand(_leave_in_queue),
    **POLICY_COMMANDS,
    **TRANSFER_COMMANDS,
}
"""The commands that have an effect here; others are in `other_commands`."""
