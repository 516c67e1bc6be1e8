"""One cause in several roles: the short answer tells what saves most, whoever decides."""

from msgspec.structs import replace

from tests.cli import answers
from tests.cli.test_text import PAPER, advice_text
from tuner.advise import Recommendation, Without
from tuner.timing import StepChange

MODERATE = "actor_rollout_ref.rollout.gpu_memory_utilization=0.7"  # brings 12 % of the step
CRITIC = "critic.ppo_max_token_len_per_gpu=65536"


def of_critic(item: Recommendation, *, share: float) -> Recommendation:
    """The same advice for another role, which brings another share of the step."""
    assert item.price is not None
    change = StepChange(seconds=-100 * share, share=-share, low_share=-share, high_share=-share)
    price = replace(item.price, seconds_after=100 * (1 - share), change=change)
    return replace(item, overrides=(CRITIC,), price=price)


def short(*further: Recommendation) -> str:
    given = answers.advice()
    assert given.combination is not None
    needed, late = given.combination.contributions
    late = replace(late, without=Without(worst_bytes=answers.gib(36.9), seconds=337.0, fits=True))
    # as slow as the model says that this job is, so that the decisions shorten what the block leaves
    block = replace(given.combination, time=answers.time(scale=9.0), contributions=(needed, late))
    changed = replace(given, combination=block, recommendations=(*given.recommendations, *further))
    return " ".join(advice_text(answers.answer(changed), PAPER).split())


def decision() -> Recommendation:
    *_others, item = answers.recommendations()
    assert item.yours and item.overrides == (MODERATE,)
    return item


def test_what_is_yours_is_told_beside_a_part_of_the_block_with_its_code() -> None:
    text = short()
    assert text.count(MODERATE) == 1
    after = text.partition("What matters most")[2]
    assert MODERATE in after and "step 12% shorter (9% to 16%, modelled)" in after


def test_of_several_roles_the_one_that_saves_most_is_told_first_with_override_and_price() -> None:
    text = short(of_critic(decision(), share=0.3))
    assert CRITIC in text and MODERATE in text
    assert text.index(CRITIC) < text.index(MODERATE)
    assert "step 30% shorter (modelled)" in text
    text = short(of_critic(decision(), share=0.05))
    assert text.index(MODERATE) < text.index(CRITIC)
