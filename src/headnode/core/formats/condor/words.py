"""Arguments and environments of submit files, in the old syntax and in the new.

Source:  HTCondor 24, condor_submit(1): "arguments", "environment".
"""

import re
from collections.abc import Sequence

from headnode.core.formats.batch.option_place import OptionPlace

_BLANK = " \t\r\n"


def read_arguments(place: OptionPlace, text: str) -> list[str]:
    """Return the words of arguments.

    Raises:  BadRequest ``value``.
    """
    if not text.startswith('"'):
        _refuse_bare_quote(place, text)
        return text.replace('\\"', '"').split()
    return _quoted_words(place, text)


def read_environment(place: OptionPlace, text: str) -> dict[str, str]:
    """Return the variables of an environment.

    Raises:  BadRequest ``value``.
    """
    if text.startswith('"'):
        entries: Sequence[str] = _quoted_words(place, text)
    else:
        entries = [part for part in text.split(";") if part.strip()]
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            place.refuse(f"{entry[:60]!r} is not NAME=VALUE", "write \"ONE=1 TWO='with blanks'\"")
        found[name.strip()] = value
    return found


def _refuse_bare_quote(place: OptionPlace, text: str) -> None:
    if re.search(r'(?<!\\)"', text):
        what = "a double quote in the old syntax has no backslash before it"
        place.refuse(what, 'put the whole value in double quotes, and write "" for one inside')


def _quoted_words(place: OptionPlace, text: str) -> list[str]:
    """Return the words between the double quotes of the new syntax."""
    body = text.rstrip()
    inner = body[1:-1].replace('""', "")
    if len(body) < 2 or not body.endswith('"') or '"' in inner:
        place.refuse("the double quotes do not belong together", 'write "" for a double quote inside')
    body = body[1:-1].replace('""', '"')
    words: list[str] = []
    word: list[str] | None = None
    at, quoted = 0, False
    while at < len(body):
        letter = body[at]
        if letter == "'":
            if quoted and body[at + 1 : at + 2] == "'":
                word = [*(word or ()), "'"]
                at += 1
            else:
                quoted, word = not quoted, word if word is not None else []
        elif letter in _BLANK and not quoted:
            if word is not None:
                words.append("".join(word))
            word = None
        elif word is None:
            word = [letter]
        else:
            word.append(letter)
        at += 1
    if quoted:
        place.refuse("a single quote is not closed", "write '' for a single quote between single quotes")
    return [*words, "".join(word)] if word is not None else words


def written_words(words: Sequence[str]) -> str:
    """Return words in the new syntax.

    >>> written_words(["a b", 'c"d', "e'f", ""])
    '"\\'a b\\' c""d \\'e\\'\\'f\\' \\'\\'"'
    """
    return '"' + " ".join(map(_written, words)) + '"'


def _written(word: str) -> str:
    word = word.replace('"', '""')
    if word and not re.search(r"[\s']", word):
        return word
    return "'" + word.replace("'", "''") + "'"


def listed(text: str) -> list[str]:
    """Return the entries of a list with commas; quotes around it do not count.

    >>> listed('"a, b ,"'), listed('""')
    (['a', 'b'], [])
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return [part for each in text.split(",") if (part := each.strip())]


def unquoted(text: str) -> str:
    """Return a text without the double quotes around it.

    >>> unquoted('"a"'), unquoted('a')
    ('a', 'a')
    """
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
