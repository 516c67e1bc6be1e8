"""One engine in this process, whose prefill batches are given sizes one after another."""

import json
import os
import random
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.lifetime import end_with_parent

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, where Triton can be listened to
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_USE_DEEP_GEMM": "0",
    "HF_HUB_OFFLINE": "1",
}
#: Beyond the largest batch that vLLM captures, 512 tokens, and with an odd neighbour each.
SIZES = tuple(size + odd for size in (600, 1000, 1500, 2000, 3000, 4000, 8000) for odd in (0, 1))
ROUNDS, PROMPTS, RESPONSES, FIRST = 4, 16, 4, (1, 3, 5, 9)
_SEED = 20261130
_TOKENS = 24  # of each response of a round
_SHOWN = 400  # letters of what Triton calls a kernel


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is started."""

    name: str
    config: dict[str, Any]  # the model's config.json, with its architecture
    folder: str  # of the model and of what vLLM compiles for it
    cache: str


class Heard:
    """Kernels that Triton compiled or read, since the last look."""

    def __init__(self) -> None:
        self.kernels: list[dict[str, Any]] = []
        self._begun = 0.0

    def listen(self) -> None:
        """Be told before and after each kernel; whoever was told before is told as well."""
        from triton import knobs

        before, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook

        def begun(**given: Any) -> Any:
            self._begun = time.monotonic()
            return before(**given) if before is not None else False

        def made(**given: Any) -> Any:
            seconds = time.monotonic() - self._begun
            name = getattr(given.get("fn"), "name", "?").rpartition(".")[2]
            shown = str(given.get("repr", ""))[:_SHOWN]
            self.kernels.append({"kernel": name, "seconds": round(seconds, 3), "shown": shown})
            return after(**given) if after is not None else None

        knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook = begun, made

    @contextmanager
    def reading(self, row: dict[str, Any]) -> Iterator[None]:
        """Fill a row with the seconds of a block and with what was compiled in it."""
        self.kernels = []
        begun = time.monotonic()
        yield
        row |= {"seconds": round(time.monotonic() - begun, 4), "compiled": self.kernels}


def work(start: Start, results: Any) -> None:
    """A process's work: what was recorded, or what went wrong."""
    end_with_parent()
    try:
        found = record(start)
    except Exception:
        found = {"error": traceback.format_exc()}
    results.put(found)
    results.close()
    results.join_thread()
    os._exit(0)


def record(start: Start) -> dict[str, Any]:
    """Start the engine; prompts alone, size by size, twice; then rounds of many."""
    os.environ.update(ENVIRONMENT)
    os.environ["VLLM_CACHE_ROOT"] = f"{start.folder}/cache"
    begun = time.monotonic()
    engine = _started(start)
    ready = time.monotonic() - begun
    heard = Heard()
    heard.listen()
    drawn = random.Random(f"{_SEED} {start.name}")
    vocabulary = int(start.config["vocab_size"])

    def prompt(tokens: int) -> dict[str, list[int]]:
        return {"prompt_token_ids": [drawn.randrange(vocabulary) for _ in range(tokens)]}

    # A round comes first, as in a job; what it compiles is not new to the sizes after it.
    rounds = [_round(engine, heard, prompt, drawn, first) for first in FIRST[:1]]
    alone = [_alone(engine, heard, prompt(size), size) for size in (*SIZES, *SIZES)]
    rounds += [_round(engine, heard, prompt, drawn, first) for first in FIRST[1:]]
    config = engine.llm_engine.vllm_config
    return {
        "cache": start.cache,
        "ready_seconds": round(ready, 1),
        "largest_graph": int(config.compilation_config.max_cudagraph_capture_size),
        "step_tokens": int(config.scheduler_config.max_num_batched_tokens),
        "alone": alone,
        "rounds": rounds,
    }


def _started(start: Start) -> Any:
    from vllm import LLM

    folder = Path(start.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(start.config), encoding="utf-8")
    return LLM(
        model=str(folder),
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        gpu_memory_utilization=0.4,
        max_model_len=16384,
        max_num_seqs=1024,
        max_num_batched_tokens=8192,
        enable_chunked_prefill=True,
        enable_prefix_caching=True,
        disable_log_stats=True,
        enable_sleep_mode=True,
        logprobs_mode="processed_logprobs",
    )


def _sampling(tokens: int) -> Any:
    from vllm import SamplingParams

    return SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False, logprobs=0)


def _alone(engine: Any, heard: Heard, prompt: Any, size: int) -> dict[str, Any]:
    row: dict[str, Any] = {"tokens": size}
    with heard.reading(row):
        engine.generate([prompt], _sampling(1), use_tqdm=False)
    return row


def _round(engine: Any, heard: Heard, prompt: Any, drawn: random.Random, first: int) -> list[dict[str, Any]]:
    """Each step of a round in which something was compiled, and all of its seconds as the last row."""
    core = engine.llm_engine
    asked = [one for _ in range(PROMPTS) for one in [prompt(drawn.randint(70, 470))] * RESPONSES]
    rows: list[dict[str, Any]] = []
    begun = time.monotonic()
    for index, one in enumerate(asked):
        core.add_request(f"{first} {index} {begun}", one, _sampling(_TOKENS))
        if index + 1 == first:
            rows.append(_step(core, heard))
    while core.has_unfinished_requests():
        rows.append(_step(core, heard))
    whole = {"first_requests": first, "steps": len(rows), "seconds": round(time.monotonic() - begun, 3)}
    return [*({"step": index, **row} for index, row in enumerate(rows) if row["compiled"]), whole]


def _step(core: Any, heard: Heard) -> dict[str, Any]:
    row: dict[str, Any] = {}
    with heard.reading(row):
        core.step()
    return row
