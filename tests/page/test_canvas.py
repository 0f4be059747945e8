"""A picture in the making: words that are read on their colour, and a height that holds all that was drawn."""

import re
from xml.etree import ElementTree

import pytest

from compile_lab.page.canvas import Canvas
from compile_lab.page.figures import PALETTE


def words_of(canvas):
    return next(ElementTree.fromstring(canvas.svg()).iter("{http://www.w3.org/2000/svg}text"))


def _luminance(colour):
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("name", PALETTE)
def test_words_on_a_colour_are_read(name):
    canvas = Canvas()
    canvas.box(0, 0, 400, 30, name, "words")
    words = _luminance(words_of(canvas).get("fill"))
    lighter, darker = sorted([words, _luminance(PALETTE[name])], reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.2


def test_the_picture_is_as_high_as_what_is_drawn_and_holds_no_double_quote():
    canvas = Canvas()
    canvas.box(0, 0, 100, 50)
    canvas.line([(0, 60), (100, 210)], arrow=True)
    canvas.words(0, 20, 'a "quoted" <word> & more')
    svg = canvas.svg()
    assert '"' not in svg.replace("&quot;", "")
    assert float(re.search(r"viewBox='0 0 1000 ([\d.]+)'", svg)[1]) > 210
    assert words_of(canvas).text == 'a "quoted" <word> & more'
