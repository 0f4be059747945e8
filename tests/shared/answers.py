"""Answers to exercises, and what their reader is told."""

import pytest

from chapters.exercises import check


def judged_as(*rows, name=""):
    """A test of each row, (exercise, answer, words): the judge's words have these; "right." if the answer is right.

    Where all answers are to one exercise, `name` is its name, and the rows leave it out.
    """

    @pytest.mark.parametrize(("exercise", "answer", "words"), [(name, *row) if name else row for row in rows])
    def judged(exercise, answer, words):
        said = repr(check(exercise, answer))
        assert words in said, said

    return judged
