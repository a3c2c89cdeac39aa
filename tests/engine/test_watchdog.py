"""The watchdog reports a sleeping call, and neither a working one nor none."""

import threading
import time

from geocont_jax.engine.watchdog import Watchdog

PATIENCE = 0.5


def watched(seconds, work, in_call=True):
    stalls = []
    with Watchdog(stalls.append, PATIENCE, watch_processor=True) as watchdog:
        if in_call:
            watchdog.call_begins()
        work(seconds)
        watchdog.call_ends()
    return stalls


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def test_a_call_that_sleeps_is_reported_once():
    stalls = watched(6 * PATIENCE, time.sleep)
    assert len(stalls) == 1
    assert stalls[0] >= PATIENCE


def test_a_call_that_works_is_left_alone():
    assert watched(3 * PATIENCE, spin) == []


def test_waiting_between_calls_is_no_stall():
    assert watched(3 * PATIENCE, time.sleep, in_call=False) == []


def test_the_thread_ends_with_the_work():
    watched(0.0, time.sleep)
    assert "geocont-watchdog" not in {thread.name for thread in threading.enumerate()}
