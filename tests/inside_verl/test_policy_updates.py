"""``TUNER_HEAD=policy`` in verl's own workers: ten updates as from logits, by the release that is here.

Needs verl's sources and tensordict on the search path. With RANK, WORLD_SIZE and MASTER_PORT in the
environment, as many processes share each sequence (Ulysses), and each of them runs pytest.
"""

import importlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.inside_verl.policy_updates import (
    SEQUENCES,
    Model,
    batches,
    engine_of,
    legacy_of,
    small_model,
    without_flash_attn,
    worker_with,
)
from tests.inside_verl.updates import (
    engine_update,
    legacy_update,
    loss_config,
    prepare_imports,
    verl_release,
)
from tuner.inside_verl.head.choice import give_head
from tuner.inside_verl.head.patches import PATCHES
from tuner.inside_verl.head.policy import coverage
from tuner.inside_verl.patching import apply
from tuner.kernels import policy_chunks

RELEASE = verl_release() or ""
pytestmark = pytest.mark.filterwarnings("ignore")  # verl and what it imports say much
KINDS = (*(["engine"] if RELEASE >= "0.7" else []), *(["legacy"] if "" < RELEASE <= "0.7.1" else []))
AGGREGATIONS = ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
AGGREGATIONS += ["token-sum"] if RELEASE >= "0.9" else []
EVERYTHING = {"entropy_coeff": 0.05, "use_kl_loss": True, "kl_loss_coef": 0.3, "kl_loss_type": "low_var_kl"}
PASSES = {"engine": "verl.workers.engine.fsdp.transformer_impl", "legacy": "verl.workers.actor.dp_actor"}


@pytest.fixture(scope="module", autouse=True)
def ranks() -> Iterator[None]:
    if not KINDS:
        pytest.skip("no sources of verl and tensordict can be imported")
    prepare_imports()
    world = int(os.environ.get("WORLD_SIZE", 1))
    if world == 1:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("gloo")
        ulysses = importlib.import_module("verl.utils.ulysses")
        ulysses.set_ulysses_sequence_parallel_group(dist.group.WORLD)
    with without_flash_attn():
        yield
    dist.destroy_process_group()


