"""Whether advice to use Liger's kernels says that their package is needed, and where it is shown."""

from pathlib import Path

from msgspec.structs import replace

from tests.cli.runner import run
from tests.tables import HEADROOM, bases, scene
from tuner.rules.case import Case
from tuner.rules.kernels import fused_layers

LIGER = "actor_rollout_ref.model.use_liger=True"
NEED = "It needs liger-kernel where the job runs."
GIVEN = ("--model", "Qwen2.5-1.5B", "--gpu", "8xh100-sxm", "--verl-version", "0.7.0")
JOB = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=128",
    "data.max_prompt_length=1024",
    "data.max_response_length=4096",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "trainer.n_gpus_per_node=8",
)


def micro_batches_of(sequences: int) -> str:
    return f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={sequences}"


def test_its_package_is_named_whatever_is_installed_here() -> None:
    it = scene(bases()["tuned"], ["actor_rollout_ref.model.use_liger=False"])
    finding = fused_layers.check(Case.of(it.workload, headroom=HEADROOM))
    assert finding is not None
    assert ["liger-kernel" in note for note in finding.notes] == [True]


def test_outside_the_block_its_need_stands_beside_the_override() -> None:
    out = run("advise", "/dev/null", *GIVEN, "--", *JOB, micro_batches_of(16)).out
    assert out.startswith(("MAY NOT FIT", "DOES NOT FIT"))
    entry = out[out.index("advice KRN006") :]
    assert LIGER in entry
    assert NEED in " ".join(entry[: entry.index(LIGER)].split())


def test_where_nothing_is_to_be_pasted_it_is_no_line_of_the_short_answer(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    own = "actor_rollout_ref.model.use_liger=False"  # of what only the missing file may set nothing is said
    overrides = " ".join((*JOB, micro_batches_of(4), own))
    script.write_text(f"python -m verl.trainer.main_ppo --config-name my_own {overrides}\n")
    short = run("advise", str(script), *GIVEN).out
    assert "there is nothing to paste" in " ".join(short.split())
    assert LIGER not in short
    full = run("advise", str(script), *GIVEN, "--full").out
    assert LIGER in full


def test_what_the_package_leaves_of_a_type_is_not_said_to_be_fused_and_brings_less() -> None:
    it = scene(bases()["tuned"], ["actor_rollout_ref.model.use_liger=False"])

    def told(architecture: str) -> tuple[str, float]:
        model = replace(it.workload.model, architecture=architecture)
        workload = replace(it.workload, model=model)
        finding = fused_layers.check(Case.of(workload, headroom=HEADROOM))
        assert finding is not None
        assert finding.proposal is not None
        before, after = (Case.of(one, headroom=HEADROOM).time.seconds for one in (workload, finding.proposal))
        return finding.message, before - after

    (whole, more), (part, less) = told("qwen3"), told("qwen3_vl")
    assert "activations" in whole
    assert "activations" not in part
    assert 0 < less < 0.9 * more
