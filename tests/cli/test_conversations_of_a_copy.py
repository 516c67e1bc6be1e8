"""A copy's dataset that keeps the conversations whatever data.return_raw_chat says refuses no launch."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.mode=async actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.model.use_remove_padding=True data.train_batch_size=64
"""
LOOP = """class SingleTurnAgentLoop:
    async def run(self, **kwargs):
        messages = list(kwargs["raw_prompt"])
"""
KEPT = 'row_dict["raw_prompt"] = messages'
ASKED = f"if self.return_raw_chat:\n            {KEPT}"
TOKENIZED = 'row_dict["raw_prompt_ids"] = self.tokenizer.encode(raw_prompt)'
DATASET = """class RLHFDataset:
    def __getitem__(self, item):
        messages = self._build_messages(self.rows[item])
        {statement}
"""


@pytest.mark.parametrize(("statement", "refused"), [(KEPT, False), (ASKED, True), (TOKENIZED, True)])
def test_the_dataset_of_the_copy_decides(statement: str, refused: bool, tmp_path: Path) -> None:
    for name, text in {
        "verl/trainer/main_ppo.py": "import ray\n",
        "verl/experimental/agent_loop/single_turn_agent_loop.py": LOOP,
        "verl/utils/dataset/rl_dataset.py": DATASET.format(statement=statement),
        "run.sh": LAUNCH,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    answer = run(
        "check", str(tmp_path / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.6.1", "-f", "json"
    )
    findings = {it["code"]: it for it in json.loads(answer.out)["findings"]}
    said = findings.get("CFG207")
    assert (said is not None and said["severity"] == "error") is refused
