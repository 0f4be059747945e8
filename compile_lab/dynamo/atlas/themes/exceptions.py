"""Exceptions: raised, caught, annotated."""

from ..entries import cures, no_cure, trigger


def fails(x):
    """A function that always fails."""
    raise ValueError("no")


@trigger("GB0088")
def raise_to_the_caller(x):
    raise ValueError("no such step")


no_cure(
    raise_to_the_caller,
    "eager raises ValueError too: return a flag and raise outside",
)


@trigger("GB0088")
def fail_on_an_index(x):
    return [x][2]


no_cure(fail_on_an_index, "eager raises IndexError too")


@trigger("GB0273")
def exception_with_keywords(x):
    try:
        raise ImportError("no", name="step")
    except ImportError:
        return x + 1


@cures(exception_with_keywords)
def exception_without_keywords(x):
    try:
        raise ImportError("no")
    except ImportError:
        return x + 1


@trigger("GB0135")
def exception_with_an_attribute(x):
    try:
        error = ValueError("no")
        error.step = 3
        raise error
    except ValueError as caught:
        return x + caught.step


class StepFailed(ValueError):
    """An error that knows its step."""

    def __init__(self, step):
        self.step = step


@cures(exception_with_an_attribute)
def exception_of_ones_own(x):
    try:
        raise StepFailed(3)
    except StepFailed as caught:
        return x + caught.step


@trigger("GB0051")
def catch_what_is_no_class(x):
    try:
        fails(x)
    except (3, 4):
        return x


no_cure(catch_what_is_no_class, "eager raises TypeError too: only classes can be caught")


@trigger("GB0050")
def catch_a_number(x):
    try:
        fails(x)
    except 3:
        return x


no_cure(catch_a_number, "eager raises TypeError too: only classes can be caught")


@trigger("GB9625")
def where_in_the_bytecode(x):
    try:
        fails(x)
    except ValueError as error:
        return x + (1 if error.__traceback__.tb_lasti > 0 else 0)


no_cure(where_in_the_bytecode, "Dynamo runs other bytecode than the function's, so the place means nothing")


@trigger("GB0034")
def assert_with_a_number(x):
    assert x.shape[0] == 4, 3
    return x


no_cure(assert_with_a_number, "eager raises AssertionError too")


@trigger("GB0171")
def caught_assertion_with_a_number(x):
    try:
        raise AssertionError(3)
    except AssertionError:
        return x + 1


@cures(caught_assertion_with_a_number)
def caught_assertion_with_text(x):
    try:
        raise AssertionError("3")
    except AssertionError:
        return x + 1


@trigger("GB0082")
def group_of_exceptions(x):
    try:
        raise ExceptionGroup("several", [ValueError("no")])
    except* ValueError:
        x = x + 1
    return x


@cures(group_of_exceptions, "one exception, not a group of them")
def one_exception(x):
    try:
        raise ValueError("no")
    except ValueError:
        x = x + 1
    return x


@trigger("GB0011")
def read_before_writing(x):
    if x.shape[0] == 4:
        y = x
    return y


no_cure(read_before_writing, "eager raises UnboundLocalError too")


@trigger("GB0091")
def read_an_empty_cell(x):
    def inside():
        return later + x

    result = inside()
    later = 3
    return result


no_cure(read_an_empty_cell, "eager raises NameError too")
