"""Print the verbs of the local protocol, what they are asked and what they answer, as tables."""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import inspect as types

from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import Verb, VerbKind
from headnode.core.model import resource_system
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.stream_frames import ClientFrame, HeadFrame

Structure = type[msgspec.Struct]
_PLAIN = {
    types.IntType: "integer",
    types.FloatType: "number",
    types.StrType: "text",
    types.BoolType: "bool",
    types.NoneType: "null",
    types.BytesType: "base64",
    types.AnyType: "any",
    types.DictType: "map",
}


def verbs() -> str:
    """Return the table of verbs."""
    head = "| do | what it does, and for whom | fields (optional in brackets) | answer |\n|---|---|---|---|\n"
    return head + "\n".join(_row(verb) for verb in VERBS.values())


def objects() -> str:
    """Return a section for each object in answers."""
    return "\n\n".join(_object(each) for each in sorted(_objects_in_answers(), key=_name))


def frames() -> str:
    """Return the table of the frames of conversations."""
    head = "| sender | frame | |\n|---|---|---|\n"
    rows = [_frame("head", each) for each in get_args(HeadFrame)]
    return head + "\n".join([*rows, _frame("client", ClientFrame)])


def _frame(sender: str, each: Structure) -> str:
    fields = "; ".join(_key(each, field) for field in types.type_info(each).fields)  # type: ignore[attr-defined]
    return f"| {sender} | {fields} | {_sentences(each.__doc__ or '')} |"


def creating_questions() -> str:
    """Return the module of the client that has the verbs that create something."""
    head = '"""The questions that create something; printed from the verbs by ``make bless``."""'
    names = "".join(f'        "{verb.name}",\n' for verb in VERBS.values() if verb.again)
    return f"{head}\n\nCREATING_QUESTIONS = frozenset(\n    (\n{names}    )\n)\n"


PARTS: Mapping[str, Callable[[], str]] = {"verbs": verbs, "frames": frames, "objects": objects}


def with_printed_parts(page: str) -> str:
    """Return the page of the protocol with its printed parts as they should be."""
    for name, printed in PARTS.items():
        begin, end = f"<!-- {name}: printed from @verb -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise ValueError(f"the page has no place for {name}")
        page = f"{before}{begin}\n{printed()}\n\n{end}{after}"
    return page


def _objects_in_answers() -> set[Structure]:
    """Return the objects that answers have inside, and those that these extend."""
    found: set[Structure] = set()
    answers = [answer for verb in VERBS.values() if (answer := _answer(verb))]
    waiting = [each for answer in (*answers, *get_args(HeadFrame)) for each in _inside(answer)]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += [*_inside(each), *([each.__base__] if _extends_object(each) else [])]
    return found


def _extends_object(each: Structure) -> bool:
    """Whether an object has the keys of another one, and more."""
    return issubclass(each.__base__, VerbAnswer) and each.__base__ is not VerbAnswer


def _answer(verb: Verb[Any, Any]) -> Structure | None:
    """Return what a verb answers each time; None for a verb with a conversation."""
    if verb.kind is VerbKind.STREAM:
        return None
    answer: Structure = get_args(verb.answer)[0] if verb.kind is VerbKind.UPDATES else verb.answer
    return answer


WHERE = (
    "; only on the head's machine",
    "; only on the head's machine, or logged in at a gateway with a browser",
)
"""Where a verb is admitted that is not for all: `VerbAccess.near`, by `by_session`."""


def _row(verb: Verb[Any, Any]) -> str:
    access = verb.access.who.value + (WHERE[verb.access.by_session] if verb.access.near else "")
    access += ", or by a task of the user" if verb.access.by_task else ""
    does = f"{_sentences(verb.description)} *For {access}.{' Takes a key.' if verb.again else ''}*"
    fields = "; ".join(_field(verb.request, field) for field in msgspec.structs.fields(verb.request))
    return f"| `{verb.name}` | {does} | {fields} | {_shown_answer(verb)} |"


def _sentences(text: str) -> str:
    """Return a docstring as text for the page, without what is for developers."""
    return " ".join(text.partition("Raises:")[0].split())


def _field(request: Structure, field: msgspec.structs.FieldInfo) -> str:
    name = f"`{field.encode_name}`" if field.required else f"`[{field.encode_name}]`"
    return " ".join(filter(None, (name, comment_of(request, field.name))))


