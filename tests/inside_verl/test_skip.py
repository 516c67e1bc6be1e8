"""The skip in verl's own workers: gradients and weights as without it, by the release that is here.

Needs verl's sources and tensordict on the search path. With RANK, WORLD_SIZE and MASTER_PORT in the
environment, as many processes are the ranks, and each of them runs pytest.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.inside_verl.updates import (
    engine_update,
    engine_worker,
    legacy_actor,
    legacy_update,
    loss_config,
    prepare_imports,
    random_batch,
    verl_release,
)
from tuner.inside_verl.patching import apply
from tuner.inside_verl.skip.patches import PATCHES

RELEASE = verl_release() or ""
pytestmark = pytest.mark.filterwarnings("ignore")  # verl and what it imports say much
AGGREGATIONS = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
SEQUENCES = 16

needs_engine = pytest.mark.skipif(
    RELEASE < "0.7", reason="no sources of verl with a model engine and tensordict"
)
needs_legacy = pytest.mark.skipif(
    not RELEASE or RELEASE > "0.7.1", reason="no sources of verl with legacy workers and tensordict"
)


@pytest.fixture(scope="module", autouse=True)
def one_rank() -> Iterator[None]:
    if not RELEASE:
        pytest.skip("no sources of verl and tensordict can be imported")
    prepare_imports()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29617")
    dist.init_process_group(
        "gloo", rank=int(os.environ.get("RANK", 0)), world_size=int(os.environ.get("WORLD_SIZE", 1))
    )
    yield
    dist.destroy_process_group()


@pytest.fixture
def skip(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    def put_in_place(mode: str, module: str) -> None:
        import importlib

        monkeypatch.setenv("TUNER_SKIP_ZERO_ADVANTAGE", mode)
        for patch in PATCHES:
            if patch.module == module:
                owner = importlib.import_module(module)
                name, attribute = patch.attribute.split(".")
                monkeypatch.setattr(getattr(owner, name), attribute, vars(getattr(owner, name))[attribute])
                assert apply(patch)

    return put_in_place


def assert_same_update(plain: Any, skipping: Any) -> None:
    assert len(plain.gradients) == len(skipping.gradients)
    for whole, left in zip(plain.gradients, skipping.gradients, strict=True):
        torch.testing.assert_close(left, whole, rtol=1e-6, atol=1e-6)
    # Not closer: AdamW divides a gradient by its own size, however small it is.
    torch.testing.assert_close(skipping.weights(), plain.weights(), rtol=1e-3, atol=1e-3)


ENGINE = "verl.workers.engine_workers"
LEGACY = "verl.workers.actor.dp_actor"
LOSSES = [*(("vanilla", mode) for mode in AGGREGATIONS), ("gspo", "token-mean")]


def batches(size: int) -> list[dict[str, torch.Tensor]]:
    """One for each share of sequences without an advantage; in the second, a whole mini-batch has none."""
    found = [
        random_batch(torch.Generator().manual_seed(100 * dist.get_rank() + seed), SEQUENCES, share)
        for seed, share in enumerate((0.0, 0.5, 0.75, 1.0))
    ]
    found[1]["advantages"][size : 2 * size] = 0
    return found


@needs_engine
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(("loss", "aggregation"), LOSSES)
@pytest.mark.parametrize("mode", ["keep-steps", "one-step"])
def test_an_engine_makes_the_same_update(
    skip: Any, mode: str, loss: str, aggregation: str, dynamic: bool
) -> None:
    world = dist.get_world_size()

    def update(batch: dict[str, torch.Tensor], size: int) -> Any:
        worker = engine_worker(
            loss_config(loss_mode=loss, loss_agg_mode=aggregation),
            use_dynamic_bsz=dynamic,
            micro_batch_size_per_gpu=2,
        )
        metrics = engine_update(worker, batch, size * world, epochs=2)
        return worker.engine.optimizer, metrics, worker.flops_counter.estimate_flops.call_args.args[0]

    plain = [update(batch, 4 if mode == "keep-steps" else SEQUENCES) for batch in batches(4)]
    skip(mode, ENGINE)
    for batch, (whole, before, lengths) in zip(batches(4), plain, strict=True):
        left, after, run = update(batch, 4)
        assert_same_update(whole, left)
        torch.testing.assert_close(after["loss"], before["loss"], rtol=1e-5, atol=1e-6)
        assert sum(run) <= sum(lengths)
        assert after["actor/skip/left_out_ratio"][0] == 1 - len(run) / len(lengths) or mode == "keep-steps"
    assert before["grad_norm"] == after["grad_norm"] == [0.0] * len(before["grad_norm"])
    assert after["actor/skip/steps_without_gradient"] == [float(len(before["grad_norm"]))]


@needs_legacy
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(("loss", "aggregation"), LOSSES)
@pytest.mark.parametrize("mode", ["keep-steps", "one-step"])
def test_a_legacy_actor_makes_the_same_update(
    skip: Any, mode: str, loss: str, aggregation: str, dynamic: bool
) -> None:
    if loss == "gspo" and RELEASE < "0.6":
        pytest.skip("there is no such loss in this release")

    def update(batch: dict[str, torch.Tensor], size: int) -> Any:
        config = loss_config(loss_mode=loss, loss_agg_mode=aggregation)
        actor = legacy_actor(config, use_dynamic_bsz=dynamic, ppo_mini_batch_size=size, ppo_epochs=2)
        metrics, facts = legacy_update(actor, batch)
        return actor.actor_optimizer, metrics, facts["global_token_num"]

    plain = [update(batch, 4 if mode == "keep-steps" else SEQUENCES) for batch in batches(4)]
    skip(mode, LEGACY)
    for batch, (whole, _before, lengths) in zip(batches(4), plain, strict=True):
        left, after, run = update(batch, 4)
        assert_same_update(whole, left)
        assert sum(run) <= sum(lengths)
    assert after["actor/grad_norm"] == [0.0] * len(_before["actor/grad_norm"])
    assert after["actor/skip/steps_without_gradient"] == len(_before["actor/grad_norm"])
