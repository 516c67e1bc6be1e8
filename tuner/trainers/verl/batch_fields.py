"""What a micro-batch of verl itself takes on the card: ids, masks, log-probabilities, losses, by token.

The numbers are those of its model engine (0.8 on) with its transfer queue; the largest set there is: a pass
that lacks some of them, such as one that computes log-probabilities, is not counted apart. Together they are
far below a thousandth of what a pass takes.

Source: verl ``trainer/ppo/v1/trainer_base.py``, ``workers/engine/fsdp/transformer_impl.py``
(``prepare_model_inputs``), ``workers/utils/losses.py`` (``ppo_loss``), ``trainer/ppo/core_algos.py``
(``compute_policy_loss_vanilla``).
"""

from collections.abc import Mapping

from tuner.dtypes import DType
from tuner.workload import HeldBatch, TokenBytes

_INT64 = 8
_FLOAT32 = DType.FLOAT32.bytes
_BOOL = 1

#: Fields of the batch, sent to the card with each micro-batch.
FIELDS: Mapping[str, int] = {
    "input_ids": _INT64,
    "position_ids": _INT64,
    "prompts and responses": _INT64,
    "response_mask": _INT64,
    "loss_mask": _INT64,
    "rm_scores": _FLOAT32,
    "rollout_log_probs": _FLOAT32,
    "old_log_probs": _FLOAT32,
    "ref_log_prob": _FLOAT32,
    "entropy": _FLOAT32,
    "log_probs": _FLOAT32,
    "values": _FLOAT32,
    "token_level_rewards": _FLOAT32,
    "advantages": _FLOAT32,
    "returns": _FLOAT32,
}

#: Made of them for the model and its head.
INPUTS: Mapping[str, int] = {"labels: ids shifted by one": _INT64, "temperature": _FLOAT32}

#: Results of the head: cross entropy's saved log-sum-exp, its two results, log-probabilities, entropy.
RESULTS: Mapping[str, int] = dict.fromkeys(
    ("log-sum-exp", "losses", "z-losses", "log-probabilities", "entropy"), _FLOAT32
)

#: The loss: padded copies of what it reads, and what the clipped objective saves.
LOSS: Mapping[str, int] = {
    "padded response_mask": _INT64,
    "the same as bool": _BOOL,
    "padded log-probabilities": _FLOAT32,
    "padded entropy": _FLOAT32,
    "padded old_log_probs": _FLOAT32,
    "padded advantages": _FLOAT32,
    "padded ref_log_prob": _FLOAT32,
    "logarithm of the ratio": _FLOAT32,
    "the same, clamped": _FLOAT32,
    "ratio": _FLOAT32,
    "negative advantages": 3 * _FLOAT32,
    "clipped ratio": _FLOAT32,
    "losses, clipped and not": 3 * _FLOAT32,
    "their maximum and minimum": 2 * _FLOAT32,
    "sign of the advantages": _BOOL,
    "chosen losses": _FLOAT32,
    "masked losses": _FLOAT32,
}

TOKEN_BYTES = TokenBytes(
    whole=sum(FIELDS.values()) + sum(LOSS.values()), share=sum(INPUTS.values()) + sum(RESULTS.values())
)

#: Ids, mask and positions of the sequence in int64; prompts and responses once more; the mask of responses;
#: old log-probabilities, scores, rewards, advantages and returns in float32. Source: verl 0.9.1
#: ``experimental/agent_loop/agent_loop.py`` (``_postprocess``), ``protocol.py`` (``DataProto``).
HELD_BATCH = HeldBatch(
    sequence_bytes=3 * _INT64,
    prompt_bytes=_INT64,
    response_bytes=2 * _INT64,
    numbers=5,
    copies=(1, 3, 6),
    copies_source=(
        "copies of the batch on the controller's node, not derived: the one it holds, what workers return "
        "before it is joined (verl protocol.py, DataProto.concat), and what Ray's object store keeps for "
        "the ranks of the node (single_controller/ray/base.py); up to each of them twice"
    ),
)
