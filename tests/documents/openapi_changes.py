"""Compare two OpenAPI documents: what a program written for the old one would find missing in the new."""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]


def broken_promises(old: Document, new: Document) -> list[str]:
    """Return what the new document takes away, changes, or asks for in addition."""
    found: list[str] = []
    for path, methods in old["paths"].items():
        for method, operation in methods.items():
            place = f"{method.upper()} {path}"
            now = new["paths"].get(path, {}).get(method)
            if now is None:
                found.append(f"{place} is gone")
            else:
                found += [f"{place}: {what}" for what in _of_operation(operation, now)]
    schemas = new["components"]["schemas"]
    for name, schema in old["components"]["schemas"].items():
        if name not in schemas:
            found.append(f"{name} is gone")
        else:
            found += [f"{name}: {what}" for what in _of_answer(schema, schemas[name])]
    return found


def _of_operation(old: Document, new: Document) -> Iterator[str]:
    if old["operationId"] != new["operationId"]:
        yield "has another operation id"
    before, now = _parameters(old), _parameters(new)
    for key, parameter in before.items():
        if key not in now:
            yield f"takes {key} no more"
        elif not _is_wider(parameter["schema"], now[key]["schema"]):
            yield f"{key} has another type"
    for key, parameter in now.items():
        if parameter.get("required") and not before.get(key, {}).get("required"):
            yield f"requires {key}"
    yield from (f"answers {status} no more" for status in old["responses"] if status not in new["responses"])
    for kind, content in old.get("requestBody", {}).get("content", {}).items():
        body = new.get("requestBody", {}).get("content", {}).get(kind)
        if body is None:
            yield f"reads no {kind} any more"
        else:
            yield from _of_body(content["schema"], body["schema"])


def _of_body(old: Document, new: Document) -> Iterator[str]:
    for name, schema in old.get("properties", {}).items():
        if name not in new.get("properties", {}):
            yield f"takes the field {name} no more"
        elif not _is_wider(schema, new["properties"][name]):
            yield f"the field {name} has another type"
    yield from (
        f"requires the field {name}"
        for name in new.get("required", ())
        if name not in old.get("required", ())
    )


def _of_answer(old: Document, new: Document) -> Iterator[str]:
    for name, schema in old.get("properties", {}).items():
        now = new.get("properties", {}).get(name)
        if now is None:
            yield f"has no {name} any more"
        elif not _is_wider(now, schema):
            yield f"{name} has another type"
    for name in old.get("required", ()):
        if name not in new.get("required", ()):
            yield f"{name} may be missing"


def _parameters(operation: Document) -> dict[str, Document]:
    return {f"{each['in']} parameter {each['name']}": each for each in operation["parameters"]}


def _is_wider(narrow: Document, wide: Document) -> bool:
    """Whether each form of value that the first schema allows is one of the second."""
    return _forms(narrow) <= _forms(wide)


def _forms(schema: Document) -> set[str]:
    """Return the forms of values: types, objects by their names, elements of lists, words."""
    found: set[str] = set()
    for each in schema.get("anyOf", (schema,)):
        if "$ref" in each:
            found.add(each["$ref"])
        elif "enum" in each:
            found |= {f"word {word}" for word in each["enum"]}
        elif each.get("type") == "array":
            found |= {f"list of {form}" for form in _forms(each.get("items", {}))}
        else:
            found.add(str(each.get("type", "any")))
    return found
