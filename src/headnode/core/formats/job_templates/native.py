"""A template as TOML, or JSON: a table for each property, with the words `default`, `least`, `allowed` …"""

from collections.abc import Mapping
from typing import Any

from headnode.core.formats.job_templates.properties import PROPERTIES, Property, property_of
from headnode.core.formats.json_text import Path
from headnode.core.formats.native_form.quantities import shown
from headnode.core.formats.native_form.texts import Found, read_text
from headnode.core.formats.native_form.toml_writing import toml
from headnode.core.formats.native_form.values import FLAG, NAMES, TEXT
from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest
from headnode.core.model.template import JobTemplate, Rule, said

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
    text = read_text(data)
    if not isinstance(text.value, dict):
        raise BadRequest(
            code="template", what="the file is not a table", fix='write name = "…" and its rules'
        )
    return _Reader(text).template(text.value)


class _Reader:
    def __init__(self, text: Found) -> None:
        self._text = text

    def template(self, found: Mapping[str, Any]) -> JobTemplate:
        head: dict[str, Any] = {}
        rules: list[Rule] = []
        for key, value in found.items():
            if key in _HEAD:
                head[key] = self._read(_HEAD[key], value, (key,))
            elif key in PROPERTIES:
                rules.append(self._rule(PROPERTIES[key], value))
            else:
                raise self._unknown(key, (*_HEAD, *PROPERTIES), (key,))
        if not head.get("name", "").strip():
            raise self._wrong((), "the template has no name", 'write name = "…"')
        return JobTemplate(rules=tuple(rules), **head)

    def _rule(self, about: Property, found: Any) -> Rule:
        if not isinstance(found, dict):
            what = f"{about.key} is {shown(found)}, not a table"
            raise self._wrong((about.key,), what, f"write [{about.key}], and below it default = …")
        for word in found:
            if word not in _WORDS:
                raise self._unknown(word, _WORDS, (about.key, word))
        return Rule(
            field=about.field,
            unit=about.unit,
            default=self._said(about, found, "default"),
            read_only=self._read(FLAG, found.get("read_only", False), (about.key, "read_only")),
            least=self._bound(about, found, "least"),
            most=self._bound(about, found, "most"),
            allowed=self._allowed(about, found.get("allowed", [])),
            required=self._required(about, found),
        )

    def _said(self, about: Property, found: Mapping[str, Any], word: str) -> Any:
        if word not in found:
            return None
        return said(about.field, self._read(about.value, found[word], (about.key, word)))

    def _bound(self, about: Property, found: Mapping[str, Any], word: str) -> float | None:
        if word not in found:
            return None
        if not about.is_number:
            what = f"{about.key} has no {word} value: it is not a number"
            raise self._wrong((about.key, word), what, "use allowed, or required")
        return float(self._read(about.value, found[word], (about.key, word)))

    def _allowed(self, about: Property, found: Any) -> tuple[Any, ...]:
        values = found if isinstance(found, list) else [found]
        place = (about.key, "allowed")
        return tuple(said(about.field, self._read(about.value, value, place)) for value in values)

    def _required(self, about: Property, found: Mapping[str, Any]) -> Any:
        asked = self._said(about, found, "required")
        if asked is not None and not isinstance(getattr(asked, about.field), tuple):
            what = f"{about.key} has a single value: required is not possible"
            raise self._wrong((about.key, "required"), what, "use allowed, or read_only with a default")
        return asked

    def _read(self, kind: Any, value: Any, path: Path) -> Any:
        try:
            return kind.read(value)
        except BadRequest as wrong:
            raise self._wrong(path, f"{'.'.join(map(str, path))}: {wrong.what}", wrong.fix) from None

    def _unknown(self, key: str, known: tuple[str, ...], path: Path) -> BadRequest:
        close = nearest(key, known)
        fix = f"did you mean {close!r}?" if close else f"there are {', '.join(known)}"
        return self._wrong(path, f"a template has no {key!r}", fix)

    def _wrong(self, path: Path, what: str, fix: str) -> BadRequest:
        return BadRequest(code="template", what=f"{self._text.find(path)}: {what}", fix=fix)


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


def _rule_document(rule: Rule, about: Property) -> dict[str, Any]:
    write = about.value.write
    found: dict[str, Any] = {}
    if rule.default is not None:
        found["default"] = write(rule.preset)
    if rule.read_only:
        found["read_only"] = True
    found |= {
        word: write(value if isinstance(rule.preset, float) else int(value))
        for word, value in (("least", rule.least), ("most", rule.most))
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
