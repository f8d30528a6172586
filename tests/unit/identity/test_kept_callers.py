"""For how long a credential that was looked up is taken on trust."""

from services.gateway.identity.authentication import KEPT_SECONDS, MOST_KEPT, KeptCallers
from services.gateway.identity.caller import Caller
from shared.contracts.identity import Identity


def caller(user: str, credential: str) -> Caller:
    """Someone, by a credential."""
    return Caller(Identity(user=user, credential=credential), username=user)


ANN, BOB = caller("ann", "session:1"), caller("bob", "token:1")


def test_it_is_kept_until_its_time_is_over() -> None:
    clock = [0.0]
    kept = KeptCallers(lambda: clock[0])
    kept.put("secret", ANN, kept.moment)
    clock[0] = KEPT_SECONDS - 0.001
    assert kept.get("secret") is ANN
    assert kept.get("another") is None
    clock[0] = KEPT_SECONDS
    assert kept.get("secret") is None


def test_an_ending_drops_what_it_names() -> None:
    kept = KeptCallers(lambda: 0.0)
    token = caller("ann", "token:2")
    for secret, who in (("a", ANN), ("b", token), ("c", BOB)):
        kept.put(secret, who, kept.moment)
    kept.forget("ann", ("session:1",))
    assert [kept.get(secret) for secret in "abc"] == [None, token, BOB]
    kept.forget("bob", ("session:1",))
    assert kept.get("c") is BOB
    kept.forget("ann", ())
    assert [kept.get(secret) for secret in "abc"] == [None, None, BOB]


def test_what_was_asked_before_an_ending_is_not_kept() -> None:
    kept = KeptCallers(lambda: 0.0)
    asked = kept.moment
    kept.forget("ann", ())
    kept.put("a", ANN, asked)
    assert kept.get("a") is None


def test_nobody_is_kept_and_the_number_is_bounded() -> None:
    kept = KeptCallers(lambda: 0.0)
    kept.put("nothing", None, kept.moment)
    for number in range(MOST_KEPT + 1):
        kept.put(str(number), ANN, kept.moment)
    assert kept.get("0") is None
    assert kept.get("1") is ANN
    assert kept.get(str(MOST_KEPT)) is ANN
