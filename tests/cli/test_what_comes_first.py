"""What the short answer tells before what a step costs: answers that are cut short, groups of one."""

import pytest

from tests.cli.runner import run
from tests.cli.test_guessed_release import RETURNED

ROLLOUT = "actor_rollout_ref.rollout"


def matters_most(launch: str, *options: str) -> str:
    given = ("--gpu", "h200-sxm", "--verl-version", "0.9.1", "--mean-response-length", "200", *options)
    answer = run("advise", "-", *given, stdin=launch)
    assert answer.code == 0, answer.err
    return " ".join(answer.out.partition("What matters most")[2].split())


@pytest.mark.parametrize(
    ("setting", "first"),
    [
        (f"{ROLLOUT}.max_model_len=2048", "warning CFG156 model-length-below-sequence"),
        (f"{ROLLOUT}.n=1", "warning CFG213 group-of-one"),
    ],
)
def test_what_changes_the_answers_or_their_worth_comes_before_what_a_step_costs(
    setting: str, first: str
) -> None:
    assert matters_most(f"{RETURNED} {setting}").startswith(first)
