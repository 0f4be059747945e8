"""``compile-lab``: one command for three, each with its own status."""

import pytest

from chapters.__main__ import COMMANDS, main


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_for_itself(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0 and "usage: " in capsys.readouterr().out


def test_the_status_is_the_commands(capsys, tmp_path):
    assert main(["report", f"{tmp_path}/nowhere.py:make"]) == 2
    assert "nowhere.py" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["reprot", "x.py:make"]])
def test_another_word_is_answered_with_those_there_are(words, capsys):
    assert main(words) == 2
    shown = capsys.readouterr()
    assert not shown.out and all(f"compile-lab {name}" in shown.err for name in COMMANDS)


def test_help_is_no_error(capsys):
    assert main(["--help"]) == 0 and "compile-lab record" in capsys.readouterr().out
