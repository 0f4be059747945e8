"""check says what is wrong with an answer. The notebook's own starters and solutions are checked by nbval."""

import ast
import statistics

from answers import judged_as


def said(net_s):
    return "pays" if net_s > 0 else "loses"


def by_unpaired_spread(compile_s, eager_ms, compiled_ms, steps):
    slowest, fastest = (statistics.quantiles(times, n=4) for times in (compiled_ms, eager_ms))
    nets = [steps * (fastest[a] - slowest[b]) / 1e3 - compile_s for a, b in ((0, 2), (2, 0))]
    return "cannot tell" if nets[0] < 0 < nets[1] else said(nets[0])


def by_the_mean_of_pairs(compile_s, eager_ms, compiled_ms, steps):
    saved = [eager - compiled for eager, compiled in zip(eager_ms, compiled_ms, strict=True)]
    mean, reach = statistics.mean(saved), 1.96 * statistics.stdev(saved) / len(saved) ** 0.5
    nets = [steps * one / 1e3 - compile_s for one in (mean - reach, mean + reach)]
    return "cannot tell" if nets[0] < 0 < nets[1] else said(nets[0])


def graph_of(source, outside=False):
    """The source without its comments and its variables' names: numbered in the order in which they come. With
    ``outside``, names from outside are numbered, too."""
    tree, names = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.arg = names.setdefault(node.arg, len(names))
        elif isinstance(node, ast.Name) and (outside or isinstance(node.ctx, ast.Store)):
            names.setdefault(node.id, len(names))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.dump(tree)


def key(program):
    flags = tuple(sorted(program.flags.items()))
    where = program.torch, program.chip, program.device
    return graph_of(program.source), program.shapes, program.dtypes, flags, *where


test_an_answer_is_told_what_is_wrong_with_it = judged_as(
    ("19.1", 40, "60 s are lost already"),
    ("19.1", 30, "40 s are still saved"),
    ("19.2", by_unpaired_spread, "gets slower and slower, and a gain of 4 ms, it says 'cannot tell'"),
    ("19.2", by_the_mean_of_pairs, "with a stop of a second every now and then"),
    ("19.2", lambda *args: True, "it returns True"),
    ("19.3", lambda program: program.source, "a wrong hit: with bfloat16"),
    ("19.3", lambda program: repr(program), "needless miss: the same program, another folder"),
    ("19.3", lambda program: [program.source], "is a list, which no dictionary takes"),
    ("19.3", lambda program: (*key(program)[1:], program.source), "needless miss: the same program, a comment added"),
    ("19.3", lambda program: key(program)[1:], "a wrong hit: with 3 in the place of 2"),
    ("19.3", lambda program: key(program)[:-1], "a wrong hit: with another GPU of the same machine"),
    (
        "19.3",
        lambda program: (graph_of(program.source, outside=True), *key(program)[1:]),
        "a wrong hit: max(x @ w) gets the code of min(x @ w)",
    ),
)
