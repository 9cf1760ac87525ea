"""A wish that is said once and exactly is read at once, and means what its constraints mean."""

from itertools import product

from headnode.core.formats.sss.consumables import Consumable, Resource
from headnode.core.formats.sss.meaning.plain_wishes import plain_wishes
from headnode.core.formats.sss.meaning.wish_reading import HEARD, wishes_of, without_effect
from headnode.core.formats.sss.meaning.wishes import said_by
from headnode.core.formats.sss.properties import Conj, Kept, Op, Property
from headnode.core.formats.sss.requests.alternatives import Asked, ways_of
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.selections import Aggregation, Selection
from headnode.core.model.small_checks import MOST_CODE

PLAIN = (
    Consumable(name="Processors", value=4.0),
    Consumable(name="Memory", value=2.0, units="gb"),
    Consumable(name="Disk", value=100.0),
    Consumable(name="Swap", value=1.0),
    Property(name="NodeCount", value=2),
    Property(name="Duration", value=60.0),
    Property(name="Architecture", value="x86_64"),
    Property(name="OperatingSystem", value="Linux"),
    Property(name="Partition", value="old"),
    Property(name="Project", value="p"),
    Property(name="Reservation", value="r"),
    Property(name="User", value="amy"),
    Property(name="Queue", value="long"),
    Property(name="QualityOfService", value="gold"),
    Property(name="Machine", value="m"),
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
    Property(name="NodeCount", value=1, performance=0.5),
    Property(name="Duration", value=0.0),
    Property(name="Queue", value=""),
    Property(name="Queue", value="q", conj=Conj.AND),
    Property(name="User", value="amy", preference=1),
    Property(name="Group", value="staff"),
    Selection(name="Node", value="n1,n2", aggregation=Aggregation.LIST),
    Selection(name="Feature", value="f.*", aggregation=Aggregation.PATTERN),
    Selection(name="Feature", value="slow", op=Op.NE),
    Resource(name="Resource", called="License", type="x", value=1.0),
    Kept(name="Odd", xml="<Odd/>"),
)


def test_plain_wishes_mean_what_their_constraints_mean() -> None:
    for place, pair in product(HEARD, product((*PLAIN, *MORE), repeat=2)):
        found = plain_wishes(pair, place)
        if found is None:
            continue
        (way,) = ways_of(Asked(pair[:1], pair[1:]))
        assert not without_effect(way.constraints, place), (place, pair)
        assert wishes_of(way.constraints) == (found.wishes, ()), (place, pair)
        assert found == said_by(found.wishes), (place, pair)


def test_every_wish_that_has_an_effect_is_plain_when_it_is_alone_and_exact() -> None:
    for place in HEARD:
        plain = {one.name for one in PLAIN if plain_wishes([one], place) is not None}
        assert plain == set(HEARD[place]) - {"Resource"}, place
    assert len(HEARD[Place.JOB]) == len(PLAIN) + 1


def test_what_is_more_than_a_plain_wish_is_left_to_the_constraints() -> None:
    half = Consumable(name="Memory", value=0.5, units="GB")  # 512 whole megabytes
    plain = [one for one in MORE if plain_wishes([one], Place.JOB) is not None]
    assert plain == [half]
    twice = (PLAIN[-1], PLAIN[-1])
    assert plain_wishes(twice, Place.JOB) is None
