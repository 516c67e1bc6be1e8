"""What processes keep of the host after they have loaded experts, and what they take of it by themselves."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.cli.runner import run
from tests.memory.formulas import evaluate
from tests.trainers.launches import DYNAMIC, ROLLOUT, workload_of
from tuner.memory.host.controller import PROCESS
from tuner.memory.host.loading import KEPT_BY_EACH, KEPT_BY_FIRST
from tuner.memory.host.node import host_terms
from tuner.memory.ledger.symbols import meaning
from tuner.memory.ledger.terms import Term
from tuner.workload import Workload

MIXTURE = workloads.QWEN3_30B_A3B
EXPERTS = 48 * 128 * 3 * 768 * 2048  # numbers
REFERENCE = "actor_rollout_ref.actor.use_kl_loss=True"
VARIABLE = "MALLOC_MMAP_THRESHOLD_"
LAUNCH = """export MALLOC_MMAP_THRESHOLD_={value}
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm \\
  actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B actor_rollout_ref.actor.use_dynamic_bsz=True \\
  actor_rollout_ref.actor.fsdp_config.param_offload=True \\
  actor_rollout_ref.actor.fsdp_config.optimizer_offload=True trainer.n_gpus_per_node=8
"""


def kept(workload: Workload) -> dict[str, Term]:
    return {term.name: term for term in host_terms(workload) if term.name.endswith("_loading")}


def test_every_rank_keeps_experts_of_each_model_that_transformers_5_puts_together() -> None:
    found = kept(workload_of((*DYNAMIC, REFERENCE), "0.9.1", model=MIXTURE))
    assert set(found) == {"actor_loading", "reference_loading"}
    term = found["actor_loading"]
    assert term.bytes == 8 * KEPT_BY_EACH.typical * EXPERTS
    assert (term.low, term.high) == (0, 8 * KEPT_BY_EACH.high * EXPERTS)
    assert evaluate(term.formula, term.symbols) == term.bytes
    assert all(meaning(name, term.source) for name, _number in term.symbols)


def test_one_process_keeps_them_before_which_the_next_model_uses_again() -> None:
    found = kept(workload_of((*DYNAMIC, REFERENCE), "0.8.0", model=MIXTURE))
    assert {name: term.bytes for name, term in found.items()} == {
        "actor_loading": KEPT_BY_FIRST.typical * EXPERTS
    }


@pytest.mark.parametrize("version", ["0.8.0", "0.9.1"])
def test_a_model_without_experts_leaves_nothing(version: str) -> None:
    assert kept(workload_of(DYNAMIC, version)) == {}


def test_what_is_larger_than_the_heap_serves_is_given_back() -> None:
    """A matrix of an expert has 768 times 2,048 numbers, 6 MiB in float32; eight times as wide, 48 MiB."""
    wide = replace(MIXTURE, hidden=16_384)
    assert kept(workload_of(DYNAMIC, "0.9.1", model=MIXTURE))
    assert not kept(workload_of(DYNAMIC, "0.9.1", model=wide))


def test_a_trainer_and_three_processes_of_the_engine_for_each_gpu() -> None:
    def number(*more: str) -> float:
        job = workload_of((*DYNAMIC, *more), "0.9.1")
        (term,) = [term for term in host_terms(job) if term.name == "gpu_processes"]
        return term.bytes / PROCESS.typical

    assert number(f"{ROLLOUT}.tensor_model_parallel_size=1") == 8 + 8 + 2 * 8
    assert number(f"{ROLLOUT}.tensor_model_parallel_size=4") == 8 + 8 + 2 * 2


@pytest.mark.parametrize(("value", "said"), [("1048576", False), ("33554432", True)])
def test_a_variable_has_it_given_back_and_is_named_where_memory_is_short(
    tmp_path: Path, value: str, said: bool
) -> None:
    script = tmp_path / "run.sh"
    script.write_text(LAUNCH.format(value=value))
    options = ("--verl-version", "0.9.1", "--gpu", "h200-sxm", "--host-memory", "1024")
    result = run("advise", str(script), *options)
    assert result.code == 0, result.err
    text = " ".join(result.out.split())
    assert text.startswith("FITS")  # what may be nothing rules nothing out
    assert (f"{VARIABLE}=1048576 where Ray is started" in text) is said


def test_all_of_the_host_and_what_is_page_locked_are_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(LAUNCH.format(value="1048576"))
    options = ("--verl-version", "0.9.1", "--gpu", "h200-sxm", "--host-memory", "4096", "--full")
    text = " ".join(run("advise", str(script), *options).out.split())
    whole = text[text.index("Host memory per node: ") :]
    assert " of 4,096 GiB in all (" in whole or " of 4096.0 GiB in all (" in whole
    assert "of it page-locked for offloaded states and copies" in whole
