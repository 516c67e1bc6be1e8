"""vLLM's own engine with random weights, where vLLM is installed."""

import json
import os
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from tuner.validate.rollout.settings import EngineWork, VllmFigures

_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def measure(work: EngineWork, *, device: str) -> VllmFigures:
    """Start the engine beside what else is resident, read its blocks, decode.

    The engine is a process of its own, as verl has it, and ends with this one.

    Raises:
        RuntimeError: this vLLM does not say how many blocks it has.

    Source: vLLM 0.24 ``entrypoints/llm.py`` (``LLM``, ``load_format="dummy"``, ``skip_tokenizer_init``).
    """
    began = time.monotonic()
    os.environ.update(_ENVIRONMENT)
    held = [
        torch.empty(size, dtype=torch.uint8, device=f"cuda:{gpu}" if gpu else device)
        for gpu in range(work.gpus)
        for _, size in work.residents
    ]
    vllm = import_module("vllm")
    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(_named(work.config)), encoding="utf-8")
        engine = vllm.LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, **work.arguments)
    blocks, block_tokens = _cache(engine)
    decode = _Decode(vllm, engine, work)
    decode.step_seconds()  # reads the prompts, and compiles what has to be
    ready = time.monotonic() - began
    seconds = tuple(decode.step_seconds() for _ in range(work.repetitions))
    fewer = tuple(decode.step_seconds(work.fewer) for _ in range(work.repetitions if work.fewer else 0))
    free, total = torch.cuda.mem_get_info(device)
    held.clear()
    return VllmFigures(
        version=str(vllm.__version__),
        blocks=blocks,
        block_tokens=block_tokens,
        used_bytes=total - free,
        ready_seconds=ready,
        step_seconds=seconds,
        sequences=work.sequences,
        fewer=work.fewer,
        fewer_seconds=fewer,
    )


def _named(config: dict[str, object]) -> dict[str, object]:
    """The configuration with the class that vLLM looks up, which those that are bundled leave out."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    return {"architectures": [NAMES[str(config["model_type"])]], **config}


def _cache(engine: Any) -> tuple[int, int]:
    inner = engine.llm_engine
    config = getattr(inner, "vllm_config", inner).cache_config
    if not config.num_gpu_blocks:
        raise RuntimeError("this vLLM does not say how many blocks its cache has")
    return int(config.num_gpu_blocks), int(config.block_size)


class _Decode:
    """Prompts generated for with few and with more tokens: the difference is decoding alone."""

    def __init__(self, vllm: Any, engine: Any, work: EngineWork) -> None:
        self._vllm, self._engine, self._steps = vllm, engine, work.steps
        vocab = int(work.config["vocab_size"])  # type: ignore[call-overload]
        drawn = torch.randint(vocab, (work.sequences, work.context_tokens)).tolist()
        self._prompts = [{"prompt_token_ids": tokens} for tokens in drawn]

    def step_seconds(self, sequences: int | None = None) -> float:
        """Seconds that one decoding step of so many sequences takes; of all where nobody says."""
        first = self._generate(1, sequences)
        return (self._generate(1 + self._steps, sequences) - first) / self._steps

    def _generate(self, tokens: int, sequences: int | None) -> float:
        sampling = self._vllm.SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False)
        began = time.monotonic()
        self._engine.generate(self._prompts[:sequences], sampling, use_tqdm=False)
        return time.monotonic() - began
