"""Private names around the grouped matrix product."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def few_tilings(most: int) -> Iterator[None]:
    """While the block runs, autotuning a grouped product tries no more than ``most`` of its Triton template's tilings.

    They are taken evenly from those that torch would try, in the order of its own list.
    """
    from torch._inductor.kernel import mm_grouped  # takes seconds to import

    fitting = mm_grouped.early_config_prune

    def fewer(*args: Any, **kwargs: Any) -> list[Any]:
        every = list(fitting(*args, **kwargs))
        return every[:: max(1, -(-len(every) // most))]

    with mock.patch.object(mm_grouped, "early_config_prune", fewer):
        yield


@contextmanager
def template_taken() -> Iterator[list[int]]:
    """While the block runs, a grouped product becomes Inductor's Triton template, without timing: its first tiling.

    For a virtual GPU, where torch.cuda.is_available() is False and nothing can be timed. The list that is given
    grows by the number of the template's choices, at each product.
    """
    from torch._inductor import select_algorithm
    from torch._inductor.kernel import mm_grouped

    counts: list[int] = []

    def first(self: Any, name: str, choices: list[Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        own = [choice for choice in choices if "triton" in choice.name]
        counts.append(len(own))
        taken = (own or choices)[0]
        return taken.output_node(), taken

    with (
        mock.patch.object(mm_grouped, "can_use_triton_kernel", lambda *args: True),
        mock.patch.object(select_algorithm.AlgorithmSelectorCache, "__call__", first),
    ):
        yield counts
