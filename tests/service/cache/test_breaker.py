"""The breaker: when it opens, whom it lets try, and what closes it."""

from service.cache.breaker import Breaker, BreakerState


def test_the_breaker_opens_after_failures_in_a_row_and_one_try_closes_it() -> None:
    """Three failures in a row open it; after five seconds one call may try; what becomes of it decides."""
    now = [100.0]
    breaker = Breaker(failures=3, open_s=5.0, clock=lambda: now[0])
    for failing in (True, True, False, True, True):
        assert breaker.allows()
        assert not (breaker.failed() if failing else breaker.succeeded())
    assert breaker.failed()
    assert (BreakerState.OPEN, False) == (breaker.state, breaker.allows())
    # Calls that began before it opened say nothing of now.
    assert (False, False, BreakerState.OPEN) == (breaker.succeeded(), breaker.failed(), breaker.state)
    now[0] += 4.9
    assert not breaker.allows()
    now[0] += 0.2
    assert [True, False, False] == [breaker.allows() for _ in range(3)]
    assert BreakerState.HALF_OPEN is breaker.state
    assert not breaker.failed()
    assert (BreakerState.OPEN, False) == (breaker.state, breaker.allows())
    now[0] += 5
    assert breaker.allows()
    assert breaker.succeeded()
    assert (BreakerState.CLOSED, True) == (breaker.state, breaker.allows())
    # And three failures are needed again.
    assert [False, False, True] == [breaker.failed() for _ in range(3)]


def test_a_try_that_nothing_is_heard_of_is_followed_by_another() -> None:
    """A request that is given up in the middle of its try does not leave the breaker open for good."""
    now = [0.0]
    breaker = Breaker(failures=1, open_s=5.0, clock=lambda: now[0])
    breaker.failed()
    now[0] = 5.0
    assert [True, False] == [breaker.allows() for _ in range(2)]
    now[0] = 10.0
    assert breaker.allows()
