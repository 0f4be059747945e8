"""The Spanish catalogues: brought up to what the English pages say, and all that judges and instruments can say."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
import spanish
from babel.messages.pofile import read_po
from lab_site import templates
from lab_site.spanish import CATALOGUES, WORDS, catalogue, read

from compile_lab.page.messages import spoken
from compile_lab.page.phrases import ANY, Phrases

ROOT = Path(__file__).resolve().parents[1]

PAGE = "<h1>Kernels</h1><p>One kernel runs for 3 ms at most.</p><p>A graph has none of these.</p>"
CATALOGUE = """
msgid "Kernels"
msgstr "Kernels"

msgid "One kernel runs for {0} ms in all."
msgstr "Un kernel se ejecuta {0} ms en total."

msgid "This sentence has gone."
msgstr "Esta frase ya no está."
"""
JUDGE = '''
"""Exercises of a chapter."""

@exercise("01.1")
def judge(answer):
    """A sentence for those who read the source."""
    more = "more" if answer < 3 else "fewer"
    if answer > 5:
        more = "no more"
    if answer > 9:
        return f"{more} than {answer}, {'at last' if answer else f'not {answer}'}: look again."
    names = ", ".join(answer)
    return f"for {names or 'nothing'} it is {WHY[answer]}" if answer else None

WHY = {"AG0 w0 MM": "what a step of {most} bytes sends"}
raise ValueError(f"give 2{answer}")
'''


@pytest.fixture
def root(tmp_path, monkeypatch):
    (site := tmp_path / "site/book").mkdir(parents=True)
    (site / "index.html").write_text(PAGE)
    (folder := tmp_path / spanish.CATALOGUES).mkdir(parents=True)
    (folder / "site.po").write_text(CATALOGUE)
    (folder / "gone.po").write_text(CATALOGUE)
    monkeypatch.setattr(spanish, "SITE", tmp_path / "site")
    monkeypatch.setattr(spanish, "ROOT", tmp_path)
    return tmp_path


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["spanish.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        spanish.main()
    return ended.value.code


def test_an_update_keeps_the_old_words_of_what_has_changed_and_drops_what_has_gone(root, monkeypatch, capsys):
    assert run(monkeypatch, "update") == 1
    with (root / spanish.CATALOGUES / "site.po").open("rb") as file:
        found = {each.id: (each.string, each.fuzzy) for each in read_po(file) if each.id}
    assert found == {
        "Kernels": ("Kernels", False),
        "One kernel runs for {0} ms at most.": ("Un kernel se ejecuta {0} ms en total.", True),
        "A graph has none of these.": ("", False),
    }
    assert not (root / spanish.CATALOGUES / "gone.po").exists()
    run(monkeypatch, "update")  # a second one changes nothing, and keeps what it was
    written = (root / spanish.CATALOGUES / "site.po").read_text("utf-8")
    assert written.count("#| msgid") == 1 and "# |" not in written
    assert "site: A graph has none of these.\n3 sentences, 2 not in Spanish" in capsys.readouterr().out


def test_what_a_long_sentence_was_is_kept_and_forgotten_once_it_is_translated(root, monkeypatch):
    """Babel breaks the line of what a message was, within its quotes."""
    old = "A kernel reads all of its tensors from memory once, computes, and writes all of its results once, in order."
    new = old.replace("in order", "in turn")
    file, page = root / spanish.CATALOGUES / "site.po", root / "site/book/index.html"
    file.write_text(f'msgid "{old}"\nmsgstr "Un kernel"\n')
    page.write_text(f"<p>{new}</p>")
    for _ in range(3):
        assert run(monkeypatch, "update") == 1
        kept = [line.removeprefix("#| ") for line in file.read_text("utf-8").splitlines() if line.startswith("#")]
        assert old in " ".join(kept) and not [line for line in kept if line.startswith("# ")]
    file.write_text(file.read_text("utf-8").replace("#, fuzzy\n", ""))
    catalogue.cache_clear()  # it is read once a program
    assert run(monkeypatch, "update") == 0 and "#| " not in file.read_text("utf-8")


def test_what_is_all_translated_is_no_failure(root, monkeypatch, capsys):
    (root / "site/book/index.html").write_text("<h1>Kernels</h1>")
    assert run(monkeypatch) == 0 and capsys.readouterr().out == "1 sentences, 0 not in Spanish\n"


def test_a_judges_templates_are_all_that_it_can_say(tmp_path):
    (room := tmp_path / "chapters/one").mkdir(parents=True)
    (room / "in_page.py").write_text(JUDGE)
    assert templates.by_judges(tmp_path) == [
        "no more",
        "more than {a}, at last: look again.",
        "more than {a}, not {b}: look again.",
        "fewer than {a}, at last: look again.",
        "fewer than {a}, not {b}: look again.",
        "no more than {a}, at last: look again.",
        "no more than {a}, not {b}: look again.",
        "for {a} it is {b}",
        "for nothing it is {a}",
        "what a step of {a} bytes sends",
        "give {0}{a}",
    ]


# ---- the book's own catalogues


@pytest.mark.parametrize(("name", "found"), [("judges", templates.by_judges), ("refusals", templates.by_refusals)])
def test_everything_that_is_said_has_its_spanish_and_nothing_else_is_kept(name, found):
    assert sorted(found(ROOT)) == sorted(read(ROOT / CATALOGUES / f"{name}.po"))


def filled(template: str) -> str:
    """A sentence of a template: what it takes over is a letter each, and each number is 7."""
    return ANY.sub(lambda mark: f"x{mark[0][-2]}" if mark[0][-2].isalpha() else "7", template).replace("{{", "{")


def test_each_answer_of_a_judge_is_said_in_spanish():
    known = {
        key: words for name in ("judges", "refusals") for key, words in read(ROOT / CATALOGUES / f"{name}.po").items()
    }
    sentences, wrong = json.dumps(known), {}
    frame = '<p class="lab-outcome lab-open">✗ 12.5: {}</p>'
    for english, words in known.items():
        if english[0] not in "✓✗○":
            answer = spoken(frame.format(filled(english)), sentences)
            if answer != frame.format(filled(words)):
                wrong[english] = answer
    assert wrong == {}


def test_no_judge_puts_words_together_otherwise_than_in_an_f_string():
    """So that none is missed: `templates` reads strings and f-strings."""
    glued = []
    for path in {path for name in templates.JUDGES for path in ROOT.glob(name)}:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add | ast.Mod):
                parts = (node.value,) if isinstance(node, ast.AugAssign) else (node.left, node.right)
                glued += [f"{path}: {part.lineno}" for part in parts if words(part)]
    assert glued == []


def words(part: ast.expr) -> bool:
    texts = [each.value for each in ast.walk(part) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(re.search(r"[a-z]{2,} ", text) for text in texts)


NO_SENTENCE = re.compile(r"\$\{|[\[\]]|\blab-|^from |^use strict$|^no data$|^ : ")
"""Pieces of code, and what no reader sees."""


def test_what_the_sites_scripts_write_has_its_spanish():
    def pattern(words):
        return re.compile(".+?".join(map(re.escape, re.split(r"\{#?\}", words))))

    known = json.loads((ROOT / WORDS).read_text("utf-8"))
    patterns, missing = list(map(pattern, known)), []
    for path in (ROOT / "book/site_static").rglob("*.*js"):
        source = re.sub(r"/\*.*?\*/|(?<![:\"'])//[^\n]*", "", path.read_text("utf-8"), flags=re.DOTALL)
        for found in re.finditer(r'"([^"\n]*)"|`([^`\n]*)`', source):
            written = found[1] if found[1] is not None else re.sub(r"\$\{[^}]*\}", "{}", found[2])
            if re.search(r"\b[A-Za-z]?[a-z]+ [a-z]{2,}\b", written) and not NO_SENTENCE.search(written):
                own = pattern(written.strip())
                if not any(each.fullmatch(written) for each in patterns) and not any(map(own.search, known)):
                    missing.append(f"{path.name}: {written}")
    assert missing == []


@pytest.mark.slow
def test_panels_say_nothing_that_has_no_spanish():
    known = catalogue(ROOT)
    phrases = Phrases(known)
    assert [text for text in templates.by_panels(ROOT / "_build/html") if text not in known and not phrases(text)] == []
    assert phrases.left == set()
