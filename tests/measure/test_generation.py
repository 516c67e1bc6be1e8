"""The measurement of vLLM's generation with a ``vllm`` that only counts: what it asks for, and its end."""

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGE, SMALL = "Qwen/Qwen3-4B", "Qwen/Qwen2.5-1.5B-Instruct"
BLOCKS, BLOCK_BYTES, CARD_BYTES = 24_000, 2_359_296, 85 * 10**9

VLLM = f"""
import os, subprocess, sys, time
from types import SimpleNamespace as Named
from vllm.v1.core.sched.scheduler import Scheduler

ACT = os.environ.get("FAKE_VLLM", "")


def act(where):
    if ACT == "hang " + where:
        time.sleep(600)
    if ACT == "die " + where:
        os._exit(3)
    if ACT == "raise " + where:
        raise RuntimeError("no memory")


class SamplingParams:
    def __init__(self, *, max_tokens, ignore_eos, detokenize):
        self.max_tokens = max_tokens


class LLM:
    def __init__(self, *, max_num_seqs, gpu_memory_utilization, max_num_batched_tokens, **others):
        sleeping = subprocess.Popen(["sleep", "600"])  # as the engine, a process of its own
        with open(os.environ["FAKE_PIDS"], "a") as pids:
            pids.write(f"{{sleeping.pid}}\\n")
        act("at the start")
        self.share, self.batches = gpu_memory_utilization, 0
        self.scheduler = Scheduler(max_num_seqs)
        self.worker = Named(init_snapshot=Named(total_memory={CARD_BYTES}))
        self.llm_engine = Named(vllm_config=Named(
            cache_config=Named(block_size=16),
            scheduler_config=Named(max_num_batched_tokens=max_num_batched_tokens, async_scheduling=True),
            compilation_config=Named(max_cudagraph_capture_size=512),
            use_v2_model_runner=os.environ["VLLM_USE_FLASHINFER_SAMPLER"] == "0",
        ))

    def collective_rpc(self, function, args=()):
        return [function(self.worker, *args)]

    def generate(self, prompts, sampling, *, use_tqdm):
        self.batches += 1
        if self.batches == 3:
            act("in a batch")
        if len(sampling) == 1024:
            self.scheduler._preempt_request(None, 0.0)
        pool = self.scheduler.kv_cache_manager.block_pool
        with open(os.environ["FAKE_LOG"], "a") as log:
            prompts_apart = len({{tuple(prompt["prompt_token_ids"]) for prompt in prompts}})
            log.write(f"{{self.scheduler.max_num_running_reqs}} {{len(pool.free)}} {{prompts_apart}}\\n")
        return [Named(outputs=[Named(token_ids=range(one.max_tokens))]) for one in sampling]
"""
SCHEDULER = f"""
from types import SimpleNamespace as Named


class Pool:
    def __init__(self):
        self.num_gpu_blocks = {BLOCKS}
        self.free = list(range(1, {BLOCKS}))  # the first is nobody's

    def get_new_blocks(self, count):
        taken, self.free = self.free[:count], self.free[count:]
        assert len(taken) == count
        return taken

    def free_blocks(self, blocks):
        self.free.extend(blocks)


class Scheduler:
    def __init__(self, limit):
        self.max_num_running_reqs = limit
        self.kv_cache_manager = Named(block_pool=Pool())
        tensors = [Named(size={BLOCKS * BLOCK_BYTES // 36})] * 36
        self.kv_cache_config = Named(num_blocks={BLOCKS}, kv_cache_tensors=tensors)

    def _preempt_request(self, request, timestamp):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a ``vllm`` lies that is found before any other."""
    for package in ("vllm", "vllm/v1", "vllm/v1/core", "vllm/v1/core/sched"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "vllm" / "__init__.py").write_text(VLLM, encoding="utf-8")
    (tmp_path / "vllm/v1/core/sched/scheduler.py").write_text(SCHEDULER, encoding="utf-8")
    for name in ("vllm", "triton"):
        (tmp_path / f"{name}-0.24.0.dist-info").mkdir()
        (tmp_path / f"{name}-0.24.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.24.0\n", encoding="utf-8"
        )
    monkeypatch.syspath_prepend(ROOT / "tests")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "tests")]))
    for name in ("LOG", "PIDS"):
        (tmp_path / name).touch()
        monkeypatch.setenv(f"FAKE_{name}", str(tmp_path / name))
    return tmp_path