@pytest.fixture
def gradients_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each pass whose gradients were made along with it."""
    rows: list[int] = []
    original = policy_chunks.policy_gradients

    def counting(problem: Any, wanted: Any, **named: Any) -> Any:
        rows.append(problem.rows.count)
        return original(problem, wanted, **named)

    monkeypatch.setattr(policy_chunks, "policy_gradients", counting)
    return rows


def ten_updates(kind: str, *, head: bool, padding: bool = False, mini_batch: int = 4, **settings: Any) -> Any:
    """Gradients of every step, weights after them, and the metrics."""
    model = small_model()
    if head:
        give_head(model)
    own = {"use_dynamic_bsz": settings.pop("use_dynamic_bsz", True)}
    weighted = settings.pop("rollout_is_weights", False)
    entropy = settings.get("entropy_coeff", 0) != 0
    config = loss_config(**settings)
    metrics = []
    if kind == "engine":
        worker = worker_with(
            engine_of(model), config, padding=padding, head=head, **own, micro_batch_size_per_gpu=1
        )
        steps = worker.engine.optimizer
    else:
        actor = legacy_of(
            model,
            config,
            padding=padding,
            head=head,
            ppo_mini_batch_size=mini_batch,
            ppo_micro_batch_size_per_gpu=1,
            **own,
        )
        steps = actor.actor_optimizer
    for batch in batches(10 * mini_batch // SEQUENCES):
        if not weighted:
            del batch["rollout_is_weights"]
        if kind == "engine":
            metrics.append(engine_update(worker, batch, mini_batch, calculate_entropy=entropy))
        else:
            metrics.append(legacy_update(actor, batch)[0])
    return steps.gradients, steps.weights(), metrics


def numbers(metrics: Any) -> dict[str, list[float]]:
    """Every metric but those of seconds and memory."""
    flat: dict[str, list[float]] = {}
    for update in metrics:
        for name, value in update.items():
            if not name.startswith("perf") and "mfu" not in name:
                flat.setdefault(name, []).extend(map(float, value if isinstance(value, list) else [value]))
    return flat


def assert_same(kind: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    plain = ten_updates(kind, head=False, **settings)
    with monkeypatch.context() as with_head:
        put_in_place(with_head)
        ours = ten_updates(kind, head=True, **settings)
    assert len(plain[0]) == len(ours[0]) == 10
    for whole, left in zip(plain[0], ours[0], strict=True):
        torch.testing.assert_close(left, whole, rtol=1e-5, atol=1e-5 * max(1.0, float(whole.abs().max())))
    torch.testing.assert_close(ours[1], plain[1], rtol=1e-5, atol=1e-5)
    theirs, same = numbers(plain[2]), numbers(ours[2])
    assert same.keys() == theirs.keys()
    for name, values in theirs.items():
        assert same[name] == pytest.approx(values, rel=1e-5, abs=1e-5), name


def put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_HEAD", "policy")
    monkeypatch.setattr(Model, "forward", Model.forward)  # undone with the rest
    for patch in PATCHES:
        if RELEASE in patch.releases and patch.module in PASSES.values():
            try:
                owner = importlib.import_module(patch.module)
            except ImportError:
                continue
            name, attribute = patch.attribute.split(".")
            monkeypatch.setattr(getattr(owner, name), attribute, vars(getattr(owner, name))[attribute])
            assert apply(patch)


MADE = "the gradients of the policy loss are made in the forward pass"


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("settings", [{}, EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_aggregations(
    kind: str, settings: Any, aggregation: str, monkeypatch: Any, said: Any, gradients_made: Any
) -> None:
    assert_same(kind, monkeypatch, loss_agg_mode=aggregation, **settings)
    assert said == [MADE]
    assert len(gradients_made) > 10 or dist.get_world_size() > 1  # micro-batches


VARIANTS: dict[str, dict[str, Any]] = {
    "padding stays": {"padding": True, **EVERYTHING},
    "micro-batches of one sequence": {"use_dynamic_bsz": False},
    "clipped otherwise": {"clip_ratio_low": 0.05, "clip_ratio_high": 0.4, "clip_ratio_c": 1.1},
    "never clipped from below": {"clip_ratio_low": 2.0},
    "weights of the rollout": {"rollout_is_weights": True, **EVERYTHING},
    "one step on the batch": {"mini_batch": SEQUENCES, **EVERYTHING},
    "the divisor of a setting": {"loss_agg_mode": "seq-mean-token-sum-norm", "loss_scale_factor": 5},
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_other_settings(kind: str, name: str, monkeypatch: Any, said: Any, gradients_made: Any) -> None:
    if VARIANTS[name].get("padding") and dist.get_world_size() > 1:
        pytest.skip("sequences are shared without padding")
    if VARIANTS[name].get("padding") and kind == "engine" and RELEASE < "0.9":
        pytest.skip("this release takes no fused head with padding: its loss stops at the shapes")
    assert_same(kind, monkeypatch, **VARIANTS[name])
    assert said == [MADE]
    assert gradients_made


ACTOR = "actor_rollout_ref.actor."
NOT_COVERED: dict[str, dict[str, Any]] = {
    ACTOR + "policy_loss.loss_mode=gpg": {"loss_mode": "gpg"},
    ACTOR + "kl_loss_type=kl": {**EVERYTHING, "kl_loss_type": "kl"},
}


@pytest.mark.parametrize("setting", NOT_COVERED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_covered_is_named_and_recomputed(
    kind: str, setting: str, monkeypatch: Any, said: Any, gradients_made: Any
) -> None:
    assert_same(kind, monkeypatch, **NOT_COVERED[setting])
    assert said == [f"TUNER_HEAD=policy does not cover {setting}, so recompute is used"]
    assert not gradients_made


@pytest.mark.parametrize("kind", KINDS)
def test_another_gradient_than_planned_is_noticed_and_right(
    kind: str, monkeypatch: Any, said: Any, gradients_made: Any
) -> None:
    read = coverage._clip
    monkeypatch.setattr(coverage, "_clip", lambda actor, name: read(actor, name) / 2)
    assert_same(kind, monkeypatch)
    assert said == [
        MADE,
        "TUNER_HEAD=policy: the gradient of verl's loss is not the one that its settings say; "
        "from here on recompute is used",
    ]
    assert len(gradients_made) < 10
