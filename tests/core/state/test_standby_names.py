"""Which machine may be the standby of a name, and what it can be called and reached at."""

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed
from headnode.core.model.quantities import Instant
from headnode.core.state.join import MAX_STANDBYS, AdmitStandby, InviteNode


def admit(world: World, name: str, address: str, only: str = "") -> None:
    digest = f"{name} {address}"
    expires = Instant(world.clock.now() + 60)
    world.do(InviteNode(by=ROOT, digest=digest, expires=expires, node=only, standby=True))
    world.do(AdmitStandby(digest=digest, name=name, address=address))


def places(world: World) -> dict[str, str]:
    return {name: standby.address for name, standby in world.cluster.standbys.items()}


def test_a_second_machine_of_the_same_name_needs_an_invitation_for_it() -> None:
    world = World()
    admit(world, "b", "one:1")
    admit(world, "b", "one:1")  # the answer to the first was lost
    with pytest.raises(NotAllowed, match="exists already"):
        admit(world, "b", "two:1")
    admit(world, "b", "two:1", only="b")
    assert places(world) == {"b": "two:1"}
    world.check_replay()


def test_a_machine_with_a_new_name_is_the_same_standby() -> None:
    world = World()
    for number in range(MAX_STANDBYS):
        admit(world, f"b{number}", f"host{number}:1")
    admit(world, "renamed", "host0:1")
    assert sorted(places(world)) == ["b1", "b2", "b3", "renamed"]
    with pytest.raises(BadRequest, match="which is the maximum"):
        admit(world, "fifth", "host5:1")
    world.check_replay()


@pytest.mark.parametrize("address", [
    "", "host", "host:", "host:0", "host:65536", f"host:{'9' * 5000}", ":1", "a..b:1", f"{'a' * 64}:1",
    f"{'a.' * 150}:1", "ho st:1", "ho\nst:1", "hóst:1", "host:1\n", "$(x):1", "../x:1",
])  # fmt: skip
def test_an_address_that_cannot_be_dialed_is_refused(address: str) -> None:
    world = World()
    with pytest.raises(BadRequest, match="cannot be reached"):
        admit(world, "b", address)


@pytest.mark.parametrize("address", ["host:1", "a.b.example.org.:5817", "192.0.2.1:80", "[2001:db8::1]:80"])
def test_an_address_of_a_machine_is_taken(address: str) -> None:
    world = World()
    admit(world, "b", address)
    assert places(world) == {"b": address}


@pytest.mark.parametrize("name", ["../x", "", "a b", "a/b", ".hidden", "x" * 65, "é"])
def test_a_name_that_could_be_a_path_is_refused(name: str) -> None:
    world = World()
    with pytest.raises(BadRequest, match="cannot be the name"):
        admit(world, name, "host:1")
