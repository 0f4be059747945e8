"""What a page says, sentence by sentence, and the same page in another language."""

import json

import pytest

from compile_lab.page.messages import Translation, messages, page_messages, rewritten


def texts(source):
    return [each.text for each in page_messages(source)]


@pytest.mark.parametrize(
    ("source", "sentences"),
    [
        ("<p>A step takes 1,234.5 ms on 2 GPUs.</p>", ["A step takes {0} ms on {1} GPUs."]),
        (
            '<p>See <a href="x.html"><span>the\n bubble</span></a> of <code class="c"><span>f(x, 2)</span></code>.</p>',
            ["See <1><2>the bubble</2></1> of `f(x, 2)`."],
        ),
        ("<p><strong>All of it.</strong></p>", ["All of it."]),
        ("<li>one<ul><li>two <em>three</em></li></ul></li>", ["one", "two <1>three</1>"]),
        ("<p><span>■</span> forward &nbsp; </p>", ["<1>■</1> forward"]),
        ("<p><span>left <i>■</i></span> <span>right</span></p>", ["left <1>■</1>", "right"]),
        ("<pre>no sentence</pre><script>nor this</script><p>12 %</p><td>0F1</td>", []),
        ("<p>as &lt; bs &amp; {c}</p>", ["as &lt; bs &amp; {{c}"]),
        ("<h2>Title<a class='headerlink' href='#t'>#</a></h2>".replace("'", '"'), ["Title"]),
        ('<img alt="Two ranks. rank 0: 3 ms; rank 1: 4 ms">', ["Two ranks.", "rank {0}: {1} ms", "rank {0}: {1} ms"]),
        ("<text>waits 27%</text><svg><title>a map</title></svg>", ["waits {0}%", "a map"]),
        ("<p>torch 2.13.0+cpu, 2026-11-30, bf16, H200, GPT-2</p>", ["torch {0}+cpu, {1}, bf16, H200, GPT-2"]),
    ],
)
def test_a_sentence_is_what_stands_between_two_blocks(source, sentences):
    assert texts(source) == sentences


SCRIPT = '<script type="application/json" class="lab-choices">%s</script>'


def test_what_a_script_shows_is_said_and_what_it_computes_with_is_not():
    value = {"axes": [{"name": "schedule", "options": ["one way"]}], "panels": ["<p>It waits.</p>"]}
    hidden = {"live": {"panel": "compile_lab.simulator.explored_view:pipeline", "axes": [{"key": "schedule"}]}}
    assert texts(SCRIPT % json.dumps(value | hidden)) == ["schedule", "one way", "It waits."]


def test_a_live_controls_options_are_shown_in_other_words_and_asked_for_in_their_own():
    value = {"live": {"panel": "a:b", "axes": [{"key": "way", "all": ["one way", "fp8"], "stored": ["one way"]}]}}
    assert texts(SCRIPT % json.dumps(value)) == ["one way", "fp8"]
    found = rewritten(SCRIPT % json.dumps(value), Translation({"one way": "una manera"}))
    (axis,) = json.loads(found.partition(">")[2].removesuffix("</script>"))["live"]["axes"]
    assert (
        axis["labels"] == ["una manera", "fp8"] and axis["all"] == ["one way", "fp8"] and axis["stored"] == ["one way"]
    )


@pytest.mark.parametrize(
    "source",
    [
        '<p>A <a href="x?a=1&amp;b" title="a &quot;name&quot;">it &amp; that</a>, 3 &lt; 4.</p>\n<p> Two\n lines </p>',
        "<p>One <code>x</code> and <code>x</code>, <em>and <b>more</b></em><br/>below.</p><!-- a <p> note -->",
        SCRIPT % r'{"panels":["<p title=\"one two\">One.<\/p>"],"unit":" ms"}',
    ],
)
def test_a_page_said_in_its_own_words_is_that_page(source):
    kept = {each.text: each.text for each in page_messages(source)}
    assert "".join(rewritten(source, Translation(kept)).split()) == "".join(source.split())


def test_marks_move_with_the_words_and_numbers_take_the_languages_separators():
    known = {"<1>Two</1> of `f` take {0} ms.": "Tardan {0} ms `f` y <1>dos</1>."}
    source = '<p><a href="t.html">Two</a> of <code>f</code> take 12,345.5 ms.</p>'
    assert rewritten(source, Translation(known)) == (
        '<p>Tardan 12\u202f345,5 ms <code>f</code> y <a href="t.html">dos</a>.</p>'
    )


def test_what_is_not_known_stays_and_is_counted():
    words = Translation({"One.": "Uno."})
    assert rewritten("<p>One.</p><p>Two.</p>", words) == "<p>Uno.</p><p>Two.</p>" and words.left == {"Two."}


def test_a_translation_with_a_mark_that_its_sentence_has_not_is_an_error():
    (message,) = messages("<p>It takes 1 ms.</p>")
    with pytest.raises(ValueError, match=r"'\{1\}' is no mark of 'It takes \{0\} ms.'"):
        message.source("Tarda {1} ms.", lambda value, _: value)
