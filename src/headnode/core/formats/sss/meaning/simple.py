"""Small pieces of a written job object, for jobs and task groups alike.

Source: SSS 3.1.0, Table 25-2, "Environment", "Extension".
"""

import math
from collections.abc import Iterable, Iterator, Mapping

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.conditions import Extension
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.keeping import PROPERTY
from headnode.core.formats.sss.meaning.losses import Texts
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.streams import Environment, Variable
from headnode.core.formats.sss.tables import ROWS
from headnode.core.formats.sss.value_types import MOST_SECONDS
from headnode.core.model.quantities import FOREVER, Seconds

_PLACE_OF = {name: number for number, name in enumerate(dict.fromkeys(row.name for row in ROWS))}


def ordered(properties: Iterable[Property]) -> tuple[Property, ...]:
    """Return properties in the order of the tables; what is not in them comes last."""
    return tuple(sorted(properties, key=lambda one: _PLACE_OF.get(one.name, len(_PLACE_OF))))


def environment(variables: Mapping[str, str]) -> Iterator[Property]:
    """Yield the Environment of `variables`, if there are any."""
    if variables:
        found = tuple(Variable(name=name, value=value) for name, value in variables.items())
        yield Environment(variables=found)


def own_words(properties: Mapping[str, str], where: str, findings: Findings) -> Iterator[Property]:
    """Yield the user's own properties as Extensions."""
    if properties:
        findings.add(Kind.TRANSLATED, where, f"properties: they are Extensions of type {PROPERTY}")
    Texts(where, findings).tell("properties", [*properties, *properties.values()])
    for name, value in properties.items():
        if not name.strip() or name.startswith("<"):
            what = f"properties: {name!r} is no name of an Extension: it is left out"
            findings.add(Kind.NOT_SUPPORTED, where, what)
        else:
            yield Extension(name="Extension", type=PROPERTY, called=name, value=value)


def span(field: str, limit: Seconds, where: str, findings: Findings) -> Seconds:
    """Return a limit as it can be written: in whole seconds, which are rounded up."""
    if limit == FOREVER:
        return limit
    whole = Seconds(float(math.ceil(limit)))
    if whole > MOST_SECONDS:
        what = f"{field}: more than {MOST_SECONDS} s cannot be said: there is no limit"
        findings.add(Kind.NOT_SUPPORTED, where, what)
        return FOREVER
    if whole != limit:
        findings.add(Kind.APPROXIMATED, where, f"{field}: whole seconds, rounded up")
    return whole
