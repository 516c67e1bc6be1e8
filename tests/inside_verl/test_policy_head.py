"""``TUNER_HEAD=policy`` with a stand-in for verl: the same gradients, and what is said where they are not."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from tests.inside_verl.policy_stand_ins import SOURCES
from tuner.inside_verl.head import megatron
from tuner.inside_verl.head.choice import give_head
from tuner.inside_verl.head.patches import PATCHES
from tuner.inside_verl.head.policy import loss_handoff
from tuner.inside_verl.head.policy.plan import PlannedLoss, RowNumbers
from tuner.inside_verl.head.policy.results import planned_results
from tuner.inside_verl.losses import WholeBatchLoss
from tuner.inside_verl.patching import apply_when_imported
from tuner.kernels import linear_cross_entropy, policy_chunks
from tuner.kernels.policy_objective import Objective

pytestmark = pytest.mark.sampled(6)

MADE = "the gradients of the policy loss are made in the forward pass"
PROMPT, RESPONSE, SEQUENCES, VOCABULARY = 3, 5, 4, 41
ACTOR = "actor_rollout_ref.actor."


class Model(LlamaForCausalLM):
    """A class of its own, which is given the head."""


class Settings(SimpleNamespace):
    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


class Batch(dict[str, Any]):
    """Fields with a row for each sequence, as verl splits them."""

    def split(self, size: int) -> list["Batch"]:
        whole = len(self["input_ids"])
        return [
            Batch({key: value[start : start + size] for key, value in self.items()})
            for start in range(0, whole, size)
        ]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each pass whose gradients were made along with it."""
    passes: list[bool] = []
    original = policy_chunks.policy_gradients

    def counting(*arguments: Any, **named: Any) -> Any:
        passes.append(True)
        return original(*arguments, **named)

    monkeypatch.setattr(policy_chunks, "policy_gradients", counting)
    return passes


