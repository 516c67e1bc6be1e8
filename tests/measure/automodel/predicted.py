"""What the model says of a pass that was measured: by a configuration of NeMo-RL of the same sizes."""

import json
import tempfile
from pathlib import Path
from typing import Any

from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

_PHASES = {"update": "update_actor", "log_prob": "old_log_prob"}


def predicted_bytes(measured: dict[str, Any], *, gpu: str = "h200-sxm") -> int:
    """What PyTorch allocates at the peak of a pass, in bytes.

    Args:
        measured: one of the recorded passes.
        gpu: the profile of its card.
    """
    tree = {
        "defaults": "grpo_math_1B.yaml",
        "grpo": {"num_prompts_per_step": 2 * measured["sequences"], "num_generations_per_prompt": 1},
        "policy": {
            "train_global_batch_size": 2 * measured["sequences"] * measured["ranks"],
            "train_micro_batch_size": measured["sequences"],
            "max_total_sequence_length": measured["tokens"] // measured["sequences"],
            "logprob_chunk_size": measured["log_prob_chunk"],
            "dtensor_cfg": {"activation_checkpointing": measured["recompute"]},
        },
        "cluster": {"gpus_per_node": measured["ranks"]},
    }
    tree["grpo"]["num_prompts_per_step"] *= measured["ranks"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.yaml"
        file.write_text(json.dumps(tree), encoding="utf-8")  # which is YAML
        premises = Premises(gpu=gpu, model=measured["model"], verl_version="0.7.0")
        answer = consult(str(file), (), premises, block=False)
    phases = answer.advice.estimate.phases
    peak = next(one for one in phases if one.phase.value == _PHASES[measured["pass"]])
    return peak.allocated_bytes
