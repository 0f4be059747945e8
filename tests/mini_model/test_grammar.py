"""The grammar: its exact figures against independent computations, its judgement against a chart parser."""

import itertools
import subprocess
import sys
from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from mini_model.grammar import GRAMMAR, english
from mini_model.pcfg import Grammar

TOY = Grammar(
    rules={
        "Sentence": [(0.6, "the Noun verb ."), (0.4, "name Tail")],
        "Noun": [(0.3, "adjective noun"), (0.7, "noun")],
        "Tail": [(1.0, "verb Object")],
        "Object": [(0.5, "."), (0.5, "the Noun .")],
    },
    lexicon={
        "the": {"the": 1.0},
        "adjective": {"red": 0.9, "big": 0.1},
        "noun": {"cat": 0.5, "dog": 0.25, "owl": 0.25},
        "verb": {"sees": 0.8, "likes": 0.2},
        "name": {"Ann": 1.0},
        ".": {".": 1.0},
    },
)


def sentences(grammar: Grammar, symbols: tuple[str, ...] | None = None):
    """Every (probability, words) of a grammar without recursion, by expanding its rules and nothing else."""
    symbols = (next(iter(grammar.rules)),) if symbols is None else symbols
    if not symbols:
        yield 1.0, ()
        return
    top, rest = symbols[0], symbols[1:]
    if top in grammar.rules:
        ways = [(p, sentences(grammar, (*body.split(), *rest))) for p, body in grammar.rules[top]]
        yield from ((p * q, words) for p, found in ways for q, words in found)
    else:
        for word, p in grammar.lexicon[top].items():
            yield from ((p * q, (word, *words)) for q, words in sentences(grammar, rest))


def derivations(grammar: Grammar, words: list[str]) -> int:
    """How many derivations a sentence has: a chart parser that shares nothing with the automaton."""
    category = {word: name for name, words in grammar.lexicon.items() for word in words}

    @cache
    def spans(symbol: str, i: int) -> dict[int, int]:
        """{end: number of derivations} of `symbol` from position i."""
        if symbol in grammar.lexicon:
            return {i + 1: 1} if i < len(words) and category[words[i]] == symbol else {}
        found: dict[int, int] = defaultdict(int)
        for _, body in grammar.rules[symbol]:
            ends = {i: 1}
            for part in body.split():
                after: dict[int, int] = defaultdict(int)
                for j, n in ends.items():
                    for k, m in spans(part, j).items():
                        after[k] += n * m
                ends = after
            for j, n in ends.items():
                found[j] += n
        return found

    return spans(next(iter(grammar.rules)), 0).get(len(words), 0)


def expectations(grammar: Grammar) -> tuple[float, float]:
    """Sentence entropy and mean length by the linear system x = own + M x over nonterminals (Grenander 1976)."""
    names = list(grammar.rules)
    uses, entropy, length = np.zeros((len(names), len(names))), np.zeros(len(names)), np.zeros(len(names))
    for row, name in enumerate(names):
        for p, body in grammar.rules[name]:
            entropy[row] -= p * np.log(p)
            for symbol in body.split():
                if symbol in grammar.rules:
                    uses[row, names.index(symbol)] += p
                else:
                    q = np.array([*grammar.lexicon[symbol].values()])
                    entropy[row] -= p * (q * np.log(q)).sum()
                    length[row] += p
    solved = np.linalg.solve(np.eye(len(names)) - uses, np.stack([entropy, length], axis=1))
    return float(solved[0, 0]), float(solved[0, 1])


def test_it_needs_no_torch():
    program = "import sys, mini_model.grammar; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_probabilities_by_brute_force_over_all_sentences_of_a_toy():
    every = list(sentences(TOY))
    assert len({words for _, words in every}) == len(every), "the toy is ambiguous"
    assert sum(probability for probability, _ in every) == pytest.approx(1)
    for probability, words in every:
        assert TOY.log_probability(TOY.encode(" ".join(words))) == pytest.approx(np.log(probability))


