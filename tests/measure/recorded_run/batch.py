"""A step's batch as verl's trainer hands it to its workers: nested tensors without padding."""

from typing import Any

import torch
from measure.recorded_run.settings import Job


def batch_of(job: Job, generated: dict[str, torch.Tensor], temperature: float) -> Any:
    """The batch of one rank, without what the passes add to it.

    Args:
        job: the job.
        generated: ``tokens``, (sequences, prompt and response), and ``lengths`` of the responses.
        temperature: of the rollout.
    """
    from verl.utils import tensordict_utils as tu

    rows = list(zip(generated["tokens"], generated["lengths"].tolist(), strict=True))
    whole = [row[: job.prompt_tokens + length] for row, length in rows]
    responses = [row[job.prompt_tokens : job.prompt_tokens + length] for row, length in rows]
    return tu.get_tensordict(
        {
            "input_ids": nested(whole),
            "position_ids": nested([torch.arange(len(row)) for row in whole]),
            "prompts": nested([row[: job.prompt_tokens] for row, _length in rows]),
            "responses": nested(responses),
            "response_mask": nested([torch.ones(len(row)) for row in responses]),
            "loss_mask": nested([torch.ones(len(row)) for row in responses]),
        },
        {
            "temperature": temperature,
            "global_token_num": [len(row) for row in whole] * job.world,
        },
    )


def nested(rows: list[torch.Tensor]) -> torch.Tensor:
    """Rows of several lengths as one tensor."""
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)
