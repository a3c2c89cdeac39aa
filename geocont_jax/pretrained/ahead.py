"""One step ahead: the next item is prepared in a thread while the caller works on this one."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def one_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield `function(item)` for each item in turn, as `map` does, with the next one begun before it is asked for.

    At most one result is ahead of the one in use. What `function` raises is raised at its item's turn; a caller that
    stops early waits for the item that was begun.

    >>> list(one_ahead(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    with ThreadPoolExecutor(1) as thread:
        begun: Future[Result] | None = None
        for item in items:
            coming = thread.submit(function, item)
            if begun is not None:
                yield begun.result()
            begun = coming
        if begun is not None:
            yield begun.result()
