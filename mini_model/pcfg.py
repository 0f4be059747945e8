"""A probabilistic grammar whose entropy is known exactly, so that a model's loss has a floor.

The grammar is context-free and read from left to right: what may still come is a stack of symbols, and each
word decides which production was used (the grammar is LL(1), Aho & Ullman 1972, section 5.1). So:

* A sentence has exactly one derivation. `Grammar` refuses rules for which this fails, so the entropy of the
  derivations is the entropy of the sentences.
* The stack is a function of the words so far. With recursion bounded in depth there are finitely many stacks,
  and the grammar is a Markov chain over them that emits one word a step: a unifilar source, whose entropy
  rate is the mean entropy of one step (Shannon 1948, section 7).
* The next word's true distribution is known after every prefix: each average below is a sum, no estimate.

A *stream* is one sentence after another, each closed by its end token ".". A *window* is the end token and
the first `length` tokens of a fresh stream: it starts at a sentence boundary and may cut its last sentence off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index

import numpy as np

Stack = tuple[str, ...]
Production = tuple[float, str]  # probability, symbols separated by spaces ("" is the empty word)
Seed = int | Sequence[int] | np.random.Generator

END = "."
MAX_STATES = 20_000


@dataclass(frozen=True, eq=False)
class Grammar:
    """Which sentences are there, how probable is each, and how uncertain is the next token?

    rules: nonterminal -> its productions, whose probabilities sum to 1. The first one is the start symbol.
    lexicon: lexical category -> {word: probability within the category}; a word belongs to one category.

    ValueError says what is wrong when a symbol is undefined, probabilities do not sum to 1, a word has two
    categories, a sentence can end without ".", or the grammar is not LL(1) or not bounded in depth.

    A laugh of one word or more, where after each word a coin says whether another follows:

    >>> from mini_model.pcfg import Grammar
    >>> rules = {"Laugh": [(1, "ha More")], "More": [(0.5, "ha More"), (0.5, ".")]}
    >>> laugh = Grammar(rules, {"ha": {"ha": 1}, ".": {".": 1}})
    >>> laugh.parses(laugh.encode("ha ha .")), round(laugh.window_entropy(2), 4)
    (True, 0.3466)
    """

    rules: Mapping[str, Sequence[Production]]
    lexicon: Mapping[str, Mapping[str, float]]

    def __post_init__(self) -> None:
        self._check_symbols()
        _ = self._stacks  # compiling finds ambiguity, left recursion and unbounded depth

    # ---- words and token ids ----

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The words, in the order of their token ids."""
        return tuple(word for words in self.lexicon.values() for word in words)

    @cached_property
    def _id(self) -> dict[str, int]:
        return {word: token for token, word in enumerate(self.vocabulary)}

    @property
    def end(self) -> int:
        """The token id of ".", which closes every sentence and opens every window."""
        return self._id[END]

    def encode(self, text: str) -> list[int]:
        """Token ids of a text whose words are separated by spaces. ValueError names an unknown word."""
        unknown = [word for word in text.split() if word not in self._id]
        if unknown:
            raise ValueError(
                f"{unknown[0]!r} is not one of the grammar's {len(self.vocabulary)} words; "
                "separate words by spaces and take them from Grammar.vocabulary"
            )
        return [self._id[word] for word in text.split()]

    def words(self, tokens: Sequence[int]) -> str:
        """The text of some token ids, words separated by spaces. ValueError names an id out of range."""
        return " ".join(self.vocabulary[token] for token in self._checked(tokens))

    # ---- drawing and judging ----

    def sample(self, seed: Seed) -> list[int]:
        """Token ids of one random sentence, the end token included."""
        random, state = np.random.default_rng(seed), 0
        tokens: list[int] = []
        while not tokens or tokens[-1] != self.end:
            tokens.append(int(np.searchsorted(self._cumulative[state], random.random(), side="right")))
            state = self._successor[state, tokens[-1]]
        return tokens

    def windows(self, n: int, length: int, seed: Seed) -> np.ndarray:
        """n windows, int64 [n, length + 1]: the end token, then `length` tokens of a fresh stream.

        Inputs are `[:, :-1]` and targets `[:, 1:]`. The same arguments give the same windows.
        """
        if n < 1 or length < 1:
            raise ValueError(f"windows(n={n}, length={length}): both must be at least 1")
        random = np.random.default_rng(seed)
        windows = np.full((n, length + 1), self.end, dtype=np.int64)
        state = np.zeros(n, dtype=np.int64)
        for position in range(1, length + 1):
            tokens = (self._cumulative[state] <= random.random((n, 1))).sum(axis=1)
            windows[:, position] = tokens
            state = self._successor[state, tokens]
        return windows

    def parses(self, tokens: Sequence[int]) -> bool:
        """Are these token ids exactly one sentence, end token included? ValueError: an id out of range."""
        return self.log_probability(tokens) > -np.inf

    def log_probability(self, tokens: Sequence[int]) -> float:
        """ln P(sentence) in nats; -inf if the token ids are not exactly one sentence, end token included."""
        tokens = self._checked(tokens)
        if self.end not in tokens or tokens.index(self.end) != len(tokens) - 1:
            return -np.inf
        return float(self.token_log_probabilities(tokens).sum())

    def token_log_probabilities(self, tokens: Sequence[int]) -> np.ndarray:
        """ln P(token | those before it) for each token of a stream, in nats; -inf from an impossible one on."""
        logs, state = np.full(len(tokens), -np.inf), 0
        for position, token in enumerate(self._checked(tokens)):
            if self.probabilities[state, token] == 0:
                break
            logs[position] = np.log(self.probabilities[state, token])
            state = self._successor[state, token]
        return logs

    # ---- exact averages, in nats and tokens ----

    def window_entropy(self, length: int) -> float:
        """The least mean loss over a window's `length` targets, in nats per token: a trained model's floor.

        By the chain rule (Cover & Thomas 2006, theorem 2.5.1) a window's entropy is the sum of its tokens'
        conditional entropies. A window starts at a sentence boundary, so its tokens fix the grammar's state
        at every position; the states' distribution is propagated exactly.
        """
        if length < 1:
            raise ValueError(f"window_entropy(length={length}): a window has at least 1 target")
        states, total = np.eye(len(self._stacks))[0], 0.0
        for _ in range(length):
            total += states @ self._state_entropy
            states = states @ self._transitions
        return float(total / length)

    # ---- the Markov chain over stacks ----

    @cached_property
    def _stacks(self) -> dict[Stack, dict[str, tuple[float, Stack]]]:
        """Each reachable stack -> {category of the next word: (probability, stack after it)}; start first."""
        start: Stack = (next(iter(self.rules)),)
        stacks: dict[Stack, dict[str, tuple[float, Stack]]] = {}
        to_do = [start]
        while to_do:
            stack = to_do.pop()
            if stack in stacks:
                continue
            stacks[stack] = self._choices(stack)
            # An empty stack is the end of a sentence: the stream goes on with the next one.
            to_do += [after or start for _, after in stacks[stack].values()]
            if len(stacks) > MAX_STATES:
                raise ValueError(
                    f"more than {MAX_STATES} stacks are reachable, for example {' '.join(stack)!r}: the "
                    "recursion is not bounded; number the nonterminals by depth and let the last depth stop"
                )
        return stacks

    def _choices(self, stack: Stack) -> dict[str, tuple[float, Stack]]:
        choices: dict[str, tuple[float, Stack]] = {}
        try:
            for probability, category, after in self._expand(stack):
                if category in choices:
                    raise ValueError(
                        f"not LL(1): on the stack {' '.join(stack)!r} there are two ways to a word of {category!r}, so "
                        "a sentence may have two derivations; factor the productions that start with it"
                    )
                if (not after) != (END in self.lexicon[category]):
                    raise ValueError(f"a sentence must end with {END!r} and have it nowhere else: see {category!r}")
                choices[category] = (probability, after)
        except RecursionError:
            raise ValueError(f"{stack[0]!r} is left-recursive: it can reach itself before any word") from None
        return choices

    def _expand(self, stack: Stack) -> Iterator[tuple[float, str, Stack]]:
        """Each way to put one word: (probability, its category, the stack after it)."""
        if not stack:
            raise ValueError(f"a sentence can end without {END!r}: close the start symbol's productions with it")
        top, rest = stack[0], stack[1:]
        if top in self.lexicon:
            yield 1.0, top, rest
            return
        for probability, symbols in self.rules[top]:
            for share, category, after in self._expand((*symbols.split(), *rest)):
                yield probability * share, category, after

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """P(word | state) and the state after it, both [states, vocabulary]."""
        number = {stack: state for state, stack in enumerate(self._stacks)}
        probabilities = np.zeros((len(number), len(self.vocabulary)))
        successor = np.zeros(probabilities.shape, dtype=np.int64)
        for stack, choices in self._stacks.items():
            for category, (probability, after) in choices.items():
                tokens = [self._id[word] for word in self.lexicon[category]]
                probabilities[number[stack], tokens] = probability * np.array([*self.lexicon[category].values()])
                successor[number[stack], tokens] = number[after] if after else 0
        probabilities.setflags(write=False)
        return probabilities, successor

    @property
    def probabilities(self) -> np.ndarray:
        """P(next token | state), float64 [states, vocabulary], read-only; state 0 starts a sentence."""
        return self._tables[0]

    @property
    def _successor(self) -> np.ndarray:
        return self._tables[1]

    @cached_property
    def _cumulative(self) -> np.ndarray:
        # Divided by the last column, so that it is exactly 1 and a draw below 1 never falls behind it.
        cumulative = self.probabilities.cumsum(axis=1)
        return cumulative / cumulative[:, -1:]

    @cached_property
    def _state_entropy(self) -> np.ndarray:
        p = self.probabilities
        return -(p * np.log(p, out=np.zeros_like(p), where=p > 0)).sum(axis=1)

    @cached_property
    def _transitions(self) -> np.ndarray:
        """P(next state | state), [states, states]."""
        transitions = np.zeros((len(self._stacks), len(self._stacks)))
        np.add.at(transitions, (np.arange(len(transitions))[:, None], self._successor), self.probabilities)
        return transitions

    # ---- checks ----

    def _checked(self, tokens: Sequence[int]) -> list[int]:
        tokens = [index(token) for token in tokens]
        for position, token in enumerate(tokens):
            if not 0 <= token < len(self.vocabulary):
                raise ValueError(
                    f"token id {token} at position {position} is out of range: the grammar's ids are "
                    f"0 to {len(self.vocabulary) - 1}; Grammar.encode gives the ids of a text"
                )
        return tokens

    def _check_symbols(self) -> None:
        for name, productions in self.rules.items():
            if abs(sum(probability for probability, _ in productions) - 1) > 1e-9:
                raise ValueError(f"the productions of {name!r} have probabilities that do not sum to 1")
            for symbol in {symbol for _, symbols in productions for symbol in symbols.split()}:
                if (symbol in self.rules) == (symbol in self.lexicon):
                    raise ValueError(f"{symbol!r}, used by {name!r}, must be a rule or a lexical category (not both)")
        for category, words in self.lexicon.items():
            if abs(sum(words.values()) - 1) > 1e-9:
                raise ValueError(f"the words of {category!r} have probabilities that do not sum to 1")
        if len(set(self.vocabulary)) < len(self.vocabulary):
            twice = sorted(word for word in set(self.vocabulary) if self.vocabulary.count(word) > 1)
            raise ValueError(f"a word belongs to one category, but these stand twice: {', '.join(twice)}")
