"""A copy's Megatron actor, and an engine of a project's own, are held to those of the release."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.runner import run
from tests.cli.test_code_of_keys import READS, keys_of
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

RELEASE = "0.6.1"
LAUNCH = """python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer \\
    algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct \\
    actor_rollout_ref.rollout.name=vllm data.max_response_length=1024 actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 actor_rollout_ref.actor.use_kl_loss=False
"""
ACTOR = """class MegatronPPOActor:
    def update_policy(self, dataloader):
        for data in dataloader:
            size = self.config.ppo_micro_batch_size_per_gpu
            if self.config.use_dynamic_bsz:
                max_token_len = self.config.ppo_max_token_len_per_gpu
            self.forward_backward_batch(data, micro_batch_size=size, use_dynamic_bsz=False)
            for chunk in self.actor_module:
                chunk.zero_grad_buffer()

    def forward_backward_batch(self, data, micro_batch_size, use_dynamic_bsz):
        if use_dynamic_bsz:
            rearrange_micro_batches(data, max_token_len)
        def forward_step(batch_iter, model):
            return model(batch_iter, logits_processor=self.use_fused_kernels){}
        return run(forward_step, data.batch.split(micro_batch_size))
"""
SIZE = "ppo_micro_batch_size_per_gpu"


@pytest.mark.parametrize(("kept", "stands"), [("", True), (".log_softmax(-1)", False)])
def test_a_megatron_actor_bears_a_size_unless_it_keeps_what_is_wide(
    tmp_path: Path, kept: str, stands: bool
) -> None:
    config, actor = tmp_path / "verl" / "trainer" / "config", tmp_path / "verl" / "workers" / "actor"
    for folder in (tmp_path / ".git", config, actor):
        folder.mkdir(parents=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text(READS)
    (actor / "megatron_actor.py").write_text(ACTOR.format(kept))
    for name in CONFIGS[:2]:
        (config / f"{name}.yaml").write_text(yaml.safe_dump(dict(read_defaults(RELEASE, name).tree)))
    (tmp_path / "run.sh").write_text(LAUNCH)
    given = ("--gpu", "h100-sxm", "--verl-version", RELEASE, "--mean-response-length", "200", "-f", "json")
    answer = run("advise", str(tmp_path / "run.sh"), *given)
    assert answer.out, answer.err
    proposed, withheld = keys_of(json.loads(answer.out))
    assert ((SIZE in proposed), (SIZE in withheld)) == (stands, not stands)


ENGINE = """from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
class OwnEngine(FSDPEngineWithLMHead):
    def forward_step(self, micro_batch, loss_function, forward_only):
        inputs, others = self.prepare_model_inputs(micro_batch)
        output = self.module(**inputs)
        return own_loss(output.logits{}), self.prepare_model_outputs(output, others, micro_batch)
"""
JOB = """python3 -m own.main algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 actor_rollout_ref.actor.use_kl_loss=False
"""


@pytest.mark.parametrize(("kept", "stands"), [("", True), (".log_softmax(-1)", False)])
def test_a_forward_step_of_a_projects_own_engine_is_held_to_the_releases(
    tmp_path: Path, kept: str, stands: bool
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "main.py").write_text(
        "import hydra\nfrom own.engine import OwnEngine\nfrom verl.trainer.main_ppo import run_ppo\n"
        "@hydra.main(config_path=None, config_name='ppo_trainer')\ndef main(config):\n    run_ppo(config)\n"
    )
    (tmp_path / "own" / "engine.py").write_text(ENGINE.format(kept))
    (tmp_path / "run.sh").write_text(JOB)
    given = ("--gpu", "h100-sxm", "--verl-version", "0.8.0", "--mean-response-length", "200", "-f", "json")
    answer = run("advise", str(tmp_path / "run.sh"), *given)
    assert answer.out, answer.err
    proposed, withheld = keys_of(json.loads(answer.out))
    keys = {SIZE, "use_dynamic_bsz"}
    assert (bool(keys & proposed), bool(keys & withheld)) == (stands, not stands)
