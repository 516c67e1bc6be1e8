"""What is asked of vLLM and read from it, with a stand-in for vLLM: the real one needs a GPU."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tuner.validate.rollout.settings import EngineWork
from tuner.validate.rollout.worker import vllm as worker
from tuner.validate.rollout.worker.vllm import measure

STEP_S, PROMPTS_S = 0.25, 4.0
WORK = EngineWork(
    config={"model_type": "qwen2", "vocab_size": 11},
    residents=(("actor_parameters", 3),),
    arguments={"max_num_seqs": 3},
    sequences=3,
    context_tokens=5,
    steps=8,
    repetitions=2,
)


class StandIn(ModuleType):
    """vLLM as far as it is used; a clock moves by what a generation would take."""

    __version__ = "0.24.0"
    SamplingParams = SimpleNamespace

    def __init__(self, blocks: int | None) -> None:
        super().__init__("vllm")
        self.now = 0.0
        self.blocks = blocks
        self.started: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.generated: list[tuple[int, Any]] = []

    def LLM(self, model: str, **arguments: Any) -> SimpleNamespace:  # noqa: N802
        self.started.append(arguments)
        self.config = json.loads(Path(model, "config.json").read_text())
        cache = SimpleNamespace(num_gpu_blocks=self.blocks, block_size=16)
        inner = SimpleNamespace(vllm_config=SimpleNamespace(cache_config=cache))
        return SimpleNamespace(llm_engine=inner, generate=self.generate)

    def generate(self, prompts: list[dict[str, list[int]]], sampling: Any, *, use_tqdm: bool) -> None:
        assert not use_tqdm and sampling.ignore_eos and not sampling.detokenize
        assert all(0 <= token < 11 for prompt in prompts for token in prompt["prompt_token_ids"])
        self.generated.append((len(prompts), sampling.max_tokens))
        self.now += PROMPTS_S + STEP_S * sampling.max_tokens


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn(blocks=700)
    monkeypatch.setitem(sys.modules, "vllm", found)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: found.now))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (100, 1000))
    for name in worker._ENVIRONMENT:
        monkeypatch.setenv(name, "")  # put back afterwards
    return found


def test_a_step_is_what_more_tokens_take_longer(vllm: StandIn) -> None:
    found = measure(WORK, device="cpu")
    assert found.step_seconds == pytest.approx((STEP_S, STEP_S))
    assert found.token_seconds == pytest.approx((STEP_S / 3,) * 2)
    assert vllm.generated == [(3, 1), (3, 9)] * 3
    assert (found.version, found.blocks, found.tokens, found.sequences) == ("0.24.0", 700, 11_200, 3)
    assert found.used_bytes == 900


def test_fewer_sequences_are_decoded_behind_all_of_them(vllm: StandIn) -> None:
    found = measure(replace(WORK, fewer=2), device="cpu")
    assert found.fewer == 2 and found.fewer_seconds == pytest.approx((STEP_S, STEP_S))
    assert vllm.generated == [(3, 1), (3, 9)] * 3 + [(2, 1), (2, 9)] * 2


def test_it_starts_with_random_weights_of_the_named_architecture(vllm: StandIn) -> None:
    measure(WORK, device="cpu")
    (started,) = vllm.started
    assert started == {"load_format": "dummy", "skip_tokenizer_init": True, "max_num_seqs": 3}
    assert vllm.config == {**WORK.config, "architectures": ["Qwen2ForCausalLM"]}


def test_a_vllm_without_a_cache_is_refused(vllm: StandIn) -> None:
    vllm.blocks = None
    with pytest.raises(RuntimeError, match="how many blocks"):
        measure(WORK, device="cpu")
