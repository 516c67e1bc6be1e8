"""Which keys recompute under Megatron is read from a copy's code, whatever release its defaults are like."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer \\
    algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.model.enable_gradient_checkpointing=True \\
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 trainer.n_gpus_per_node=8"""
BUILDS = """class MegatronWorker:
    def _init_hf_config_and_tf_config(self, override_transformer_config):
        tf_config = hf_to_mcore_config(hf_config, dtype, **override_transformer_config)
"""
OVERWRITES = """        if self.config.model.get("enable_gradient_checkpointing", False):
            kwargs = dict(self.config.model.get("gradient_checkpointing_kwargs", dict()))
            tf_config.recompute_granularity = kwargs.get("activations_checkpoint_granularity", "full")
"""
OWN = "actor_rollout_ref.model.gradient_checkpointing_kwargs.activations_checkpoint_granularity"
MEGATRON = "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity"


@pytest.mark.parametrize("release", ["0.4.1", "0.5.0"])
@pytest.mark.parametrize(
    ("code", "key", "other"), [(BUILDS, MEGATRON, OWN), (BUILDS + OVERWRITES, OWN, MEGATRON)]
)
def test_the_copys_code_says_which_keys_recompute(
    tmp_path: Path, release: str, code: str, key: str, other: str
) -> None:
    worker = tmp_path / "verl" / "single_controller" / "base" / "megatron" / "worker.py"
    for folder in (tmp_path / ".git", tmp_path / "verl" / "trainer", worker.parent):
        folder.mkdir(parents=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text("config.trainer.nnodes\n")
    worker.write_text(code)
    for granularity, saves in (("full", True), (None, False)):
        more = f" +{key}={granularity}" if granularity else ""
        (tmp_path / "run.sh").write_text(LAUNCH + more)
        given = ("--gpu", "h100-sxm", "--verl-version", release, "-f", "json")
        answer = json.loads(run("check", str(tmp_path / "run.sh"), *given).out)
        unread = [finding for finding in answer["findings"] if finding["code"] == "CFG168"]
        assert bool(unread) is not saves
        wanted = [text.lstrip("+") for finding in unread for text in finding["overrides"]]
        assert (f"{key}=full" in wanted) is not saves
        assert not any(text.startswith(other) for text in wanted)
