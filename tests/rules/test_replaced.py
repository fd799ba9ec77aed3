"""What a log that starts anew remembers of the rows that it had, for who goes back to them."""

from hardpack.rules.model import LogState, Replaced, SeenCommits
from hardpack.rules.replaced import MOST_REPLACED, started_anew, untold, within_reach

OLD = LogState(checkpoint=9, expired_to=4, seen=SeenCommits(4, 5, (3,)), paused=1, uncleanable="why")


def test_a_log_that_starts_anew_keeps_what_people_said_and_what_its_old_rows_need():
    anew = LogState(paused=1, uncleanable="why", replaced=(Replaced(9, 4, OLD.seen),))
    assert started_anew(OLD, 9) == anew
    assert started_anew(LogState(checkpoint=9), 9) == LogState(), "no deleted key can come back"
    assert started_anew(anew, 20).replaced == anew.replaced


def test_who_goes_back_meets_what_was_known_of_the_rows_there():
    state = LogState(
        expired_to=7, seen=SeenCommits(30, 31), replaced=(Replaced(9, 4, OLD.seen), Replaced(20, 6, OLD.seen))
    )
    assert untold(state, lambda by: by > 8) == LogState(expired_to=4, seen=OLD.seen)
    assert untold(state, lambda by: by > 19) == LogState(expired_to=6, seen=OLD.seen, replaced=state.replaced[:1])
    assert untold(state, lambda by: by > 20) == LogState(expired_to=7, seen=state.seen, replaced=state.replaced)


def test_what_nobody_can_go_back_to_is_forgotten():
    state = started_anew(OLD, 9)
    assert within_reach(state, 8) == state
    assert within_reach(state, 9).replaced == ()


def test_many_replacements_take_a_bounded_place_on_the_safe_side():
    state = LogState()
    for number in range(10, 10 * MOST_REPLACED + 30, 10):
        state = started_anew(LogState(expired_to=number, seen=SeenCommits(number), replaced=state.replaced), number + 5)
    assert len(state.replaced) == MOST_REPLACED
    first, *others = state.replaced
    assert first == Replaced(others[0].by - 10, first.by - 5, SeenCommits(10)), (
        "all that was removed, least that was seen"
    )
    assert [one.expired_to for one in others] == [one.by - 5 for one in others]
