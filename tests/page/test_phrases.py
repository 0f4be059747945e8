"""Sentences that are put together from parts, in another language."""

import json

import pytest

from compile_lab.page.messages import spoken
from compile_lab.page.phrases import Phrases

KNOWN = {
    "✗ {a}: {b}": "✗ {=a}: {b}",
    "for {a} it says {b}: {c}": "para {a} dice {b}: {c}",
    "for a call {a}, {b}": "para una llamada {a}, {b}",
    "issued in {a} ms, {b} ms on the GPU": "emitida en {a} ms, {b} ms en la GPU",
    "too much, for {0} bytes.": "demasiado, para {0} bytes.",
    "a fifth of it is too little.": "una quinta parte es poco.",
    "<1>{a}</1> takes {b} longer": "<1>{a}</1> tarda un {b} más",
    "{a} then {b}": "{b} tras {a}",
    "hours": "horas",
    "{a} {b} long": "{a} {b} de largo",
    "{a} to {b}": "{a} a {b}",
}


@pytest.mark.parametrize(
    ("english", "said"),
    [
        ("✗ 12.3: for [8, 1.5] it says 1.5: too much, for 1.5 bytes.",
         "✗ 12.3: para [8, 1.5] dice 1,5: demasiado, para 1,5 bytes."),
        ("for a call issued in 0.5 ms, 2 ms on the GPU, a fifth of it is too little.",
         "para una llamada emitida en 0,5 ms, 2 ms en la GPU, una quinta parte es poco."),
        ("<b>1F1B</b> takes 2.5% longer", "<b>1F1B</b> tarda un 2,5\u00a0% más"),
        ("3 hours long", "3 horas de largo"),
        ("-0.25 to 3", "-0,25 a 3"),
        ("10.5 to 12,345.5", "10,5 a 12\u202f345,5"),
        ("<i>1</i> then <b>2</b>", "<b>2</b> tras <i>1</i>"),
        ("it says nothing that is known", "it says nothing that is known"),
    ],
)  # fmt: skip
def test_a_sentence_is_said_with_its_parts(english, said):
    assert spoken(f"<p>{english}</p>", json.dumps(KNOWN)) == f"<p>{said}</p>"


def test_words_that_are_not_known_are_told():
    phrases = Phrases(KNOWN)
    assert phrases("for {0} it says {1}: some other words") == "para {0} dice {1}: some other words"
    assert phrases.left == {"some other words"}
    assert phrases("nothing like it") is None


def test_a_value_with_a_readers_words_is_taken_over():
    phrases = Phrases(KNOWN)
    assert phrases("for 'some words' it says {0}: hours") == "para 'some words' dice {0}: horas"
    assert not phrases.left


@pytest.mark.parametrize("count", [12, 2000])
def test_a_text_that_can_be_taken_apart_in_many_ways_is_left_alone(count):
    phrases = Phrases({"{a}: {b}": "{a}: {b}", "{a}, {b}": "{a}, {b}"})
    assert phrases(": some words, and others".join("x" * count)) is None
