"""Where following a script ends: nested arithmetic, numbers of many digits, values of many characters."""

import pytest

from tests.inputs.test_shell import followed, shown
from tuner.inputs.shell.effort import MOST_CHARACTERS, MOST_STEPS, Effort, TooMuchError


@pytest.mark.parametrize(("signs", "known"), [(63, True), (64, False)])
def test_arithmetic_is_worked_out_to_64_levels(signs: int, known: bool) -> None:
    (word,) = shown(f"show $(({'! ' * signs}1))")
    assert (word == ("<0>" if signs % 2 else "<1>")) is known


@pytest.mark.parametrize(
    ("braces", "words"),
    [
        ("{1..3}", "<1><2><3>"),
        ("{3..1}", "<3><2><1>"),
        ("{1..99999999999999999999}", "<{1..99999999999999999999}>"),
        ("{99999999999999999999..1}", "<{99999999999999999999..1}>"),
    ],
)
def test_a_range_has_numbers_of_few_digits(braces: str, words: str) -> None:
    assert shown(f"show {braces}") == [words]


def test_a_home_with_a_blank_stays_one_word() -> None:
    assert shown("HOME='/a b'; show ~/c ~") == ["</a b/c></a b>"]


def test_a_value_may_have_a_million_characters() -> None:
    Effort().copy_text(MOST_CHARACTERS)
    with pytest.raises(TooMuchError):
        Effort().copy_text(MOST_CHARACTERS + 1)


@pytest.mark.parametrize(
    ("spend", "steps"),
    [
        (lambda effort: effort.spend(), 1),
        (lambda effort: effort.spend(7), 7),
        (lambda effort: effort.copy_values(19), 0),
        (lambda effort: effort.copy_values(20), 1),
        (lambda effort: effort.parse(19), 1),
        (lambda effort: effort.parse(40), 3),
        (lambda effort: effort.match(200), 2),
        (lambda effort: effort.look_for_file(), 20),
        (lambda effort: effort.copy_text(900), 1),
        (lambda effort: effort.copy_text(899), 0),
        (lambda effort: [effort.copy_text(0) for _ in range(10)], 1),
    ],
)
def test_what_work_counts_as(spend: object, steps: int) -> None:
    effort = Effort()
    assert callable(spend)
    spend(effort)
    assert effort.steps == steps


def test_as_many_steps_as_are_allowed_may_be_taken() -> None:
    Effort().spend(MOST_STEPS)
    with pytest.raises(TooMuchError):
        Effort().spend(MOST_STEPS + 1)


@pytest.mark.parametrize(
    ("script", "steps"),
    [
        ("x=1", 1),
        ("x=1; y=2", 2),
        ("source ./gone.sh", 21),  # looked for in a folder
        ("x=$(printf '%900s' a)", 2),
        ("eval 'x=1; y=2; z=33333'", 5),  # and 20 characters parsed
        ("for i in {1..40}; do :; done", 47),  # 41 statements, 2 for 40 fields, 4 for 4,000 characters
        ("f() { x=1; }; f; f", 7),
        ('a=({1..45}); b=("${a[@]}")', 8),
        ("x=aaaaaaaaaaaaaaaaaaaa; y=${x//a/bb}", 2),
        ("bash -c 'x=1'", 3),
    ],
)
def test_statements_and_what_they_do_are_counted(script: str, steps: int) -> None:
    assert followed(script).scope.effort.steps == steps
