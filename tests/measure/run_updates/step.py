"""The sequences of one step of a whole run, as one rank of two has them."""

import random
from dataclasses import dataclass
from typing import Any

import torch
from measure.whole_run.lengths import Lengths

_LENGTHS = Lengths(median=600, sigma=0.7, most=2048)
_PROMPTS, _RESPONSES, _RANKS = range(32, 64), 4, 2


@dataclass(frozen=True, kw_only=True)
class Case:
    """A whole run's model and how it trained."""

    model: str
    layers: int
    engine: dict[str, Any]
    update: dict[str, Any]
    log_prob: dict[str, Any]


def _budget(tokens: int) -> dict[str, Any]:
    return {"use_dynamic_bsz": True, "max_token_len_per_gpu": tokens}


_SIXTEEN = {"use_dynamic_bsz": False, "micro_batch_size_per_gpu": 16}
CASES = {
    "4b": Case(
        model="Qwen3-4B",
        layers=36,
        engine={"strategy": "fsdp", "gradient_checkpointing": False},
        update=_budget(12800),
        log_prob=_budget(20480),
    ),
    "1.5b": Case(
        model="Qwen2.5-1.5B",
        layers=28,
        engine={"strategy": "fsdp2"},
        update=_budget(8192),
        log_prob=_budget(8192),
    ),
    "6l": Case(
        model="Qwen3-30B-A3B", layers=6, engine={"strategy": "fsdp"}, update=_SIXTEEN, log_prob=_SIXTEEN
    ),
    "moe": Case(
        model="Qwen1.5-MoE-A2.7B",
        layers=24,
        engine={"strategy": "fsdp2", "model_dtype": "bf16"},
        update=_budget(8192),
        log_prob=_budget(8192),
    ),
}


def sequences(rank: int, *, shorter: int = 1) -> list[tuple[int, int]]:
    """Tokens of prompt and response of each sequence of a rank, in the order in which responses end.

    Args:
        rank: 0 or 1; a GPU that is alone takes the first one's.
        shorter: by what to divide all lengths.
    """
    from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

    drawn = random.Random(3)
    ended = sorted(
        (max(4, _LENGTHS.of(prompt, response) // shorter), max(2, tokens // shorter))
        for prompt in _PROMPTS
        for tokens in [drawn.randint(60, 460)]
        for response in range(_RESPONSES)
    )
    parts = get_seqlen_balanced_partitions([sum(one) for one in ended], _RANKS, equal_size=True)
    return [(prompt, response) for response, prompt in (ended[index] for index in sorted(parts[rank]))]


def batch_of(own: list[tuple[int, int]], vocabulary: int, **settings: Any) -> Any:
    """What verl's workers receive of these sequences."""
    from verl.utils import tensordict_utils as tu

    drawn = torch.Generator().manual_seed(0)
    tokens = [torch.randint(vocabulary, (sum(one),), generator=drawn) for one in own]

    def nested(parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(parts, layout=torch.jagged)

    prompts = [one[:prompt] for one, (prompt, _) in zip(tokens, own, strict=True)]
    responses = [one[prompt:] for one, (prompt, _) in zip(tokens, own, strict=True)]
    return tu.get_tensordict(
        {
            "input_ids": nested(tokens),
            "position_ids": nested([torch.arange(len(one)) for one in tokens]),
            "prompts": nested(prompts),
            "responses": nested(responses),
            "response_mask": nested([torch.ones(len(one)) for one in responses]),
            "loss_mask": nested([torch.ones(len(one)) for one in responses]),
            "old_log_probs": nested([torch.full((len(one),), -12.0) for one in responses]),
            "advantages": nested([torch.randn(len(one), generator=drawn) for one in responses]),
        },
        {
            "use_remove_padding": True,
            "use_fused_kernels": False,
            "temperature": 1.0,
            "global_batch_size": len(own) // 2 * _RANKS,
            **settings,
        },
    )
