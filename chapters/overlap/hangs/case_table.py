"""The cases by name, in the order of the page."""

from . import cases
from .cases import HangCase


def _by_name(*rows: HangCase) -> dict[str, HangCase]:
    return {each.name: each for each in rows}


CASES = _by_name(
    HangCase(
        "one_compiles",
        "One compiles, the others wait",
        "Rank 0 alone compiles a function for validation. The others are at the next collective long "
        "before, and its time-out is over before the compiler is.",
        "A barrier in a group of its own, whose time-out is as long as compiling may take.",
        cases.rank_0_validates,
        cases.others_wait_as_long_as_it_takes,
        2.0,
        needs=(cases.deep,),
    ),
    HangCase(
        "cache_hit",
        "A cache hit on one rank",
        "Every host has its own compile cache. Rank 0 finds its code there, rank 1 compiles it.",
        "All wait, in a patient group, until every rank has its code.",
        cases.loads_or_compiles,
        cases.starts_when_all_are_compiled,
        2.0,
        needs=(cases.deep,),
        before=cases.an_earlier_job,
        caches=("cache", "cold"),
    ),
    HangCase(
        "recompiles",
        "A recompilation on one rank",
        "Rank 1's second batch is longer, so its guards fail and it compiles again. The collective stands "
        "in the graph: rank 0 waits in it.",
        "One graph for all lengths, compiled before the first step.",
        cases.rank_1_has_a_longer_batch,
        cases.one_graph_for_all_lengths,
        2,
        needs=(cases.deep, cases.summed),
        cure_needs=(cases.deep, cases.summed),
        before=cases.an_earlier_job_with_length_8,
    ),
    HangCase(
        "branch_in_a_graph",
        "A branch on data, compiled",
        "The branch breaks the graph. What follows it holds a collective on one side and none on the "
        "other, and only rank 0's data take that side.",
        "Both sides in one graph: the collectives always run, and `torch.where` chooses.",
        cases.one_rank_clips,
        cases.all_ranks_clip,
        [0.6063] * 4,
        needs=(cases.clipped,),
        cure_needs=(cases.clipped_by_all,),
    ),
    HangCase(
        "another_order",
        "Another order of collectives",
        "Each rank sends its metrics in the order of its own dict.",
        "All ranks sort the names.",
        cases.each_in_its_own_order,
        cases.all_in_one_order,
        {"loss": 2.0, "words": 8.0},
    ),
    HangCase(
        "rank_branch",
        "A branch on the rank",
        "Only rank 0 logs, so only rank 0 reduces what it logs.",
        "Every rank takes part in the collective, and rank 0 prints.",
        cases.rank_0_logs,
        cases.all_reduce_and_rank_0_logs,
        4.0,
    ),
    HangCase(
        "uneven_batches",
        "An uneven last batch",
        "Rank 0 has a batch more. Its backward sends gradients that rank 1, which is behind the loop, never sends.",
        "`Join`: a rank that is done shadows the others' collectives.",
        cases.trains_on_what_it_has,
        cases.joins_at_the_end,
        1.0,
        needs=(cases.OneWeight,),
        cure_needs=(cases.OneWeight,),
    ),
    HangCase(
        "ddp_graph",
        "Another graph under DDP",
        "Rank 1's batch has no image, so one of its weights gets no gradient, and the bucket with it is never full.",
        "`find_unused_parameters=True`: weights outside the graph count as ready.",
        cases.rank_1_has_no_image,
        cases.unused_weights_are_sent_too,
        [1.0, 0.5],
        needs=(cases.OneWeight, cases.TwoTowers),
        cure_needs=(cases.OneWeight, cases.TwoTowers),
    ),
    HangCase(
        "swallowed",
        "An exception that one rank swallows",
        "Rank 1 skips a bad sample, and its collective with it. From there on its collectives are one behind.",
        "The ranks agree whether to skip, in a collective of its own.",
        cases.skips_a_bad_sample,
        cases.all_skip_it,
        [4.0, 12.0],
    ),
    HangCase(
        "dead_rank",
        "A dead rank",
        "The kernel kills rank 1 in its third step.",
        "A checkpoint every step, and the same program started again: what `torchrun --max-restarts` does.",
        cases.rank_1_is_killed,
        cases.rank_1_is_killed,
        8.0,
        again=True,
    ),
    HangCase(
        "lonely_group",
        "A group that one rank makes alone",
        "`new_group` is itself collective: every rank of the default group has to call it.",
        "All ranks make the group.",
        cases.rank_0_makes_a_group,
        cases.all_make_the_group,
        2.0,
    ),
    HangCase(
        "receive_first",
        "All receive before they send",
        "Each rank waits for a message that the other sends after its own has come.",
        "`batch_isend_irecv` posts both at once.",
        cases.receives_first,
        cases.sends_and_receives_at_once,
        4.0,
    ),
    HangCase(
        "odd_of_three",
        "Of three ranks, one goes another way",
        "Rank 2 has three values and broadcasts them, the others reduce theirs. Most ranks agree, so the "
        "odd one can be named.",
        "All pad to the longest, and reduce.",
        cases.gathers_what_it_has,
        cases.pads_to_the_longest,
        7.0,
        ranks=3,
    ),
)