@pytest.fixture
def verl(fake_verl: Any, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Iterator[Any]:
    """Imports modules of the stand-in, with the patches in place."""
    fake_verl("0.7.1", SOURCES)
    monkeypatch.setenv("TUNER_HEAD", "policy")
    apply_when_imported(tuple(patch for patch in PATCHES if patch.wanted()), lambda *_: None)
    kept = vars(Model).get("forward")
    importlib.import_module("verl.trainer.ppo.core_algos")
    yield importlib.import_module
    assert loss_handoff.WAY.take() is None
    if kept is None and "forward" in vars(Model):
        del Model.forward


def model(head: type[nn.Linear] = nn.Linear, bias: bool = False) -> Model:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    whole = Model(LlamaConfig(vocab_size=VOCABULARY, initializer_range=0.4, **sizes))
    if bias:
        whole.lm_head = head(16, VOCABULARY)
    give_head(whole)
    return whole


def settings(**changes: Any) -> Settings:
    plain = {"clip_ratio": 0.2, "clip_ratio_c": 3.0, "loss_agg_mode": "token-mean", "entropy_coeff": 0.0}
    return Settings(**{**plain, "loss_scale_factor": None, "policy_loss": Settings(), **changes})


def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(RESPONSE) < torch.tensor([[5], [2], [4], [1]])
    shape = (SEQUENCES, RESPONSE)
    return Batch(
        input_ids=torch.randint(VOCABULARY, (SEQUENCES, PROMPT + RESPONSE), generator=generator),
        response_mask=mask.long(),
        old_log_probs=-4 - torch.rand(shape, generator=generator),
        advantages=torch.randn(shape, generator=generator),
        ref_log_prob=-4 - torch.rand(shape, generator=generator),
    )


def gradients(whole: nn.Module) -> list[Tensor]:
    taken = [parameter.grad.clone() for parameter in whole.parameters() if parameter.grad is not None]
    whole.zero_grad()
    return taken


WHOLE = {"use_fused_kernels": True, "dp_size": 2, "batch_num_tokens": 30, "global_batch_size": 8}


def engine_step(verl: Any, whole: Model, loss: str, actor: Settings, **data: Any) -> tuple[Any, list[Tensor]]:
    """Metrics and gradients of one step of the engine."""
    losses = verl("verl.workers.utils.losses")
    engine = verl("verl.workers.engine.fsdp.transformer_impl").FSDPEngineWithLMHead(whole)
    function: Any = partial(getattr(losses, loss), config=actor)
    if loss.startswith("distillation"):
        function = partial(function, distillation_config=None)
    if "tokens" in data:
        function = WholeBatchLoss(function, data.pop("tokens"))
    micro_batch = {**batch(), **WHOLE, "prompt": PROMPT, **data}
    total, metrics = engine.forward_step(micro_batch, loss_function=function, forward_only=False)
    total.backward()
    return metrics, gradients(whole)


def assert_as_recomputed(verl: Any, monkeypatch: Any, whole: Model, *step: Any, **data: Any) -> None:
    ours = engine_step(verl, whole, *step, **data)
    with monkeypatch.context() as closed:
        closed.setattr(loss_handoff.WAY, "closed", True)
        theirs = engine_step(verl, whole, *step, **data)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("changes", [{}, {"calculate_entropy": True}, {"tokens": 44}], ids=str)
def test_an_engine_has_the_same_gradients(
    verl: Any, said: Any, made: Any, monkeypatch: Any, changes: Any
) -> None:
    actor = settings(entropy_coeff=0.1)
    assert_as_recomputed(verl, monkeypatch, model(), "ppo_loss", actor, **changes)
    assert said == [MADE]
    assert len(made) == 1


@pytest.mark.parametrize("mini_batch", [SEQUENCES, 2], ids=["one step", "two"])
def test_a_legacy_actor_has_the_same_gradients(
    verl: Any, said: Any, made: Any, monkeypatch: Any, mini_batch: int
) -> None:
    whole = model()
    actors = verl("verl.workers.actor.dp_actor")
    config = settings(ppo_mini_batch_size=mini_batch, ppo_epochs=1)

    def update() -> list[Tensor]:
        actors.DataParallelPPOActor(whole, config).update_policy(batch())
        return gradients(whole)

    ours = update()
    monkeypatch.setattr(loss_handoff.WAY, "closed", True)
    torch.testing.assert_close(ours, update(), rtol=1e-5, atol=1e-5)
    assert said == [MADE]
    assert len(made) == SEQUENCES // mini_batch
    with torch.no_grad():  # log-probabilities are nobody's loss
        actors.DataParallelPPOActor(whole, config)._forward_micro_batch(batch(), 0.7)
    assert len(made) == SEQUENCES // mini_batch


NOT_COVERED: dict[str, tuple[str, dict[str, Any]]] = {
    "loss=sft_loss": ("sft_loss", {}),
    "distillation.enabled=True": ("distillation_ppo_loss", {}),
    ACTOR + "policy_loss.loss_mode=gspo": ("ppo_loss", {"policy_loss": Settings(loss_mode="gspo")}),
    ACTOR + "clip_ratio_high=inf": ("ppo_loss", {"clip_ratio_high": float("inf")}),
    ACTOR + "clip_ratio_c=1.0": ("ppo_loss", {"clip_ratio_c": 1.0}),
    ACTOR + "kl_loss_type=abs": (
        "ppo_loss",
        {"use_kl_loss": True, "kl_loss_coef": 0.1, "kl_loss_type": "abs"},
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("setting", NOT_COVERED)
def test_what_is_not_covered_is_named(
    verl: Any, said: Any, made: Any, monkeypatch: Any, setting: str
) -> None:
    loss, changes = NOT_COVERED[setting]
    assert_as_recomputed(verl, monkeypatch, model(), loss, settings(**changes))
    assert said == [f"TUNER_HEAD=policy does not cover {setting}, so recompute is used"]
    assert not made


def test_another_loss_than_the_settings_say(verl: Any, said: Any, made: Any, monkeypatch: Any) -> None:
    whole = model()
    actor = settings(use_kl_loss=True, kl_loss_coef=0.5, kl_loss_type="k3")  # the stand-in has no such term
    assert_as_recomputed(verl, monkeypatch, whole, "ppo_loss", actor)
    reason = "the gradient of verl's loss is not the one that its settings say"
    assert said == [MADE, f"TUNER_HEAD=policy: {reason}; from here on recompute is used"]
    engine_step(verl, whole, "ppo_loss", actor)
    assert len(made) == 1


def test_a_model_that_computes_its_logits(verl: Any, said: Any, made: Any, monkeypatch: Any) -> None:
    assert_as_recomputed(verl, monkeypatch, model(bias=True), "ppo_loss", settings())
    reason = "the pass did not go through the head"
    assert said == [f"TUNER_HEAD=policy: {reason}; from here on recompute is used"]
    assert not made


def test_a_step_that_cannot_be_foreseen(verl: Any, said: Any, made: Any, monkeypatch: Any) -> None:
    def confused(*_: Any) -> None:
        raise KeyError("prompts")

    monkeypatch.setattr(verl("tuner.inside_verl.head.policy.engine"), "_responses", confused)
    engine_step(verl, model(), "ppo_loss", settings())
    reason = "the loss is not known before the pass (KeyError: 'prompts')"
    assert said == [f"TUNER_HEAD=policy: {reason}; from here on recompute is used"]
    assert not made


def test_an_engine_that_prepares_its_inputs_itself(verl: Any, said: Any, made: Any) -> None:
    module = verl("verl.workers.engine.fsdp.transformer_impl")

    class Engine(module.FSDPEngineWithLMHead):  # type: ignore[misc, name-defined]
        __module__ = "verl.workers.engine.veomni.transformer_impl"

        def prepare_model_inputs(self, micro_batch: Any) -> Any:
            return super().prepare_model_inputs(micro_batch)

    module.FSDPEngineWithLMHead = Engine
    engine_step(verl, model(), "ppo_loss", settings())
    setting = ACTOR + "strategy=veomni"
    assert said == [f"TUNER_HEAD=policy does not cover {setting}, so recompute is used"]
    assert not made


PLAN = PlannedLoss(
    objective=Objective(
        clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=3.0, entropy_coeff=0.0, kl_loss_coef=0.0
    ),
    tokens=torch.tensor([[-3.0, -3.5, -3.2], [1.0, -1.0, 0.5], [0.5, 0.0, 0.25], [0.0, 0.0, 0.0]]),
)


def heads(dtype: torch.dtype, plan: PlannedLoss = PLAN) -> list[tuple[Tensor, Tensor]]:
    """Results of the planned head and of the other one, each with a hidden state of its own."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(1, 3, 16).to(dtype), torch.randn(VOCABULARY, 16).to(dtype)
    labels = torch.tensor([[1, 7, 40]])
    pairs = []
    for head in (partial(planned_results, plan), linear_cross_entropy):
        own = hidden.clone().requires_grad_()
        pairs.append((own, head(own, weight, labels, 0.7)[0]))
    return pairs


def test_a_multiple_of_the_planned_gradient_is_scaled(said: Any) -> None:
    old, advantages, weights, _reference = PLAN.tokens
    found = []
    for hidden, log_probs in heads(torch.float32):
        ratio = (log_probs.detach()[0] - old).exp()
        clipped = torch.where(advantages > 0, ratio > 1.2, ratio < 0.8)
        planned = torch.where(clipped, 0.0, -weights * advantages * ratio)
        found.append(torch.autograd.grad(log_probs, hidden, 6 * planned.view(1, 3))[0])
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert said == [MADE]


@pytest.mark.parametrize("arriving", [torch.ones(1, 3), torch.full((1, 3), torch.nan)], ids=["ones", "nan"])
def test_any_other_gradient_is_followed(said: Any, arriving: Tensor) -> None:
    found = [torch.autograd.grad(results, hidden, arriving)[0] for hidden, results in heads(torch.float32)]
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6, equal_nan=True)
    assert len(said) == 2


def test_no_factor_makes_a_gradient_of_rounding_another_one(said: Any) -> None:
    with torch.no_grad():
        own = heads(torch.float32)[1][1].flatten()
    objective = replace(PLAN.objective, kl_loss_coef=1.0)
    tokens = torch.stack([own, 0 * own, own.abs(), own + torch.tensor([2e-6, 4e-6, -2e-6])])
    arriving = torch.tensor([[0.0, 1.0, 0.0]])
    pairs = heads(torch.float32, PlannedLoss(objective=objective, tokens=tokens))
    found = [torch.autograd.grad(results, hidden, arriving)[0] for hidden, results in pairs]
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_in_float16_nothing_is_made_beforehand(said: Any, made: Any) -> None:
    heads(torch.float16)
    assert said == ["TUNER_HEAD=policy does not cover dtype=float16, so recompute is used"]
    assert not made


def test_rows_are_numbered_over_the_ranks_of_a_sequence(verl: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(verl("verl.utils.ulysses"), "rank", 1)
    ids = torch.zeros(1, 6, dtype=torch.long)
    dense, seeing = (
        SimpleNamespace(config=config) for config in (SimpleNamespace(), Settings(vision_config=1))
    )
    for whole, given, rows in (
        (dense, {"input_ids": ids}, 6),
        (seeing, {"input_ids": ids}, 3),  # which gets the tokens of both ranks
        (seeing, {"input_ids": ids, "shift_labels": ids[:, :3]}, 3),
    ):
        numbers = RowNumbers(whole, 2)(**given).log_probs
        assert numbers.tolist() == [[float(rows + row) for row in range(rows)]]


def test_megatron_recomputes(verl: Any, said: Any) -> None:
    hidden = torch.randn(3, 16, requires_grad=True)
    megatron.cross_entropy(hidden, torch.randn(VOCABULARY, 16), torch.tensor([1, 2, 3]))
    setting = ACTOR + "strategy=megatron"
    assert said == [f"TUNER_HEAD=policy does not cover {setting}, so recompute is used"]
