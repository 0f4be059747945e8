"""What another torch makes of a chapter: which cells raise, and which print another line."""

import nbformat.v4 as v4
import verdicts


def notebook(*cells):
    return v4.new_notebook(cells=[v4.new_markdown_cell("# A chapter"), *cells])


def cell(number, *outputs, tags=()):
    return v4.new_code_cell("f()", execution_count=number, outputs=[*outputs], metadata={"tags": [*tags]})


def printed(text, name="stdout"):
    return v4.new_output("stream", name=name, text=text)


def shown(text):
    return v4.new_output("display_data", data={"text/plain": text, "text/html": f"<p>{text}</p>"})


def test_a_cell_that_raises_or_prints_another_line_is_named_with_what_it_says():
    error = v4.new_output("error", ename="TypeError", evalue="no such argument", traceback=[])
    stored = [cell(1, printed("3 graphs\nand more\n")), cell(2, shown("right")), cell(3, shown("the same"))]
    ran = [cell(1, printed("4 graphs\nand more\n")), cell(2, error), cell(3, shown("the same"))]
    assert verdicts.moved(notebook(*stored), notebook(*ran)) == {
        "1": {"differs": "3 graphs → 4 graphs"},
        "2": {"raised": "TypeError: no such argument"},
    }
    assert verdicts.moved(notebook(*stored), notebook(*stored)) == {}


def test_a_long_line_is_shown_from_shortly_before_its_difference_on():
    same = "x" * 200
    found = verdicts.moved(notebook(cell(1, printed(f"{same} 5"))), notebook(cell(1, printed(f"{same} 6"))))
    begun = "x" * 39
    assert found == {"1": {"differs": f"… {begun} 5 → … {begun} 6"}}


def test_versions_addresses_warnings_widths_and_what_is_anew_in_each_run_are_no_difference():
    stored = [
        cell(1, shown("recorded on torch 2.13.0+cpu · triton 3.7.1, at 0x7f001122")),
        cell(2, printed("12.3 ms"), tags=["nbval-ignore-output"]),
        cell(3, printed("4\n5\n")),
        cell(4, shown("a    b\n──────")),
    ]
    ran = [
        cell(1, shown("recorded on torch 2.15.0+cu132 · triton 3.9.0, at 0x7fffaaaa")),
        cell(2, printed("9.1 ms"), tags=["nbval-ignore-output"]),
        cell(3, printed("deprecated", "stderr"), printed("4\n"), printed("5\n")),
        cell(4, shown("a      b\n────────")),
    ]
    assert verdicts.moved(notebook(*stored), notebook(*ran)) == {}
