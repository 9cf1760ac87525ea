"""Who comes in from other machines: a login is taken once, a token is good until it expires or is revoked."""

import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound
from headnode.core.model.quantities import Seconds
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state import tokens as c
from headnode.core.state.tokens import BETWEEN_USES, LOGIN_LIFETIME, MAX_TOKEN, MAX_TOKENS

DAY = Seconds(86400.0)


def offer(world: World, by: User = ADA, user: str = "", secret: str = "s", lifetime: Seconds = DAY) -> None:
    world.do(c.OfferLogin(by=by, digest=secret, user=user or by.name, lifetime=lifetime))


def take(world: World, secret: str = "s", token: str = "t") -> None:
    world.do(c.TakeLogin(login=secret, digest=token, address="192.0.2.7"))


def use(world: World, token: str = "t", address: str = "192.0.2.7") -> tuple[e.Event, ...]:
    return tuple(world.do(c.UseToken(digest=token, address=address)))


def logged_in(user: User = ADA) -> World:
    world = World()
    offer(world, user)
    take(world)
    return world


def test_a_login_gives_a_token_of_its_user() -> None:
    world = logged_in()
    (token,) = world.cluster.tokens.values()
    assert (token.number, token.user, token.address) == (1, ADA.name, "192.0.2.7")
    assert token.expires == world.clock.now() + DAY
    use(world)
    world.check_replay()


def test_a_token_has_the_name_and_the_role_of_its_login() -> None:
    world = World()
    world.do(c.OfferLogin(by=ADA, digest="s", user=ADA.name, lifetime=DAY, name="plots", role="reader"))
    take(world)
    (token,) = world.cluster.tokens.values()
    assert (token.name, token.role) == ("plots", "reader")
    world.check_replay()


def test_a_login_is_taken_once() -> None:
    world = logged_in()
    with pytest.raises(NotAllowed) as refused:
        take(world, token="another")
    assert refused.value.code == "login"
    assert len(world.cluster.tokens) == 1


def test_a_login_that_nobody_offered_gives_nothing() -> None:
    world = World()
    offer(world)
    with pytest.raises(NotAllowed):
        take(world, secret="guessed")


def test_a_login_is_over_after_its_hour() -> None:
    world = World()
    offer(world)
    world.wait(LOGIN_LIFETIME)
    with pytest.raises(NotAllowed) as refused:
        take(world)
    assert "expired" in refused.value.what
    offer(world, secret="next")
    assert list(world.cluster.logins) == ["next"]
    world.check_replay()


def test_only_administrators_offer_logins_of_others() -> None:
    world = World()
    with pytest.raises(NotAllowed):
        offer(world, BOB, user=ADA.name)
    offer(world, ROOT, user=ADA.name)
    take(world)
    assert [token.user for token in world.cluster.tokens.values()] == [ADA.name]


@pytest.mark.parametrize("lifetime", [0.0, -1.0, MAX_TOKEN + 1.0, float("inf"), float("nan")])
def test_a_token_lives_for_a_year_at_most(lifetime: float) -> None:
    with pytest.raises(BadRequest):
        offer(World(), lifetime=Seconds(lifetime))


def test_nobody_has_more_tokens_than_he_can_look_after() -> None:
    world = World()
    for number in range(MAX_TOKENS):
        offer(world, secret=f"s{number}")
        take(world, f"s{number}", f"t{number}")
    with pytest.raises(BadRequest) as refused:
        offer(world)
    assert refused.value.code == "tokens"
    offer(world, BOB)


def test_an_expired_token_is_worth_nothing() -> None:
    world = logged_in()
    world.wait(DAY)
    with pytest.raises(NotAllowed) as refused:
        use(world)
    assert "expired" in refused.value.what


def test_a_revoked_token_is_worth_nothing() -> None:
    world = logged_in()
    world.do(c.RevokeToken(by=ADA, token=1))
    with pytest.raises(NotAllowed):
        use(world)
    world.check_replay()


def test_tokens_of_others_are_revoked_by_administrators_only_and_others_do_not_learn_of_them() -> None:
    world = logged_in()
    for by, number in ((BOB, 1), (ADA, 2), (BOB, 2)):
        with pytest.raises(NotFound) as refused:
            world.do(c.RevokeToken(by=by, token=number))
        assert refused.value.code == "no-such-token"
    world.do(c.RevokeToken(by=ROOT, token=1))
    assert not world.cluster.tokens


def test_the_number_of_a_token_is_never_used_again() -> None:
    world = logged_in()
    world.do(c.RevokeToken(by=ADA, token=1))
    offer(world)
    take(world)
    assert [token.number for token in world.cluster.tokens.values()] == [2]
    world.check_replay()


def test_the_last_use_is_known_to_some_minutes_and_each_new_address_at_once() -> None:
    world = logged_in()
    assert use(world)
    assert not use(world)
    world.wait(BETWEEN_USES - 1)
    assert not use(world)
    assert use(world, address="192.0.2.8")
    world.wait(BETWEEN_USES)
    assert use(world, address="192.0.2.8")
    (token,) = world.cluster.tokens.values()
    assert (token.last_used, token.address) == (world.clock.now(), "192.0.2.8")
    world.check_replay()
