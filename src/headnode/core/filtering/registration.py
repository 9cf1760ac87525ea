"""Which filters a cluster has: the text of a cluster parameter, read.

Source: HPC filters, "Cluster-wide and job template filters"; HPC Pack parameters SubmissionFilterProgram and
ActivationFilterProgram, which hold the absolute path of one program.  Several, and their options, are ours.
"""

import shlex
from functools import lru_cache
from typing import Literal, get_args

import msgspec

from headnode.core.model.errors import BadRequest

Form = Literal["hpcpack", "hpcpack-2008", "ccs", "sss", "sss-3.0", "native-json"]
"""The dialects a filter may get its job in."""

Rules = Literal["hpcpack", "ccs"]
"""Whose table says what the exit codes of an activation filter mean."""

PLUG_IN = "plugin:"
_OPTIONS = ("dialect", "template", "rules", "revert")
_FORMS: tuple[str, ...] = get_args(Form)


class Filter(msgspec.Struct, frozen=True):
    """One filter as it is registered.

    `program` is an absolute path with its first arguments; `plug_in` a name of the entry points
    ``headnode.filters``; one of them is given.  `template`: only jobs of this job template pass it; empty:
    all.
    `reverts`: it is called again to undo.
    """

    program: tuple[str, ...] = ()
    plug_in: str = ""
    dialect: Form = "hpcpack"
    template: str = ""
    rules: Rules = "hpcpack"
    reverts: bool = True

    @property
    def name(self) -> str:
        """What people call it: the file name of the program, or the name of the plug-in."""
        return self.plug_in or self.program[0].rpartition("/")[2]

    def concerns(self, template: str) -> bool:
        """Whether jobs of this job template pass it."""
        return not self.template or self.template.casefold() == template.casefold()


Chain = tuple[Filter, ...]
"""Filters in the order in which they are asked."""


def chain_for(cluster_wide: str, template: str, of_template: Chain = ()) -> Chain:
    """Return what a job passes: the filters of its job template first, then those of the cluster.

    Source: HPC filters: "all the job template's filters run before the cluster-wide filter".
    """
    return (*of_template, *(each for each in read_filters(cluster_wide) if each.concerns(template)))


@lru_cache(64)
def read_filters(text: str) -> Chain:
    """Read ``[option=value ...] /path/to/program [argument ...]; ...`` or ``plugin:NAME`` in its place.

    Raises:  BadRequest ``filter`` with the part that is not understood.

    >>> [each.name for each in read_filters("/opt/names.sh; dialect=ccs /opt/pool --file '/var/a;b'")]
    ['names.sh', 'pool']
    """
    return tuple(_one(words, text) for words in _parts(text))


def _parts(text: str) -> list[list[str]]:
    """Return the words of each part; a semicolon in quotes or behind a backslash parts nothing."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=";")
    reader.whitespace_split, reader.commenters = True, ""
    try:
        words = list(reader)
    except ValueError as error:
        raise _wrong(text, text, f"close the quotation ({error})") from None
    parts: list[list[str]] = [[]]
    for word in words:
        if word.strip(";"):
            parts[-1].append(word)
        else:
            parts.append([])
    return [part for part in parts if part]


def _one(words: list[str], text: str) -> Filter:
    options: dict[str, str] = {}
    left = list(words)
    while left and "=" in left[0] and not left[0].startswith(("/", PLUG_IN)):
        name, _, value = left.pop(0).partition("=")
        if name.lower() not in _OPTIONS or name.lower() in options:
            raise _wrong(f"{name}={value}", text, f"the options are {', '.join(_OPTIONS)}, each once")
        options[name.lower()] = value
    dialect = _chosen(options.pop("dialect", ""), _FORMS, text)
    rules = _chosen(options.pop("rules", "hpcpack"), get_args(Rules), text)
    reverts = _chosen(options.pop("revert", "yes"), ("yes", "no"), text) == "yes"
    template = options.pop("template", "")
    if left and left[0].startswith(PLUG_IN) and len(left) == 1 and left[0] != PLUG_IN:
        form = msgspec.convert(dialect or "native-json", Form)
        own = msgspec.convert(rules, Rules)
        return Filter(
            plug_in=left[0][len(PLUG_IN) :], dialect=form, template=template, rules=own, reverts=reverts
        )
    if not left or not left[0].startswith("/"):
        raise _wrong(
            " ".join(words),
            text,
            "write the absolute path of a program with its arguments, or plugin:NAME; separate several by ;",
        )
    return Filter(
        program=tuple(left),
        dialect=msgspec.convert(dialect or "hpcpack", Form),
        template=template,
        rules=msgspec.convert(rules, Rules),
        reverts=reverts,
    )


def _chosen(value: str, among: tuple[str, ...], text: str) -> str:
    if value and value.lower() not in among:
        raise _wrong(value, text, f"choose one of {', '.join(among)}")
    return value.lower()


def _wrong(part: str, text: str, fix: str) -> BadRequest:
    where = f" at {part!r}" if part != text else ""
    return BadRequest(code="filter", what=f"filters {text!r} are not understood{where}", fix=fix)
