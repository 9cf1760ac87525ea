"""A wish that is said once and exactly is read at once, and means what its constraints mean."""

from itertools import product

from headnode.core.formats.sss.conversion.constraint_reading import (
    UNDERSTOOD_IN,
    plain_resources,
    resources_of,
    without_effect,
)
from headnode.core.formats.sss.conversion.requested_resources import explicit_from
from headnode.core.formats.sss.expressions import RequestProperties, ways_of
from headnode.core.formats.sss.properties import (
    Aggregation,
    Conj,
    Consumable,
    Op,
    Resource,
    Selection,
    SssProperty,
    UnknownElement,
)
from headnode.core.formats.sss.property_rows import ElementPlace
from headnode.core.model.value_checks import MOST_CODE

PLAIN = (
    Consumable(name="Processors", value=4.0),
    Consumable(name="Memory", value=2.0, units="gb"),
    Consumable(name="Disk", value=100.0),
    Consumable(name="Swap", value=1.0),
    SssProperty(name="NodeCount", value=2),
    SssProperty(name="Duration", value=60.0),
    SssProperty(name="Architecture", value="x86_64"),
    SssProperty(name="OperatingSystem", value="Linux"),
    SssProperty(name="Partition", value="old"),
    SssProperty(name="Project", value="p"),
    SssProperty(name="Reservation", value="r"),
    SssProperty(name="User", value="amy"),
    SssProperty(name="Queue", value="long"),
    SssProperty(name="QualityOfService", value="gold"),
    SssProperty(name="Machine", value="m"),
    Selection(name="Node", value="n1"),
    Selection(name="Feature", value="fast"),
)
MORE = (
    Consumable(name="Processors", value=1.5),
    Consumable(name="Processors", value=0.0),
    Consumable(name="Processors", value=MOST_CODE + 1.0),
    Consumable(name="Processors", value=4.0, metric="Min"),
    Consumable(name="Memory", value=1.0, units="KB"),
    Consumable(name="Memory", value=1.0, units="XB"),
    Consumable(name="Memory", value=0.5, units="GB"),
    Consumable(name="Memory", value=1.0, duration=5.0),
    Consumable(name="Memory", value=1.0, consumption_rate=0.5),
    Consumable(name="Memory", value=2.0, op=Op.GE),
    Consumable(name="Memory"),
    SssProperty(name="NodeCount", value=1, performance=0.5),
    SssProperty(name="Duration", value=0.0),
    SssProperty(name="Queue", value=""),
    SssProperty(name="Queue", value="q", conj=Conj.AND),
    SssProperty(name="User", value="amy", preference=1),
    SssProperty(name="Group", value="staff"),
    Selection(name="Node", value="n1,n2", aggregation=Aggregation.LIST),
    Selection(name="Feature", value="f.*", aggregation=Aggregation.PATTERN),
    Selection(name="Feature", value="slow", op=Op.NE),
    Resource(name="Resource", called="License", type="x", value=1.0),
    UnknownElement(name="Odd", xml="<Odd/>"),
)


def test_plain_wishes_mean_what_their_constraints_mean() -> None:
    for place, pair in product(UNDERSTOOD_IN, product((*PLAIN, *MORE), repeat=2)):
        found = plain_resources(pair, place)
        if found is None:
            continue
        (way,) = ways_of(RequestProperties(pair[:1], pair[1:]))
        assert not without_effect(way.constraints, place), (place, pair)
        assert resources_of(way.constraints) == (found.wishes, ()), (place, pair)
        assert found == explicit_from(found.wishes), (place, pair)


def test_every_wish_that_has_an_effect_is_plain_when_it_is_alone_and_exact() -> None:
    for place in UNDERSTOOD_IN:
        plain = {one.name for one in PLAIN if plain_resources([one], place) is not None}
        assert plain == set(UNDERSTOOD_IN[place]) - {"Resource"}, place
    assert len(UNDERSTOOD_IN[ElementPlace.JOB]) == len(PLAIN) + 1


def test_what_is_more_than_a_plain_wish_is_left_to_the_constraints() -> None:
    half = Consumable(name="Memory", value=0.5, units="GB")  # 512 whole megabytes
    plain = [one for one in MORE if plain_resources([one], ElementPlace.JOB) is not None]
    assert plain == [half]
    twice = (PLAIN[-1], PLAIN[-1])
    assert plain_resources(twice, ElementPlace.JOB) is None
