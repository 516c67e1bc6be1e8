"""One engine as verl's server starts it, or in fewer processes, and the steps of so many sequences."""

import asyncio
import json
import os
import random
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.whole_run.materials import write_tokenizer

from tuner.lifetime import end_with_parent

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_USE_DEEP_GEMM": "0",
    "HF_HUB_OFFLINE": "1",
}
#: Tokens of a response: what the longer one takes more is that many steps, without the prefill of either.
SHORT, LONG = 30, 180
_PROMPT_TOKENS = 32
_REPETITIONS = 2
_SEED = 20261130
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is started, and how many sequences run at once."""

    name: str
    config: dict[str, Any]  # the model's config.json, with its architecture
    folder: str
    executor: str  # "mp": the worker in a process of its own; "uni": in that of the scheduler
    ways: tuple[str, ...]  # how responses are asked for
    sequences: tuple[int, ...]


def work(start: Start, results: Any) -> None:
    """A process's work: what was recorded, or what went wrong."""
    end_with_parent()
    try:
        recorded = asyncio.run(_record(start))
    except Exception:
        recorded = {"error": traceback.format_exc()}
    results.put(recorded)
    results.close()
    results.join_thread()
    os._exit(0)


async def _record(start: Start) -> dict[str, Any]:
    os.environ.update(ENVIRONMENT)
    os.environ["VLLM_CACHE_ROOT"] = f"{start.folder}/cache"
    begun = time.monotonic()
    engine = _started(start)
    await engine.get_supported_tasks()
    ready = time.monotonic() - begun
    config, rows = engine.vllm_config, []
    for way in start.ways:
        for sequences in start.sequences:
            rows.append(await _row(engine, start, way, sequences))
            print(start.name, rows[-1], flush=True)
    engine.shutdown()
    return {
        "executor": start.executor,
        "layers": start.config["num_hidden_layers"],
        "ready_seconds": round(ready, 1),
        "asynchronous": bool(config.scheduler_config.async_scheduling),
        "largest_graph": int(config.compilation_config.max_cudagraph_capture_size),
        "steps": rows,
    }


def _started(start: Start) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    folder = Path(start.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(start.config), encoding="utf-8")
    write_tokenizer(folder)
    given = AsyncEngineArgs(
        model=str(folder),
        load_format="dummy",
        dtype="bfloat16",
        distributed_executor_backend=start.executor,
        gpu_memory_utilization=0.4,
        max_model_len=4096,
        max_num_seqs=256,
        max_num_batched_tokens=8192,
        enable_chunked_prefill=True,
        enable_prefix_caching=True,
        disable_log_stats=True,
        enable_sleep_mode=True,
        logprobs_mode="processed_logprobs",
        compilation_config={"cudagraph_mode": "FULL_AND_PIECEWISE"},
    )
    return AsyncLLM.from_engine_args(given)


def _sampling(way: str, tokens: int) -> Any:
    """As verl's server asks with ``calculate_log_probs``, and what asks least of the front end."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    if way == "verl":
        return SamplingParams(max_tokens=tokens, ignore_eos=True, logprobs=0, temperature=1.0)
    return SamplingParams(
        max_tokens=tokens,
        ignore_eos=True,
        temperature=1.0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


async def _row(engine: Any, start: Start, way: str, sequences: int) -> dict[str, Any]:
    """Seconds of one step, and processor seconds of each process in it."""
    await _seconds(engine, start, way, sequences, SHORT)  # compiles what such a batch needs
    steps, seconds, processors = LONG - SHORT, [], []
    for _ in range(_REPETITIONS):
        readings = []
        for tokens in (SHORT, LONG):
            before = _processor_seconds()
            taken = await _seconds(engine, start, way, sequences, tokens)
            after = _processor_seconds()
            readings.append((taken, {name: after[name] - before.get(name, 0.0) for name in after}))
        (short, few), (long, many) = readings
        seconds.append(round((long - short) / steps, 6))
        processors.append({name: round((many[name] - few.get(name, 0.0)) / steps, 6) for name in many})
    return {"way": way, "sequences": sequences, "seconds": seconds, "processor_seconds": processors}


async def _seconds(engine: Any, start: Start, way: str, sequences: int, tokens: int) -> float:
    """Until the last of so many responses is there."""
    drawn = random.Random(f"{_SEED} {start.name} {way} {sequences} {tokens} {time.monotonic()}")

    async def answered(index: int) -> None:
        prompt = {"prompt_token_ids": [drawn.randrange(1000, 100_000) for _ in range(_PROMPT_TOKENS)]}
        name = f"{way} {sequences} {tokens} {index} {drawn.random()}"
        async for _output in engine.generate(prompt, _sampling(way, tokens), name):
            pass

    begun = time.monotonic()
    await asyncio.gather(*(answered(index) for index in range(sequences)))
    return time.monotonic() - begun


def _processor_seconds() -> dict[str, float]:
    """Of this process, which is the front end, and of all that it has started, by their names."""
    known: dict[int, tuple[int, str, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "stat").read_text()
                title = (folder / "cmdline").read_text().split("\0")[0]
            except OSError:
                continue
            fields = line.rpartition(")")[2].split()
            ran = (int(fields[11]) + int(fields[12])) / _TICKS
            known[int(folder.name)] = (int(fields[1]), title, ran)
    seconds: dict[str, float] = {"front end": known[os.getpid()][2]}
    family = {os.getpid()}
    while True:
        children = {one for one, (parent, _title, _ran) in known.items() if parent in family} - family
        if not children:
            return seconds
        for one in children:
            _parent, title, ran = known[one]
            name = title if title.startswith("VLLM") else "others"
            seconds[name] = seconds.get(name, 0.0) + ran
        family |= children
