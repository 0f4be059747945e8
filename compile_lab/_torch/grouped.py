"""Private names around the grouped matmul."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def few_tilings(most: int) -> Iterator[None]:
    """While the block runs, autotuning a grouped matmul tries no more than ``most`` of its Triton template's tilings.

    They are taken evenly from those that torch would try, in the order of its own list.
    """
    from torch._inductor.kernel import mm_grouped  # takes seconds to import

    fitting = mm_grouped.early_config_prune

    def fewer(*args: Any, **kwargs: Any) -> list[Any]:
        every = list(fitting(*args, **kwargs))
        return every[:: max(1, -(-len(every) // most))]

    with mock.patch.object(mm_grouped, "early_config_prune", fewer):
        yield
