"""What changes the training, or cannot be set: told apart from the rest, and never to be pasted."""

import json
from typing import Any

import pytest

from tests.cli.runner import run
from tests.tables import bases

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
NO_KL = f"{ACTOR}.use_kl_loss=False"
FEW_PROMPTS = ("data.train_batch_size=16", f"{ACTOR}.ppo_mini_batch_size=16")
MANY_PROMPTS = ("data.train_batch_size=1024", f"{ACTOR}.ppo_mini_batch_size=1024")
SHORT = (NO_KL, *MANY_PROMPTS, "data.max_response_length=192")
SAID = ("--zero-advantage-ratio", "0.6")


def asked(base: str, *arguments: str) -> list[str]:
    given = bases()[base]
    where = ("--gpu", f"{given.gpus_per_node}x{given.gpu}", "--verl-version", given.version)
    return [
        "advise",
        "/dev/null",
        f"actor_rollout_ref.model.path={given.model}",
        *where,
        *given.overrides,
        *arguments,
    ]


def words(base: str, *arguments: str) -> str:
    result = run(*asked(base, *arguments))
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def report(base: str, *arguments: str) -> dict[str, Any]:
    return dict(json.loads(run(*asked(base, *arguments, "--output-format", "json")).out))


def found(answer: dict[str, Any], code: str) -> dict[str, Any] | None:
    return next((item for item in answer["findings"] if item["code"] == code), None)


@pytest.mark.parametrize(
    ("code", "arguments", "override"),
    [
        ("ROL018", SHORT, "algorithm.rollout_correction.bypass_mode=True"),
        ("ROL019", FEW_PROMPTS, f"{ROLLOUT}.quantization=fp8"),
    ],
)
def test_what_changes_the_training_is_no_part_of_the_block(
    code: str, arguments: tuple[str, ...], override: str
) -> None:
    answer = report("tuned", *arguments, f"{ROLLOUT}.disable_log_stats=True")
    item = found(answer, code)
    assert item is not None
    assert item["yours"] and item["numerics"] == "changed" and item["overrides"] == [override]
    assert item["price"]["seconds_after"] < item["price"]["seconds_before"] * 0.8
    block = answer["combination"]
    assert block is None or override not in block["overrides"]


def test_a_trainer_that_generates_apart_is_named_without_anything_to_paste() -> None:
    arguments = ("data.train_batch_size=64", f"{ACTOR}.ppo_mini_batch_size=64")
    item = found(report("tuned", *arguments), "ROL021")
    assert item is not None
    assert item["yours"] and not item["overrides"] and item["price"] is None
    said = words("tuned", *arguments)
    assert "Yours to decide." in said or "Yours to decide: ROL021" in said
    assert "Gains nothing here: ROL021" not in said


def test_a_proposal_that_the_trainer_would_refuse_is_not_made() -> None:
    megatron = (
        *SHORT,
        "model_engine=megatron",
        f"{ACTOR}.strategy=megatron",
        f"{ACTOR}.megatron.param_offload=True",
        f"{ACTOR}.ppo_max_token_len_per_gpu=8192",  # fits: a job that lacks memory gets no offers
    )
    replay = f"{ACTOR}.megatron.router_replay.mode=R2"
    assert found(report("tuned-megatron", *megatron), "ROL018") is not None
    assert found(report("tuned-megatron", *megatron, replay), "ROL018") is None


class TestZeroAdvantage:
    def test_nothing_is_said_unless_the_share_is(self) -> None:
        assert found(report("tuned", NO_KL), "BAT013") is None

    def test_it_is_told_and_leaves_the_block_alone(self) -> None:
        answer, without = report("tuned", NO_KL, *SAID), report("tuned", NO_KL)
        item = found(answer, "BAT013")
        assert item is not None
        assert item["yours"] and item["numerics"] == "reordered" and not item["overrides"]
        assert item["message"].startswith("60% of the responses have no advantage")
        assert "would stay as it is" in item["notes"][0]
        assert answer["combination"] == without["combination"]
        assert answer["workload"]["batch"]["zero_advantage_ratio"] == 0.6
        assert "60% of the responses" in words("tuned", NO_KL, *SAID)

    @pytest.mark.parametrize("term", [f"{ACTOR}.use_kl_loss=True", f"{ACTOR}.entropy_coeff=0.001"])
    def test_other_terms_of_the_loss_make_it_another_training(self, term: str) -> None:
        item = found(report("tuned", NO_KL, term, *SAID), "BAT013")
        assert item is not None
        assert item["numerics"] == "changed" and "training is another" in item["notes"][0]

    def test_a_smaller_share_saves_less(self) -> None:
        def seconds(share: str) -> float:
            item = found(report("tuned", NO_KL, "--zero-advantage-ratio", share), "BAT013")
            assert item is not None
            return float(item["message"].partition("takes ")[2].partition(" s")[0])

        assert seconds("0.75") < seconds("0.5") < seconds("0.25")

    def test_it_is_refused_of_a_critic(self) -> None:
        result = run(*asked("tuned-ppo", *SAID))
        assert result.code == 2
        assert "--zero-advantage-ratio" in result.err

    @pytest.mark.parametrize("setting", ["algorithm.use_kl_in_reward=True", "actor_rollout_ref.rollout.n=1"])
    def test_it_is_refused_where_equal_rewards_leave_an_advantage(self, setting: str) -> None:
        result = run(*asked("tuned", NO_KL, setting, *SAID))
        assert result.code == 2
        assert "advantages are not 0 here" in result.err
