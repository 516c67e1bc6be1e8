"""One start of vLLM in this process, as verl starts it, read at every moment that its share is made of."""

import json
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from measure.readings import Log

from tuner.lifetime import end_with_parent

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, where it can be looked at
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_LARGEST = 12  # tensors at the peak of the profile run that are recorded
_FRAMES = 4
_PROMPT_TOKENS, _TOKENS = 600, 20
_LOGPROBS_MODE = "processed_logprobs"  # verl's default


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is started."""

    model: str
    config: dict[str, Any]  # the model's config.json, with its architecture
    sequences: int = 256
    second_runner: bool | None = None  # None: as vLLM chooses


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


def record(start: Start) -> dict[str, Any]:
    """Start, capture, generate, sleep, wake up and generate again; bytes at each moment."""
    os.environ.update(ENVIRONMENT)
    if start.second_runner is not None:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(int(start.second_runner))
    torch.cuda.init()
    log = Log()
    log.read("context")
    found: dict[str, Any] = {
        "model": start.model,
        "sequences": start.sequences,
        "sleep_mode": True,
        "logprobs_mode": _LOGPROBS_MODE,
        "compiled": "anew",  # the model lies in a new folder, so that vLLM's cache does not know it
    }
    _watch(log, found)
    from vllm import LLM, SamplingParams

    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(start.config), encoding="utf-8")
        engine = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            gpu_memory_utilization=0.5,
            max_num_seqs=start.sequences,
            max_num_batched_tokens=8192,
            enable_chunked_prefill=True,
            enable_prefix_caching=True,
            disable_log_stats=True,
            enable_sleep_mode=True,
            logprobs_mode=_LOGPROBS_MODE,
        )
    log.read("ready")
    prompts = [
        {"prompt_token_ids": [7 * i + j for j in range(_PROMPT_TOKENS)]} for i in range(start.sequences)
    ]
    sampling = SamplingParams(max_tokens=_TOKENS, ignore_eos=True, detokenize=False)
    engine.generate(prompts, sampling, use_tqdm=False)
    log.read("generated")
    engine.sleep(level=2)
    log.read("asleep")
    engine.wake_up()
    engine.generate(prompts, sampling, use_tqdm=False)
    log.read("generated after sleep")
    return found | {"steps": log.steps}


def _watch(log: Log, found: dict[str, Any]) -> None:
    """Have vLLM's worker say what it subtracts from its share, and when."""
    from vllm.v1.worker.gpu_worker import Worker

    for name in ("init_device", "load_model", "initialize_from_config"):
        _read_after(Worker, name, log)
    inner = Worker.determine_available_memory

    def determine(self: Any, *arguments: Any, **options: Any) -> int:
        runner = self.model_runner
        found["runner"] = type(runner).__module__
        _record_peak(runner, found)
        available = inner(self, *arguments, **options)
        log.read("determine_available_memory")
        found.update(
            requested_bytes=int(self.requested_memory),
            available_bytes=int(available),
            weights_bytes=int(runner.model_memory_usage),
            activation_bytes=int(self.peak_activation_memory),
            non_torch_bytes=int(self.non_torch_memory),
            graph_estimate_bytes=int(self.cudagraph_memory_estimate),
        )
        _read_after(type(runner), "capture_model", log)
        return int(available)

    Worker.determine_available_memory = determine


def _read_after(owner: type, name: str, log: Log) -> None:
    method = getattr(owner, name)

    def watched(self: Any, *arguments: Any, **options: Any) -> Any:
        result = method(self, *arguments, **options)
        log.read(name)
        return result

    setattr(owner, name, watched)


def _record_peak(runner: Any, found: dict[str, Any]) -> None:
    """The largest tensors at the peak of the profile run, and the lines that made them."""
    profile_run = runner.profile_run

    def recorded(*arguments: Any, **options: Any) -> Any:
        torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python")
        result = profile_run(*arguments, **options)
        torch.cuda.synchronize()
        events = torch.cuda.memory._snapshot()["device_traces"][0]
        torch.cuda.memory._record_memory_history(enabled=None)
        found["peak"] = _at_peak(events)
        return result

    runner.profile_run = recorded


def _at_peak(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    live: dict[int, dict[str, Any]] = {}
    total = most = 0
    kept: list[dict[str, Any]] = []
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = event
            total += event["size"]
        elif event["action"] == "free_completed" and event["addr"] in live:
            total -= live.pop(event["addr"])["size"]
        if total > most:
            most, kept = total, list(live.values())
    largest = sorted(kept, key=lambda event: -event["size"])[:_LARGEST]
    return [{"bytes": event["size"], "where": _where(event)} for event in largest]


def _where(event: dict[str, Any]) -> list[str]:
    """Innermost lines first, by module."""
    shown = []
    for frame in event.get("frames", ())[:_FRAMES]:
        file = Path(frame["filename"])
        root = next((Path(each) for each in sys.path if each and file.is_relative_to(each)), None)
        name = file.name if root is None else str(file.relative_to(root))
        shown.append(f"{name}:{frame['line']} {frame['name']}")
    return shown
