"""The skip on several ranks of a stand-in for verl, each a thread, and everything that it refuses."""

import importlib
import sys
import types
from functools import partial
from typing import Any

import pytest
import torch

from tests.inside_verl.skip_stand_ins import SOURCES, TENSORDICT, DataProto, Threads
from tuner.errors import TunerError
from tuner.inside_verl.patching import apply
from tuner.inside_verl.skip import exchange
from tuner.inside_verl.skip.exact import check_batch, check_loss
from tuner.inside_verl.skip.patches import PATCHES

pytestmark = pytest.mark.sampled(6)

PROMPT, RESPONSE, SEQUENCES = 2, 4, 12


class Namespace(types.SimpleNamespace):
    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


def batch(rank: int, zero_share: float) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(rank)
    lengths = torch.randint(1, RESPONSE + 1, (SEQUENCES, 1), generator=generator)
    mask = torch.arange(RESPONSE) < lengths
    advantages = torch.randn(SEQUENCES, 1, generator=generator)
    advantages *= torch.rand(SEQUENCES, 1, generator=generator) >= zero_share
    if rank == 0:
        advantages[:4] = 0  # with nothing of its own in the first mini-batch
    return {
        "input": torch.randn(SEQUENCES, RESPONSE, generator=generator),
        "attention_mask": torch.cat([torch.ones(SEQUENCES, PROMPT), mask], dim=1).long(),
        "response_mask": mask.long(),
        "advantages": advantages * mask,
    }


class Policy:
    """One weight, whose gradients are kept for every optimizer step."""

    def __init__(self) -> None:
        self.weight = torch.tensor(0.5, requires_grad=True)
        self.gradients: list[float] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.logsigmoid(self.weight * values)

    def step(self) -> None:
        assert self.weight.grad is not None, "no optimizer step without a gradient"
        self.gradients.append(float(self.weight.grad))
        self.weight.grad = None


def engine_update(threads: Threads, rank: int, data: dict[str, torch.Tensor], mode: str, size: int) -> Any:
    workers = importlib.import_module("verl.workers.engine_workers")
    tu = importlib.import_module("verl.utils.tensordict_utils")
    policy = Policy()

    def gather(values: list[int]) -> list[int]:
        parts: list[Any] = [None] * threads.ranks
        threads.all_gather_object(parts, values)
        return [value for part in parts for value in part]

    def train_batch(data: Any, loss_function: Any) -> None:
        counted = sum(gather([int(data["loss_mask"].sum())]))
        tu.assign_non_tensor(data, batch_num_tokens=counted, dp_size=threads.ranks)
        output = {"log_probs": policy.forward(data["input"])}
        loss_function(model_output=output, data=data, dp_group=None)[0].backward()
        policy.step()

    worker = workers.TrainingWorker()
    worker.engine = types.SimpleNamespace(
        get_data_parallel_group=lambda: None,
        get_data_parallel_size=lambda: threads.ranks,
        gather=gather,
        train_batch=train_batch,
    )
    worker.engine_config = types.SimpleNamespace(use_dynamic_bsz=True)
    worker.set_loss_fn(partial(workers.ppo_loss, config=Namespace(loss_agg_mode=mode)))
    lengths = data["attention_mask"].sum(dim=1).tolist()
    fields = {key: value for key, value in data.items() if key != "attention_mask"}
    whole = tu.TensorDict(
        {
            **fields,
            "loss_mask": fields["response_mask"],
            "input_ids": tu.nested([torch.arange(length) for length in lengths]),
        },
        batch_size=[SEQUENCES],
    )
    tu.assign_non_tensor(whole, mini_batch_size=size * threads.ranks, global_batch_size=size * threads.ranks)
    metrics = tu.get(worker.train_mini_batch(whole), "metrics")
    return policy.gradients, sum(metrics["run"]), metrics