def _shown_answer(verb: Verb[Any, Any]) -> str:
    answer = _answer(verb)
    if answer is None:
        return "a [conversation](#conversations)"
    if answer in _objects_in_answers():
        return f"the keys of the {_link(answer)}"
    shown = "; ".join(_key(answer, field) for field in types.type_info(answer).fields)  # type: ignore[attr-defined]
    return f"many answers, each with {shown}" if verb.kind is VerbKind.UPDATES else shown


def _key(answer: Structure, field: types.Field) -> str:
    name = f"`{field.encode_name}`" if field.required else f"`[{field.encode_name}]`"
    kind = _type(field.type)
    found = [kind if "[" in kind else "", comment_of(answer, field.name)]
    return ": ".join(filter(None, (name, ", ".join(filter(None, found)))))


def _object(each: Structure) -> str:
    """Return a paragraph for an object: its keys, in order, with types and meanings."""
    base = each.__base__
    inherited = set(base.__struct_fields__) if _extends_object(each) else set()
    fields = [field for field in types.type_info(each).fields if field.name not in inherited]  # type: ignore[attr-defined]
    rows = "\n".join(
        f"| `{field.encode_name}` | {_type(field.type)}{'' if field.required else ', optional'} | "
        f"{comment_of(each, field.name)} |"
        for field in fields
    )
    more = f" All keys of {_link(base)}, and:" if inherited else ""
    head = f"#### {_name(each).capitalize()}\n\n{_sentences(each.__doc__ or '')}{more}\n\n"
    return f"{head}| key | type | meaning |\n|---|---|---|\n{rows}"


def _name(each: Structure) -> str:
    """Return what the page calls an object: ``JobObject`` is ``job object``."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in each.__name__).split()
    return " ".join(words)


def _link(each: Structure) -> str:
    return f"[{_name(each)}](#{_name(each).replace(' ', '-')})"


def _type(kind: types.Type) -> str:
    """Return a type in words."""
    if isinstance(kind, types.UnionType):
        return " or ".join(_type(each) for each in kind.types)
    if isinstance(kind, types.ListType | types.VarTupleType):
        return f"list of {_type(kind.item_type)}"
    if isinstance(kind, types.TupleType):
        return f"[{', '.join(map(_type, kind.item_types))}]"
    if isinstance(kind, types.LiteralType):
        return " or ".join(str(value).lower() for value in kind.values)
    if isinstance(kind, types.StructType):
        return _link(kind.cls)
    if isinstance(kind, types.EnumType):
        return "text"
    if isinstance(kind, types.DictType) and not isinstance(kind.value_type, types.AnyType):
        return f"map of {_type(kind.value_type)}"
    return _PLAIN[type(kind)]


def _inside(structure: Structure) -> Iterator[Structure]:
    """Yield the objects in the fields of one."""
    waiting = [field.type for field in types.type_info(structure).fields]  # type: ignore[attr-defined]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, types.StructType):
            yield kind.cls
        elif isinstance(kind, types.UnionType):
            waiting += kind.types
        elif isinstance(kind, types.ListType | types.VarTupleType):
            waiting.append(kind.item_type)
        elif isinstance(kind, types.DictType):
            waiting.append(kind.value_type)


def comment_of(structure: Structure, field: str) -> str:
    """Return the comment behind a field where its class defines it; lists of schedulers are filled in."""
    for each in structure.__mro__:
        if (each.__name__, field) in _comments(each.__module__):
            return _FILLED_IN.sub(
                lambda found: str(getattr(resource_system, found[1])),
                _comments(each.__module__)[each.__name__, field],
            )
    return ""


_FILLED_IN = re.compile(r"\{([A-Z_]+)\}")


@cache
def _comments(module: str) -> dict[tuple[str, str], str]:
    """Return the comments of the fields of all classes of a module."""
    source = inspect.getsource(sys.modules[module])
    lines, found = source.splitlines(), {}
    for each in ast.walk(ast.parse(source)):
        for field in each.body if isinstance(each, ast.ClassDef) else ():
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                _, _, comment = lines[(field.end_lineno or 1) - 1][field.end_col_offset or 0 :].partition("#")
                found[each.name, field.target.id] = comment.strip()  # type: ignore[attr-defined]
    return found
