"""Job templates as TOML or JSON: the properties that templates have rules for, and a table for each rule."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from headnode.core.formats import hpc_values
from headnode.core.formats.hpc_values import ValueFormat
from headnode.core.formats.hpc_xml.attributes import JOB_ATTRIBUTES as HPC_ROWS
from headnode.core.formats.native import values as native
from headnode.core.formats.native.keys import JOB_KEYS as NATIVE_ROWS
from headnode.core.formats.native.values import FLAG, NAMES, TEXT
from headnode.core.formats.text.key_tables import KeyValue
from headnode.core.formats.text.quantities import shown
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.formats.text.toml_text import PlacedValues, read_toml_or_json, toml
from headnode.core.model.errors import BadRequest, Path
from headnode.core.model.field_rows import TEMPLATES
from headnode.core.model.fields import OPTIONS_OF_JOBS
from headnode.core.model.job import UnitType
from headnode.core.model.template import JobTemplate, TemplateRule, stated_fields

_UNITS = [unit.value for unit in UnitType]
_UNIT = KeyValue(
    f"units: {', '.join(_UNITS)}",
    Literal[tuple(_UNITS)],
    f"write {', '.join(_UNITS)}",
    UnitType,
    lambda unit: unit.value,
)
_HPC_SIZES = {"processor": "Cores", "socket": "Sockets", "node": "Nodes"}  # GPUs have no names there
_NUMBER_FORMS = ("whole", "span", "priority", "memory", "bounds", "at_least", "memory_bounds")
_NUMBERS = {field for option in OPTIONS_OF_JOBS if option.form in _NUMBER_FORMS for field in option.fields}


class TemplateProperty(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a template has a rule for."""

    key: str  # in TOML
    field: str  # of JobSpec
    value: KeyValue  # in TOML
    hpc: tuple[str, ...] = ()  # names in HPC Pack; the first is written
    words: ValueFormat | None = None  # values in HPC Pack
    unit: UnitType | None = None

    @property
    def is_number(self) -> bool:
        """Whether there are least and most values."""
        return self.field in _NUMBERS


_OF_UNIT = {"processors_per_gpu": UnitType.GPU}
"""What only jobs that count this unit have."""


def _plain(key: str) -> TemplateProperty:
    rows = [row for row in HPC_ROWS if row.field == key and row.hpc]
    names = tuple(row.hpc for row in rows)
    also = {"run_time": ("Runtime", "RunTime"), "name": ("JobName",)}.get(key, ())
    return TemplateProperty(
        key=key,
        field=key,
        value=NATIVE_ROWS[key].value,
        hpc=(*names, *also) if names else (),
        words=rows[0].value if rows else None,
        unit=_OF_UNIT.get(key),
    )


def _size(bound: str, unit: UnitType) -> TemplateProperty:
    name = _HPC_SIZES.get(unit.value)
    return TemplateProperty(
        key=f"{bound}_{unit.value}s",
        field=bound,
        unit=unit,
        value=native.WHOLE,
        hpc=(f"{bound[:3].capitalize()}{name}",) if name else (),
        words=hpc_values.COUNT if name else None,
    )


PROPERTIES: Mapping[str, TemplateProperty] = {
    one.key: one
    for one in (
        *(_plain(option.key) for option in OPTIONS_OF_JOBS if TEMPLATES in option.allow),
        TemplateProperty(key="unit", field="unit", value=_UNIT, hpc=("UnitType",), words=hpc_values.UNIT),
        *(_size(bound, unit) for unit in UnitType for bound in ("minimum", "maximum")),
        *(
            TemplateProperty(
                key=f"{bound}_{what}",
                field=f"{bound}_{field}",
                value=value,
                hpc=(f"{bound[:3].capitalize()}{name}",),
                words=hpc_values.LEAST,
            )
            for bound in ("minimum", "maximum")
            for what, field, value, name in (
                ("memory_per_node", "memory", native.MEMORY, "Memory"),
                ("processors_per_node", "processors_per_node", native.WHOLE, "CoresPerNode"),
            )
        ),
    )
}
"""Every property by its key."""

BY_HPC_NAME: Mapping[str, TemplateProperty] = {
    name.lower(): one for one in PROPERTIES.values() for name in one.hpc
}
"""Every property that HPC Pack has, by its names in small letters."""


def property_of(field: str, unit: UnitType | None) -> TemplateProperty:
    """Return the property of a rule."""
    return next(one for one in PROPERTIES.values() if one.field == field and one.unit is unit)


_HEAD = {
    "name": TEXT,
    "description": TEXT,
    "users": NAMES,
    "groups": NAMES,
    "submission_filters": TEXT,
    "activation_filters": TEXT,
}
_WORDS = ("default", "read_only", "least", "most", "allowed", "required")


