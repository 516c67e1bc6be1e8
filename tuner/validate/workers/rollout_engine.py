"""vLLM's own engine with random weights, where vLLM is installed."""

import json
import os
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from tuner.validate.rollout_settings import EngineFigures, EngineWork


def measure(work: EngineWork, *, device: str) -> EngineFigures:
    """Start the engine beside what else is resident, read its blocks, generate once.

    No test runs this: it needs vLLM and a GPU. It is written against vLLM's documented
    ``LLM`` (``load_format="dummy"``, ``skip_tokenizer_init``) and the ``cache_config`` of its engine.

    Raises:
        RuntimeError: this vLLM does not say how many blocks it has.
    """
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # in this process, so that it ends with it
    held = [torch.empty(size, dtype=torch.uint8, device=device) for _, size in work.residents]
    vllm = import_module("vllm")
    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(work.config), encoding="utf-8")
        engine = vllm.LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, **work.arguments)
        blocks, block_tokens = _cache(engine)
        seconds = _generate(vllm, engine, work)
    held.clear()
    return EngineFigures(
        blocks=blocks,
        block_tokens=block_tokens,
        tokens_per_s=work.sequences * work.response_tokens / seconds,
    )


def _cache(engine: Any) -> tuple[int, int]:
    inner = engine.llm_engine
    config = getattr(inner, "vllm_config", inner).cache_config
    if not config.num_gpu_blocks:
        raise RuntimeError("this vLLM does not say how many blocks its cache has")
    return int(config.num_gpu_blocks), int(config.block_size)


def _generate(vllm: Any, engine: Any, work: EngineWork) -> float:
    """Seconds of one generation; an earlier one warms up."""
    vocab = int(work.config["vocab_size"])  # type: ignore[call-overload]
    prompts = [
        {"prompt_token_ids": torch.randint(vocab, (work.prompt_tokens,)).tolist()}
        for _ in range(work.sequences)
    ]
    sampling = vllm.SamplingParams(max_tokens=work.response_tokens, ignore_eos=True, detokenize=False)
    engine.generate(prompts[:1], sampling, use_tqdm=False)
    began = time.monotonic()
    engine.generate(prompts, sampling, use_tqdm=False)
    return time.monotonic() - began