def _recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """The file that the command writes; all that was started has ended then."""
    output = folder / "out.json"
    monkeypatch.setattr(sys, "argv", ["generation", "--output", str(output), *arguments])
    import_module("measure.generation.__main__").main()
    started = [int(line) for line in (folder / "PIDS").read_text().split()]
    assert started
    assert not any(_lives(process) for process in started)
    return json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(sys.platform != "linux", reason="the engine's process is looked for in /proc")
class TestMeasurement:
    def test_every_batch_has_the_limit_and_the_blocks_that_its_case_says(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        recorded = _recorded(folder, monkeypatch)
        cases = recorded["generated"]
        assert [case["model"] for case in cases] == [LARGE] * 5 + [SMALL] * 5
        assert [case["limit"] for case in cases[:5]] == [1024, 256, 64, 1024, 1024]
        assert "errors" not in recorded
        ran = [tuple(map(int, line.split())) for line in (folder / "LOG").read_text().splitlines()]
        warm_up = (1024, BLOCKS - 1, 8)
        twice = [
            (case["limit"], case["cache_blocks"] - 1, -(-len(case["responses"]) // 8))
            for case in cases[:5]
            for _ in case["seconds"]
        ]
        assert ran == 2 * [warm_up, *twice]
        assert all(len(case["seconds"]) == 2 for case in cases)
        assert [case["preemptions"] for case in cases[:3]] == [[1, 1], [1, 1], [0, 0]]
        assert all(case["second_runner"] for case in cases)

    def test_a_small_cache_has_room_for_a_share_of_the_sequences(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cases = _recorded(folder, monkeypatch, "--models", LARGE)["generated"]
        for case, share in zip(cases[3:], (1 / 3, 1 / 10), strict=True):
            responses = case["responses"]
            tokens = case["cache_blocks"] * case["block_tokens"]
            each = 512 / 8 + sum(responses) / len(responses)
            assert tokens / each == pytest.approx(share * 1024, rel=1e-3)
            held = (BLOCKS - case["cache_blocks"]) * BLOCK_BYTES
            assert case["gpu_memory_utilization"] == pytest.approx(0.85 - held / CARD_BYTES, abs=1e-4)
        assert {case["cache_blocks"] for case in cases[:3]} == {BLOCKS}
        assert {case["gpu_memory_utilization"] for case in cases[:3]} == {0.85}

    @pytest.mark.parametrize(
        ("act", "cases", "error"),
        [
            ("hang at the start", 0, "nothing was heard for 5 s"),
            ("die at the start", 0, "ended with status 3"),
            ("raise at the start", 0, "RuntimeError: no memory"),
            ("hang in a batch", 1, "nothing was heard for 5 s"),
            ("die in a batch", 1, "ended with status 3"),
            ("raise in a batch", 1, "RuntimeError: no memory"),
        ],
    )
    @pytest.mark.sampled(6)
    def test_what_hangs_or_dies_is_ended_and_what_was_read_is_kept(
        self, act: str, cases: int, error: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_VLLM", act)
        models = [LARGE] if act.startswith("hang") else [LARGE, SMALL]  # the next one is started all the same
        began = time.monotonic()
        recorded = _recorded(folder, monkeypatch, "--silence", "5", "--models", *models)
        assert time.monotonic() - began < 60
        assert len(recorded["generated"]) == cases * len(models)
        assert [each["model"] for each in recorded["errors"]] == models
        assert all(error in each["error"] for each in recorded["errors"])

    @pytest.mark.sampled(12)
    def test_no_batch_outlasts_the_time_by_more_than_its_grace(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_VLLM", "hang in a batch")
        recorded = _recorded(folder, monkeypatch, "--seconds", "6", "--grace", "1")
        assert [case["model"] for case in recorded["generated"]] == [LARGE]
        assert recorded["errors"] == [{"model": LARGE, "error": "the time was over"}]
