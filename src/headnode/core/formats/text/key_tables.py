"""Tables of keys: what each key takes, how that is read and written, and the JSON Schema of all.

The forms of values are types of msgspec, which checks values by them and makes the schema of them.

>>> SIZE = KeyTable("a size", [KeyRow(key="width", value=KeyValue("a whole number", int), required=True)])
>>> SIZE.accepts({"width": 3}), SIZE.accepts({"width": "3"}), SIZE.accepts({})
(True, False, False)
>>> KeyValue("names", list[str], part=KeyValue("text", str)).refusal(["a", 1]).what
'1 is not text'
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from headnode.core.formats.text.quantities import shown
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest, Path

_ROOT = "root"  # the name of the outermost table in a schema
_SHOWN_KEY = 60  # characters


def _same(value: Any) -> Any:
    return value


class KeyValue(msgspec.Struct, frozen=True):
    """A kind of value.  `title` completes the sentence: this is not ...

    `make` returns the value of the model for one of the `form`; `write` is its inverse.  `part` is the kind
    of what is in a list or table.  Values of the types `also` have no form, such as the dates of TOML.
    `inside` is the form in a schema, where tables in the value have rows of their own.
    """

    title: str
    form: Any
    fix: str = ""
    make: Callable[[Any], Any] = _same
    write: Callable[[Any], Any] = _same
    code: str = "value"
    part: "KeyValue | None" = None
    also: tuple[type, ...] = ()
    inside: Any = None
    checked: Any = None  # once it is needed: a struct of one field, of which msgspec remembers the form

    def accepts(self, value: Any) -> bool:
        """Whether a value has the form."""
        if type(value) is self.form:
            return True
        if self.checked is None:
            is_free = Any in _types_in(self.form)
            one = Any if is_free else msgspec.defstruct("Checked", [("value", self.form)], array_like=True)
            msgspec.structs.force_setattr(self, "checked", one)
        return self.checked is Any or _has_form((value,), self.checked)

    def read(self, value: Any) -> Any:
        """Return the value of the model.

        Raises:  BadRequest without a place; its path leads to the part that is wrong.
        """
        if not isinstance(value, self.also) and not self.accepts(value):
            raise self.refusal(value)
        return self.make(value)

    def refusal(self, value: Any, table: str = "a table") -> BadRequest:
        """Return the refusal of a value that does not have the form; `table` is the word for a table."""
        wrong, kind = value, self
        path: Path = ()
        while kind.part and (found := next(_wrong_parts(wrong, kind.form, kind.part), None)):
            step, wrong = found
            path, kind = (*path, step), kind.part
        whose = path[-1] if path and isinstance(path[-1], str) else ""
        subject = shown(wrong, table)
        subject = f"the value of {whose[:_SHOWN_KEY]!r}, {subject}," if whose else subject
        what = f"{subject} is not {kind.title}"
        return BadRequest(code=self.code, what=what, fix=kind.fix or self.fix, path=path)


def _has_form(value: Any, form: Any) -> bool:
    try:
        msgspec.convert(value, form)
    except msgspec.ValidationError:
        return False
    return True


def _wrong_parts(value: Any, form: Any, part: KeyValue) -> Iterator[tuple[str | int, Any]]:
    """Yield what is not a `part` in a list or a table that may have the form."""
    if type(value) in _types_in(form):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        yield from (one for one in parts if not part.accepts(one[1]))


def _types_in(form: Any) -> Iterator[Any]:
    """Yield the types that a form is one of, lists and tables without what is in them."""
    origin = get_origin(form)
    if origin is Annotated:
        yield from _types_in(get_args(form)[0])
    elif origin in (Union, UnionType):
        for one in get_args(form):
            yield from _types_in(one)
    else:
        yield origin or form


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One key.  Rows stand in the order in which files are written."""

    key: str
    value: KeyValue
    help: str = ""
    example: Any = None
    required: bool = False


Row = TypeVar("Row", bound=KeyRow)


class KeyTable(Generic[Row]):
    """The keys of one kind of object; no others may be in it.  `name` is that of its form in a schema."""

    def __init__(self, title: str, rows: Iterable[Row], name: str = _ROOT) -> None:
        self.title = title
        self.by_key: Mapping[str, Row] = {row.key: row for row in rows}
        self.required = frozenset(row.key for row in self.by_key.values() if row.required)
        fields = [_field(row) for row in self.by_key.values()]
        self.form = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in the order in which files are written."""
        return tuple(self.by_key.values())

    def accepts(self, value: Any) -> bool:
        """Whether an object, and all tables in it, have the right keys with values of their forms."""
        return _has_form(value, self.form)

    def read(self, found: Any, fix: str, code: str = "value") -> dict[str, Any]:
        """Return the values of the model of a small table that is itself a value, by key.

        Raises:  BadRequest without a place, as `KeyValue.read`.
        """
        if not isinstance(found, dict):
            raise BadRequest(code=code, what=f"{shown(found)} is not {self.title}", fix=fix)
        values = {}
        for key, value in found.items():
            if key not in self.by_key:
                meant = nearest_name(key, self.by_key)
                hint = f"did you mean {meant!r}?" if meant else fix
                raise BadRequest(
                    code=code, what=f"there is no {key[:_SHOWN_KEY]!r} in {self.title}", fix=hint
                )
            try:
                values[key] = self.by_key[key].value.read(value)
            except BadRequest as wrong:
                what, inside = f"{key}: {wrong.what}", (key, *wrong.path)
                raise BadRequest(code=code, what=what, fix=wrong.fix, path=inside) from wrong
        return values


def _field(row: KeyRow) -> tuple[str, Any] | tuple[str, Any, Any]:
    examples = None if row.example is None else [row.example]
    meta = msgspec.Meta(description=row.help or None, examples=examples)
    described: Any = Annotated[row.value.inside or row.value.form, meta]
    return (row.key, described) if row.required else (row.key, described | UnsetType, UNSET)


def described_form(schema: Mapping[str, Any], form: Any = Any) -> Any:
    """Return a form that has `schema` where its type does not say all that its reader checks."""
    return Annotated[form, msgspec.Meta(extra_json_schema=dict(schema))]


_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema_of(title: str, table: KeyTable[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a file that is such a table; the tables in it are its ``$defs``."""
    _, parts = msgspec.json.schema_components([table.form], ref_template="#/$defs/{name}")
    for part in parts.values():
        if not part.get("required"):
            part.pop("required", None)
        part.pop("title", None)
    root = parts.pop(table.form.__name__)
    return {"$schema": _DRAFT, "title": title, **root} | ({"$defs": parts} if parts else {})