def legacy_update(_threads: Threads, _rank: int, data: dict[str, torch.Tensor], mode: str, size: int) -> Any:
    actors = importlib.import_module("verl.workers.actor.dp_actor")
    policy = Policy()
    actor = actors.DataParallelPPOActor()
    actor.forward, actor.step = policy.forward, policy.step
    actor.ulysses_sequence_parallel_size = 1
    actor.config = Namespace(
        loss_agg_mode=mode,
        policy_loss=Namespace(),
        use_dynamic_bsz=True,
        ppo_max_token_len_per_gpu=9,
        ppo_mini_batch_size=size,
        ppo_epochs=1,
    )
    proto = DataProto(dict(data), {"global_token_num": data["attention_mask"].sum(dim=1).tolist()})
    metrics = actor.update_policy(proto)
    return policy.gradients, sum(proto.meta_info["global_token_num"]), metrics


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"])
@pytest.mark.parametrize("mode", ["keep-steps", "one-step"])
@pytest.mark.parametrize(
    ("update", "module"),
    [(engine_update, "verl.workers.engine_workers"), (legacy_update, "verl.workers.actor.dp_actor")],
)
def test_ranks_together_make_the_same_update(
    fake_verl: Any, monkeypatch: pytest.MonkeyPatch, update: Any, module: str, mode: str, aggregation: str
) -> None:
    tensordict = types.ModuleType("tensordict")
    exec(TENSORDICT, vars(tensordict))
    monkeypatch.setitem(sys.modules, "tensordict", tensordict)
    fake_verl("0.7.1", SOURCES)
    importlib.import_module(module)
    threads = Threads(3)
    monkeypatch.setattr(exchange, "dist", threads)
    size = 4 if mode == "keep-steps" else SEQUENCES

    def updates(size: int) -> list[Any]:
        return [
            threads.run(
                lambda rank, share=share: update(threads, rank, batch(rank, share), aggregation, size)
            )
            for share in (0.3, 0.8, 1.0)
        ]

    plain = updates(size)
    monkeypatch.setenv("TUNER_SKIP_ZERO_ADVANTAGE", mode)
    for patch in PATCHES:
        assert patch.module != module or apply(patch)
    for whole, left in zip(plain, updates(4), strict=True):
        # The mean over the ranks, as FSDP reduces them.
        expected = torch.tensor([gradients for gradients, *_ in whole]).mean(dim=0)
        found = torch.tensor([gradients for gradients, *_ in left]).mean(dim=0)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        assert {run for _gradients, run, _metrics in left} != {run for _gradients, run, _metrics in whole}
    idle = [metrics["actor/skip/steps_without_gradient"] for _gradients, _run, metrics in left]
    assert idle in ([[len(expected)]] * 3, [len(expected)] * 3)


REFUSED = [
    ({"entropy_coeff": 0.01}, "actor_rollout_ref.actor.entropy_coeff=0.01"),
    ({"use_kl_loss": True, "kl_loss_coef": 0.001}, "actor_rollout_ref.actor.use_kl_loss=True"),
    *(
        ({"policy_loss": Namespace(loss_mode=loss)}, f"actor_rollout_ref.actor.policy_loss.loss_mode={loss}")
        for loss in ("clip_cov", "kl_cov", "geo_mean", "dro", "bypass_mode", "rollout_correction", "my_own")
    ),
    ({"use_prefix_grouper": True}, "actor_rollout_ref.actor.use_prefix_grouper=True"),
    (
        {"megatron": Namespace(override_transformer_config={"moe_aux_loss_coeff": 0.01})},
        "actor_rollout_ref.actor.megatron.override_transformer_config.moe_aux_loss_coeff=0.01",
    ),
    (
        {"megatron": Namespace(dynamic_context_parallel=True)},
        "actor_rollout_ref.actor.megatron.dynamic_context_parallel=True",
    ),
    (
        {"model_config": Namespace(mtp=Namespace(enable_train=True))},
        "actor_rollout_ref.model.mtp.enable_train=True",
    ),
]


@pytest.mark.parametrize(("settings", "names"), REFUSED)
def test_a_loss_that_acts_on_all_sequences_is_refused(settings: dict[str, Any], names: str) -> None:
    with pytest.raises(TunerError, match="TUNER_SKIP_ZERO_ADVANTAGE cannot be used with") as refusal:
        check_loss(Namespace(**settings))
    assert names in str(refusal.value)


def test_a_batch_that_is_divided_otherwise_is_refused() -> None:
    plain = Namespace(loss_agg_mode="token-mean", use_kl_loss=True, kl_loss_coef=0)
    check_loss(plain)
    check_batch(plain, ["advantages"], padded=False)
    with pytest.raises(TunerError, match=r"algorithm\.adv_estimator=gae"):
        check_batch(plain, ["advantages", "values"], padded=True)
    norm = Namespace(loss_agg_mode="seq-mean-token-sum-norm", loss_scale_factor=None)
    check_batch(norm, [], padded=True)
    check_batch(Namespace(**{**vars(norm), "loss_scale_factor": 8}), [], padded=False)
    with pytest.raises(TunerError, match=r"actor_rollout_ref\.actor\.loss_scale_factor=null"):
        check_batch(norm, [], padded=False)


def test_distillation_and_the_legacy_megatron_actor_are_refused(fake_verl: Any) -> None:
    from tuner.inside_verl.skip import engine

    def distillation_ppo_loss() -> None:
        pass

    with pytest.raises(TunerError, match=r"distillation\.enabled=True"):
        engine.set_loss_fn(lambda self, loss_fn: None)(None, partial(distillation_ppo_loss))
    source = "class MegatronPPOActor:\n    def update_policy(self, dataloader):\n        return 'verl'\n"
    fake_verl("0.7.1", {"verl.workers.actor.megatron_actor": source})
    actor = importlib.import_module("verl.workers.actor.megatron_actor").MegatronPPOActor()
    (patch,) = (patch for patch in PATCHES if "megatron" in patch.module)
    assert apply(patch)
    with pytest.raises(TunerError, match="the legacy Megatron workers cannot leave sequences out"):
        actor.update_policy([])


def test_a_critic_s_update_is_verl_s_own() -> None:
    from tuner.inside_verl.skip import engine

    def value_loss() -> None:
        pass

    worker = types.SimpleNamespace(loss_fn=partial(value_loss))
    for replaced in (engine.train_batch, engine.train_mini_batch):
        assert replaced(lambda self, data: data)(worker, "all of it") == "all of it"