@pytest.mark.parametrize("length", [1, 3, 6])
def test_window_entropy_by_brute_force_over_all_windows_of_a_toy(length):
    windows: dict[tuple[str, ...], float] = defaultdict(float)
    for pair in itertools.product(sentences(TOY), repeat=2):  # two sentences of the toy fill any such window
        windows[tuple(word for _, words in pair for word in words)[:length]] += pair[0][0] * pair[1][0]
    p = np.array([*windows.values()])
    assert TOY.window_entropy(length) * length == pytest.approx(-(p * np.log(p)).sum())


@pytest.mark.parametrize("grammar", [GRAMMAR, english(0), english(1)], ids=["depth 2", "depth 0", "depth 1"])
def test_window_entropy_tends_to_the_entropy_rate_that_the_rules_give(grammar):
    entropy, length = expectations(grammar)
    gaps = [abs(grammar.window_entropy(targets) - entropy / length) for targets in (64, 640, 6400)]
    assert gaps[0] / 8 > gaps[1] and gaps[1] / 8 > gaps[2]


def test_monte_carlo_agrees_within_four_standard_errors():
    windows = GRAMMAR.windows(2000, 64, seed=7)
    means = np.array([-GRAMMAR.token_log_probabilities(row[1:]).mean() for row in windows])
    error = means.std(ddof=1) / len(means) ** 0.5
    assert error < 0.005
    assert abs(means.mean() - GRAMMAR.window_entropy(64)) < 4 * error
    lengths = np.array([len(GRAMMAR.sample([7, i])) for i in range(2000)])
    assert abs(lengths.mean() - expectations(GRAMMAR)[1]) < 4 * lengths.std() / len(lengths) ** 0.5


def test_sampled_sentences_have_one_derivation_and_parses_agrees_with_a_chart_parser_on_altered_ones():
    random, verdicts = np.random.default_rng(0), []
    for seed in range(200):
        tokens = GRAMMAR.sample(seed)
        assert GRAMMAR.parses(tokens)
        assert derivations(GRAMMAR, GRAMMAR.words(tokens).split()) == 1, GRAMMAR.words(tokens)
        place = random.integers(len(tokens))
        before, after, word = tokens[:place], tokens[place + 1 :], int(random.integers(600))
        for case in ([*before, *after], [*before, word, *after]):
            verdicts.append(GRAMMAR.parses(case))
            assert verdicts[-1] == (derivations(GRAMMAR, GRAMMAR.words(case).split()) > 0), GRAMMAR.words(case)
    assert 20 < sum(verdicts) < 380  # both verdicts were put to the test


def test_windows_start_at_a_boundary_and_depend_on_the_seed_only():
    windows = GRAMMAR.windows(5, 64, seed=[3, 1])
    assert windows.shape == (5, 65) and windows.dtype == np.int64
    assert (windows[:, 0] == GRAMMAR.end).all()
    assert (windows == GRAMMAR.windows(5, 64, seed=[3, 1])).all()
    assert (windows != GRAMMAR.windows(5, 64, seed=[3, 2])).any()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"S": [(0.5, "a .")]}, "'S' have probabilities that do not sum to 1"),
        ({"S": [(1.0, "a c .")]}, "'c', used by 'S'"),
        ({"S": [(0.5, "a ."), (0.5, "A b .")], "A": [(1.0, "a")]}, "not LL"),
        ({"S": [(1.0, "M a .")], "M": [(0.5, ""), (0.5, "a")]}, "not LL"),
        ({"S": [(0.5, "S a"), (0.5, ".")]}, "left-recursive"),
        ({"S": [(1.0, "A .")], "A": [(0.5, "a A b"), (0.5, "b")]}, "recursion is not bounded"),
        ({"S": [(1.0, "a b")]}, "must end with '.'"),
        ({"S": [(0.5, "a ."), (0.5, "")]}, "can end without"),
    ],
)
def test_rules_that_would_make_the_figures_wrong_are_refused(rules, message, monkeypatch):
    monkeypatch.setattr("mini_model.pcfg.MAX_STATES", 50)
    with pytest.raises(ValueError, match=message):
        Grammar(rules, {"a": {"a": 1.0}, "b": {"b": 1.0}, ".": {".": 1.0}})
