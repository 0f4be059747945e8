"""A small English of exactly 600 words, with agreement in number, relative clauses and reported speech.

`GRAMMAR` draws sentences, judges them, and knows its own entropy, with which MiniGPT's loss is compared.
How the entropy is exact is explained in `mini_model.pcfg`.
"""

from collections.abc import Sequence

from .pcfg import Grammar, Production

# The most frequent word of each category first. Nouns and adjectives start with a consonant: "a" fits all.
# Verbs stand under an example of their kind: one sleeps, one sees somebody, one says that something is so.
WORDS = {
    ".": ".",
    "and": "and",
    "that": "that",
    "the": "the",
    "determiner_s": "a this every one another each",
    "determiner_p": "some these many two all those several three most few",
    "be_s": "is was",
    "be_p": "are were",
    "noun": """
        cat dog kid girl boy teacher farmer doctor sailor painter singer baker lawyer soldier
        student neighbour writer dancer hunter king queen prince princess pirate wizard witch ghost
        giant poet priest mayor nurse driver lady bird horse rabbit fox wolfhound bear lion tiger
        monkey turtle frog donkey goat pigeon swan parrot spider beetle butterfly lizard squirrel
        hedgehog chicken hamster pony puppy kitten dragon monster robot table chair house garden
        river mountain bridge castle tower window door church city village road forest lake valley
        beach boat train bicycle lamp mirror carpet basket bottle candle clock bell letter picture
        piano guitar violin trumpet hat jacket shoe box sword shield crown palace temple market
        school
    """,
    "name": """
        Anna Ben Clara David Emma Felix Greta Hugo Ines Jonas Karla Leo Marta Nils Olga Pablo Rosa
        Samuel Tilda Ulrich Vera Walter Xenia Yusuf Zoe Alma Bruno Carmen Diego Elena Frida Gustav
        Hannah Ivan Julia Kenji Laila Mateo Nadia Oscar Paula Quentin Rita Simon Teresa Umberto
        Violeta Wanda Ximena Yara
    """,
    "adjective": """
        small big young new good bad happy sad long short quiet loud brave shy clever foolish kind
        cruel rich poor strong weak tall thin red blue green black white brown grey yellow pink
        golden silver hungry thirsty tired lazy busy calm cold warm dry wet clean dirty bright dark
        heavy soft hard sweet bitter famous strange funny serious gentle wild lonely proud polite
        rude careful nervous curious patient wise merry
    """,
    "adverb": """
        often always never sometimes rarely usually quickly slowly quietly loudly happily sadly
        gently bravely suddenly finally secretly openly politely rudely kindly gladly proudly
        carefully nervously lazily wisely badly eagerly calmly boldly softly daily nightly clearly
        simply probably certainly surely really
    """,
    "preposition": """
        near with behind beside under above without like below beyond around against inside outside
    """,
    "sleep": """
        sleep run sing laugh smile cry wait work swim jump arrive fall speak shout dream grow sneeze
        dance tremble wander listen sit stand travel yawn whistle snore blush giggle hesitate vanish
        rest die cough
    """,
    "see": """
        see miss love find need help seek chase follow meet hear want hate admire fear watch carry
        push pull catch kick kiss hug touch visit call remember forget teach bring hide protect
        ignore annoy amuse feed wash greet thank praise blame tease surprise scare trust avoid
    """,
    "say": """
        say think know believe hope claim doubt feel suspect swear
    """,
}
INFLECTED = {"noun": ("noun_s", "noun_p"), **{verb: (f"{verb}_p", f"{verb}_s") for verb in ("sleep", "see", "say")}}


