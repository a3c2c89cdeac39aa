"""One step ahead: what `map` gives, with the next item begun before it is asked for."""

import threading

import pytest

from geocont_jax.pretrained.ahead import one_ahead


def test_nothing_is_lost_and_the_order_stays():
    assert list(one_ahead(lambda n: n * n, range(7))) == [n * n for n in range(7)]
    assert list(one_ahead(abs, [])) == []


def test_the_next_item_is_begun_while_the_first_is_in_use_and_no_other():
    begun = [threading.Event() for _ in range(4)]

    def note(number):
        begun[number].set()
        return number

    results = one_ahead(note, range(4))
    assert next(results) == 0
    assert begun[1].wait(timeout=30)
    assert not begun[2].is_set()
    assert next(results) == 1
    assert begun[2].wait(timeout=30)
    assert not begun[3].is_set()


def test_an_error_comes_at_its_items_turn():
    results = one_ahead(lambda n: 1 / n, [1, 2, 0, 4])
    assert [next(results), next(results)] == [1.0, 0.5]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_who_stops_early_leaves_no_thread_behind():
    before = threading.active_count()
    results = one_ahead(abs, range(10))
    assert next(results) == 0
    results.close()
    assert threading.active_count() == before
