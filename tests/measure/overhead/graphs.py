"""The memory of CUDA graphs of a decode step."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from measure.readings import Log, device

# As vLLM captures for 256 sequences: 1, 2, 4 and the multiples of 8.
BATCHES = (*range(256, 0, -8), 4, 2, 1)


def capture_graphs(model: str) -> Callable[[], list[dict[str, Any]]]:
    """A probe that captures one graph per batch size, in one pool."""
    return partial(_capture, model)


@torch.no_grad()
def _capture(name: str) -> list[dict[str, Any]]:
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    from tuner.models import find_config

    if not torch.cuda.is_available():
        return []
    values = dict(find_config(name).values)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    with no_init_weights(), torch.device(device()):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    tokens = torch.zeros(BATCHES[0], 1, dtype=torch.long, device=device())
    positions = torch.zeros_like(tokens)
    no_mask = {"full_attention": None}  # made here, it would synchronise, which a capture forbids

    def step(batch: int) -> torch.Tensor:
        inputs = {"input_ids": tokens[:batch], "position_ids": positions[:batch]}
        return model(**inputs, attention_mask=no_mask, use_cache=False).logits

    log = Log()
    log.read("weights")
    _warm_up(step)
    torch.cuda.empty_cache()
    log.read("warm-up")
    pool = torch.cuda.graph_pool_handle()
    kept = []
    for batch in BATCHES:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            logits = step(batch)
        kept.append((graph, logits[:, -1].shape))
        del logits
        log.read(f"graph of {batch} sequences")
    for graph, _ in kept:
        graph.replay()
    log.read("every graph replayed")
    return log.steps


def _warm_up(step: Callable[[int], torch.Tensor]) -> None:
    """Libraries choose and load their kernels outside a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for batch in BATCHES:
            step(batch)
    torch.cuda.current_stream().wait_stream(stream)
