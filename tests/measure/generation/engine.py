"""One start of vLLM as ``tuner validate`` starts it, and batches that it generates under several limits."""

import gc
import json
import os
import random
import time
import traceback
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # a function of ours is sent to the engine's process
}
_SEED = 20261124
_PER_PROMPT = 8  # responses
_MOST_SEQUENCES = 1024
_SEQUENCES_A_LIMIT = 8
_PROMPT_TOKENS, _MEAN_TOKENS, _MOST_TOKENS = 512, 384, 2048
_SPREAD = 0.7  # standard deviation of the logarithm of a response's length
_REPETITIONS, _LONG_S = 3, 20.0  # a batch that takes longer is not repeated


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What is generated at once."""

    limit: int  # sequences that run at once

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


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is started, and what it generates then."""

    model: str
    config: dict[str, Any]  # the model's config.json, with its architecture
    batches: tuple[Batch, ...]


def work(start: Start, end: float, results: Any) -> None:
    """A process's work: a case for each batch, or what went wrong, and None at the end."""
    try:
        _generate(start, end, results)
    except Exception:
        results.put({"model": start.model, "error": traceback.format_exc()})
    results.put(None)
    results.close()
    results.join_thread()
    os._exit(0)  # a process of the engine that is still there would be waited for


def _generate(start: Start, end: float, results: Any) -> None:
    os.environ.update(ENVIRONMENT)
    began = time.monotonic()
    engine = _started(start)
    ready = time.monotonic() - began
    config = engine.llm_engine.vllm_config
    for index, batch in enumerate(start.batches):
        engine.collective_rpc(_set_limit, args=(batch.limit,))
        if not index:
            _seconds(engine, start, Batch(limit=8), 0)  # compiles what has to be
        case: dict[str, Any] = {
            "model": start.model,
            "limit": batch.limit,
            "prompt_tokens": _PROMPT_TOKENS,
            "responses_per_prompt": _PER_PROMPT,
            "responses": batch.responses(),
            "cache_blocks": int(config.cache_config.num_gpu_blocks),
            "block_tokens": int(config.cache_config.block_size),
            "step_tokens": int(config.scheduler_config.max_num_batched_tokens),
            "asynchronous": bool(config.scheduler_config.async_scheduling),
            "largest_graph": int(config.compilation_config.max_cudagraph_capture_size),
            "ready_seconds": ready,
            "seconds": [],
        }
        for repetition in range(_REPETITIONS):
            if time.monotonic() > end or (repetition and case["seconds"][-1] > _LONG_S):
                break
            case["seconds"].append(_seconds(engine, start, batch, 1 + repetition))
        if case["seconds"]:
            results.put(case)


def _started(start: Start) -> Any:
    from vllm import LLM

    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(start.config), encoding="utf-8")
        return LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            gpu_memory_utilization=0.5,
            max_num_seqs=max(batch.limit for batch in start.batches),
            max_num_batched_tokens=8192,
            enable_chunked_prefill=True,
            enable_prefix_caching=True,
            disable_log_stats=True,
            enable_sleep_mode=True,
            logprobs_mode="processed_logprobs",
        )


def _set_limit(worker: Any, limit: int) -> None:
    """In the engine's process, which the worker of a single GPU shares: change the scheduler's limit."""
    from vllm.v1.core.sched.scheduler import Scheduler

    gc.unfreeze()  # the engine hides from the collector what lives as long as it does
    schedulers = [thing for thing in gc.get_objects() if isinstance(thing, Scheduler)]
    gc.freeze()
    if not schedulers:
        raise RuntimeError("no scheduler in the worker's process")
    for scheduler in schedulers:
        scheduler.max_num_running_reqs = limit


def _seconds(engine: Any, start: Start, batch: Batch, repetition: int) -> float:
    """Seconds of a batch, whose prompts no batch before had."""
    from vllm import SamplingParams

    drawn = random.Random(f"{_SEED} {batch.limit} {repetition}")
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