def _add_s(word: str) -> str:
    """The plural of a regular noun, and the third person singular of a regular verb."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if word.endswith("y") and word[-2] not in "aeiou" else word + "s"


def _zipf(words: Sequence[str]) -> dict[str, float]:
    """Zipf-Mandelbrot: the word of rank r has a probability in proportion to 1 / (r + 2.7)."""
    weights = {word: 1 / (rank + 2.7) for rank, word in enumerate(words, start=1)}
    return {word: weight / sum(weights.values()) for word, weight in weights.items()}


def _english_lexicon() -> dict[str, dict[str, float]]:
    lexicon: dict[str, dict[str, float]] = {}
    for category, text in WORDS.items():
        words = text.split()
        if category in INFLECTED:
            plain, with_s = INFLECTED[category]
            lexicon |= {plain: _zipf(words), with_s: _zipf([_add_s(word) for word in words])}
        else:
            lexicon[category] = _zipf(words)
    return lexicon


def _english_rules(depth: int) -> dict[str, list[Production]]:
    """_s, _p: singular, plural. The digit: how many more levels a noun may be modified, a clause reported.

    Whatever agrees with a noun phrase is part of the same production, behind the word that fixes the number.
    Adverbs stand before their verb and a noun has at most one modifier behind it, so that "the girl sees the
    dog near the river" has one reading only.
    """
    rules = {"Sentence": [(1.0, f"Clause{depth} Close")], "Close": [(0.85, "."), (0.15, f"and Clause{depth} Close")]}
    for d in range(depth + 1):
        # What follows: nothing (an object), a verb phrase, or a verb whose object is the noun described.
        for phrase, follows in (("Object", ""), ("Clause", "Verb_{n}" + str(d)), ("Gap", "see_{n}")):
            s, p = follows.format(n="s"), follows.format(n="p")
            rules[f"{phrase}{d}"] = [
                (0.35, f"the {phrase}Noun{d}"),  # "the" leaves the number open
                (0.25, f"determiner_s Noun_s{d} {s}"),
                (0.20, f"determiner_p Noun_p{d} {p}"),
                (0.20, f"name {s}"),
            ]
            rules[f"{phrase}Noun{d}"] = [
                (0.25, f"adjective {phrase}Noun{d}"),
                (0.45, f"noun_s Modifier_s{d} {s}"),
                (0.30, f"noun_p Modifier_p{d} {p}"),
            ]
        for n in "sp":
            rules[f"Noun_{n}{d}"] = [(0.25, f"adjective Noun_{n}{d}"), (0.75, f"noun_{n} Modifier_{n}{d}")]
            rules[f"Verb_{n}{d}"] = [(0.2, f"adverb Predicate_{n}{d}"), (0.8, f"Predicate_{n}{d}")]
            rules[f"Relative_{n}{d}"] = [(0.6, f"Verb_{n}{d}"), (0.4, f"Gap{d}")]
            rules[f"Modifier_{n}{d}"] = [(1.0, "")]
            if d > 0:
                rules[f"Modifier_{n}{d}"] = [
                    (0.70, ""),
                    (0.16, f"preposition Object{d - 1}"),
                    (0.14, f"that Relative_{n}{d - 1}"),
                ]
            rules[f"Predicate_{n}{d}"] = [
                (0.35 if d > 0 else 0.45, f"sleep_{n}"),
                (0.40, f"see_{n} Object{d}"),
                (0.15, f"be_{n} adjective"),
            ]
            if d > 0:
                rules[f"Predicate_{n}{d}"].append((0.10, f"say_{n} that Clause{d - 1}"))
    return rules


def english(depth: int = 2) -> Grammar:
    """A small English of 600 words with agreement in number, relative clauses and reported speech.

    depth: how deeply noun modifiers and reported clauses nest, from 0; each level multiplies the states.

    >>> from mini_model.grammar import english
    >>> flat = english(depth=0)
    >>> flat.words(flat.sample(seed=3))
    'the dancer helps each dog .'
    >>> len(flat.vocabulary), round(flat.window_entropy(64), 3)
    (600, 3.389)
    """
    if not isinstance(depth, int) or depth < 0:
        raise ValueError(f"english(depth={depth!r}): the depth of nesting is a whole number from 0")
    return Grammar(_english_rules(depth), _english_lexicon())


GRAMMAR = english()