def read_template(data: bytes | str) -> JobTemplate:
    """Read a template.

    Raises:  BadRequest with line and column.
    """
    text = read_toml_or_json(data)
    if not isinstance(text.value, dict):
        raise BadRequest(
            code="template", what="the file is not a table", fix='write name = "…" and its rules'
        )
    return _TemplateReader(text).template(text.value)


class _TemplateReader:
    def __init__(self, text: PlacedValues) -> None:
        self._text = text

    def template(self, table: Mapping[str, Any]) -> JobTemplate:
        head: dict[str, Any] = {}
        rules: list[TemplateRule] = []
        for key, value in table.items():
            if key in _HEAD:
                head[key] = self._read(_HEAD[key], value, (key,))
            elif key in PROPERTIES:
                rules.append(self._rule(PROPERTIES[key], value))
            else:
                raise self._unknown(key, (*_HEAD, *PROPERTIES), (key,))
        if not head.get("name", "").strip():
            raise self._wrong((), "the template has no name", 'write name = "…"')
        return JobTemplate(rules=tuple(rules), **head)

    def _rule(self, about: TemplateProperty, value: Any) -> TemplateRule:
        if not isinstance(value, dict):
            what = f"{about.key} is {shown(value)}, not a table"
            raise self._wrong((about.key,), what, f"write [{about.key}], and below it default = …")
        for word in value:
            if word not in _WORDS:
                raise self._unknown(word, _WORDS, (about.key, word))
        return TemplateRule(
            field=about.field,
            unit=about.unit,
            default=self._stated_value(about, value, "default"),
            read_only=self._read(FLAG, value.get("read_only", False), (about.key, "read_only")),
            minimum=self._bound(about, value, "least"),
            maximum=self._bound(about, value, "most"),
            allowed=self._allowed(about, value.get("allowed", [])),
            required=self._required(about, value),
        )

    def _stated_value(self, about: TemplateProperty, table: Mapping[str, Any], word: str) -> Any:
        if word not in table:
            return None
        return stated_fields(about.field, self._read(about.value, table[word], (about.key, word)))

    def _bound(self, about: TemplateProperty, table: Mapping[str, Any], word: str) -> float | None:
        if word not in table:
            return None
        if not about.is_number:
            what = f"{about.key} has no {word} value: it is not a number"
            raise self._wrong((about.key, word), what, "use allowed, or required")
        return float(self._read(about.value, table[word], (about.key, word)))

    def _allowed(self, about: TemplateProperty, found: Any) -> tuple[Any, ...]:
        values = found if isinstance(found, list) else [found]
        place = (about.key, "allowed")
        return tuple(stated_fields(about.field, self._read(about.value, value, place)) for value in values)

    def _required(self, about: TemplateProperty, table: Mapping[str, Any]) -> Any:
        asked = self._stated_value(about, table, "required")
        if asked is not None and not isinstance(getattr(asked, about.field), tuple):
            what = f"{about.key} has a single value: required is not possible"
            raise self._wrong((about.key, "required"), what, "use allowed, or read_only with a default")
        return asked

    def _read(self, kind: Any, value: Any, path: Path) -> Any:
        try:
            return kind.read(value)
        except BadRequest as wrong:
            raise self._wrong(path, f"{'.'.join(map(str, path))}: {wrong.what}", wrong.fix) from None

    def _unknown(self, key: str, names: tuple[str, ...], path: Path) -> BadRequest:
        close = nearest_name(key, names)
        fix = f"did you mean {close!r}?" if close else f"there are {', '.join(names)}"
        return self._wrong(path, f"a template has no {key!r}", fix)

    def _wrong(self, path: Path, what: str, fix: str) -> BadRequest:
        return BadRequest(code="template", what=what, fix=fix, place=self._text.place_of(path))


def template_document(template: JobTemplate) -> dict[str, Any]:
    """Return a template as tables of plain values."""
    head = {
        key: _HEAD[key].write(value) for key in _HEAD if (value := getattr(template, key)) or key == "name"
    }
    tables = {}
    for rule in template.rules:
        about = property_of(rule.field, rule.unit)
        tables[about.key] = _rule_document(rule, about)
    return {**head, **tables}


def _rule_document(rule: TemplateRule, about: TemplateProperty) -> dict[str, Any]:
    write = about.value.write
    found: dict[str, Any] = {}
    if rule.default is not None:
        found["default"] = write(rule.preset)
    if rule.read_only:
        found["read_only"] = True
    found |= {
        word: write(value if isinstance(rule.preset, float) else int(value))
        for word, value in (("least", rule.minimum), ("most", rule.maximum))
        if value is not None
    }
    if rule.allowed:
        found["allowed"] = [write(value) for value in rule.choices]
    if rule.required is not None:
        found["required"] = write(rule.demanded)
    return found


def write_template(template: JobTemplate) -> str:
    """Return a template as TOML, which reads back as the same."""
    return toml(template_document(template))
