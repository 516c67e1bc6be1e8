"""One start of vLLM as ``tuner validate`` starts it, and batches that it generates under several limits."""

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure.generation.scheduler import preemptions, set_scheduler

#: What the caller's environment does not say.
ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # functions of ours are sent to the engine's process
    # vLLM's second runner imports FlashInfer otherwise, with which it samples for top-k or top-p alone.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}
_SEED = 20261124
_PER_PROMPT = 8  # responses
_MOST_SEQUENCES = 1024
_SEQUENCES_A_LIMIT = 8
_PROMPT_TOKENS, _MEAN_TOKENS, _MOST_TOKENS = 512, 384, 2048
_SPREAD = 0.7  # standard deviation of the logarithm of a response's length
_SHARE = 0.85  # of the card
_REPETITIONS, _LONG_S = 2, 12.0  # a batch that takes longer is not repeated


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What is generated at once."""

    limit: int  # sequences that run at once
    cached: float | None = None  # share of them whose mean tokens the cache has room for; None: all blocks

    @property
    def sequences(self) -> int:
        """All of them."""
        return min(_MOST_SEQUENCES, _SEQUENCES_A_LIMIT * self.limit)

    def responses(self) -> list[int]:
        """Tokens of each response, drawn from a log-normal distribution that is cut at the longest."""
        drawn = random.Random(_SEED)
        middle = log(_MEAN_TOKENS) - _SPREAD**2 / 2
        lengths = (round(exp(drawn.gauss(middle, _SPREAD))) for _ in range(self.sequences))
        return [max(1, min(_MOST_TOKENS, tokens)) for tokens in lengths]

    def blocks(self, block_tokens: int) -> int | None:
        """Blocks of the cache; None where it has all that the engine has.

        A prompt's blocks are shared by its responses, and a response is as long as it gets, in the mean.
        """
        if self.cached is None:
            return None
        responses = self.responses()
        tokens = _PROMPT_TOKENS / _PER_PROMPT + sum(responses) / len(responses)
        return round(self.cached * self.limit * tokens / block_tokens)


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is started, and what it generates then."""

    model: str
    config: dict[str, Any]  # the model's config.json, with its architecture
    batches: tuple[Batch, ...]
    end: float  # the monotonic clock's time after which no batch begins


def generate(start: Start, say: Callable[[dict[str, Any]], None]) -> None:
    """Start the engine and generate all batches; a batch's case is said after each of its repetitions."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    began = time.monotonic()
    engine = _started(start)
    ready = time.monotonic() - began
    say({"ready": ready})
    for index, batch in enumerate(start.batches):
        case = {"batch": index, **_case(engine, start, batch), "ready_seconds": ready}
        if not index:
            _seconds(engine, start, Batch(limit=8), 0)  # compiles what has to be
            engine.collective_rpc(preemptions)
        seconds: list[float] = []
        preempted: list[int] = []
        while len(seconds) < _REPETITIONS and not (seconds and seconds[-1] > _LONG_S):
            if time.monotonic() > start.end:
                return
            seconds.append(_seconds(engine, start, batch, 1 + len(seconds)))
            preempted += engine.collective_rpc(preemptions)
            say({**case, "preemptions": preempted, "seconds": seconds})


def _case(engine: Any, start: Start, batch: Batch) -> dict[str, Any]:
    """Set the engine for a batch; the batch and what it is generated with."""
    config = engine.llm_engine.vllm_config
    block_tokens = int(config.cache_config.block_size)
    (cache,) = engine.collective_rpc(set_scheduler, args=(batch.limit, batch.blocks(block_tokens)))
    held = cache["held_blocks"] * cache["block_bytes"]
    return {
        "model": start.model,
        "limit": batch.limit,
        "prompt_tokens": _PROMPT_TOKENS,
        "responses_per_prompt": _PER_PROMPT,
        "responses": batch.responses(),
        "cache_blocks": cache["cache_blocks"],
        "block_tokens": block_tokens,
        "block_bytes": cache["block_bytes"],
        "gpu_memory_utilization": round(_SHARE - held / cache["card_bytes"], 4),
        "step_tokens": int(config.scheduler_config.max_num_batched_tokens),
        "asynchronous": bool(config.scheduler_config.async_scheduling),
        "second_runner": bool(config.use_v2_model_runner),
        "largest_graph": int(config.compilation_config.max_cudagraph_capture_size),
    }


def _started(start: Start) -> Any:
    from vllm import LLM

    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(start.config), encoding="utf-8")
        return LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            gpu_memory_utilization=_SHARE,
            max_num_seqs=max(batch.limit for batch in start.batches),
            max_num_batched_tokens=8192,
            enable_chunked_prefill=True,
            enable_prefix_caching=True,
            disable_log_stats=True,
            enable_sleep_mode=True,
            logprobs_mode="processed_logprobs",
        )


def _seconds(engine: Any, start: Start, batch: Batch, repetition: int) -> float:
    """Seconds of a batch, whose prompts no batch before had."""
    from vllm import SamplingParams

    drawn = random.Random(f"{_SEED} {batch.limit} {batch.cached} {repetition}")
    vocab, responses = int(start.config["vocab_size"]), batch.responses()
    prompts: list[dict[str, list[int]]] = []
    for _ in range(-(-len(responses) // _PER_PROMPT)):
        tokens = [drawn.randrange(vocab) for _ in range(_PROMPT_TOKENS)]
        prompts += [{"prompt_token_ids": tokens}] * _PER_PROMPT
    sampling = [SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False) for tokens in responses]
    began = time.monotonic()
    outputs = engine.generate(prompts[: len(responses)], sampling, use_tqdm=False)
    seconds = time.monotonic() - began
    generated = [len(output.outputs[0].token_ids) for output in outputs]
    if generated != responses:
        raise RuntimeError("the engine generated other lengths than were asked for")
    return seconds
