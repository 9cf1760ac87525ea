"""Commands of submit files about files that are brought to a process and taken away from it.

Source:  HTCondor 24, condor_submit(1), "FILE TRANSFER COMMANDS".
"""

from collections.abc import Mapping
from typing import Final

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.command_reading import SubmitCommand, sets, truth
from headnode.core.formats.condor.draft import DOES_TRANSFER, SubmitDraft
from headnode.core.formats.condor.words import listed
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
