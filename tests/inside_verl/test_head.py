"""The head in models of transformers, as verl's workers call them, against verl's formula in PyTorch."""

import importlib
import sys
from collections.abc import Callable, Iterator
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from tests.inside_verl.stand_in import SOURCES
from tuner.inside_verl import verl_process
from tuner.inside_verl.head import patches
from tuner.inside_verl.head.forward import next_tokens
from tuner.inside_verl.head.megatron import cross_entropy
from tuner.inside_verl.head.patches import PATCHES
from tuner.inside_verl.patching import apply_when_imported

TEMPERATURE = 0.7
SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


@pytest.fixture
def worker(fake_verl: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A worker of verl that imported its patches before ours; afterwards the models are as before."""
    fake_verl("0.9.1", SOURCES)
    module = importlib.import_module("verl.workers.engine.fsdp.transformer_impl")
    monkeypatch.setattr(verl_process, "say", lambda line: None)
    kept = {kind: kind.forward for kind in (*KINDS.values(), Seeing, ScalingInPlace)}
    apply_when_imported(PATCHES, lambda *_: None)
    yield module
    for kind, forward in kept.items():
        kind.forward = forward


class Seeing(nn.Module):
    """A model that adds images to its embeddings, and that verl's dense forward pass would not show them."""

    config = SimpleNamespace(model_type="kimi_vl")

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(61, 32)
        self.head = nn.Linear(32, 61, bias=False)

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, input_ids: Tensor, pixel_values: Tensor, return_dict: bool = True, **_: Any) -> Any:
        return SimpleNamespace(logits=self.head(self.embedding(input_ids) + pixel_values))


class ScalingInPlace(Seeing):
    """The same, whose logits are scaled where they lie."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor, return_dict: bool = True, **_: Any) -> Any:
        return SimpleNamespace(logits=self.head(self.embedding(input_ids) + pixel_values).mul_(0.25))


KINDS = {
    "untied": transformers.LlamaForCausalLM,
    "tied": transformers.Qwen2ForCausalLM,
    "capped": transformers.Gemma2ForCausalLM,
    "scaled": transformers.CohereForCausalLM,
    "biased": transformers.PhiForCausalLM,
}


def model_of(kind: str) -> Any:
    torch.manual_seed(3)
    changes = {"tied": {"tie_word_embeddings": True}, "capped": {"final_logit_softcapping": 0.05}}
    config = KINDS[kind].config_class(
        **SIZES, pad_token_id=0, attn_implementation="eager", **changes.get(kind, {})
    )
    model = KINDS[kind](config)
    if kind == "biased":
        nn.init.normal_(model.lm_head.bias)
    return model


def by_verl(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The formula of verl 0.9.1, ``verl/utils/experimental/torch_functional.py``."""
    logits = logits.float() / TEMPERATURE
    entropy = torch.logsumexp(logits, dim=-1) - torch.sum(logits.softmax(dim=-1) * logits, dim=-1)
    return logits.log_softmax(dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1), entropy


def loss_of(log_probs: Tensor, entropy: Tensor) -> Tensor:
    weight = torch.linspace(-1, 1, log_probs.numel()).view_as(log_probs).clamp(min=0)  # half is masked
    return (weight * (log_probs + 0.3 * entropy)).sum()


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    grads = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    return {name: getattr(grad, "full_tensor", grad.clone)() for name, grad in grads.items()}


def tokens() -> dict[str, Tensor]:
    ids = torch.randint(1, 61, (1, 12), generator=torch.Generator().manual_seed(5))
    return {"input_ids": ids, "position_ids": torch.arange(12)[None]}


def check(model: Any, call: Callable[..., Any], shown: dict[str, Tensor]) -> None:
    """Results and gradients of a call with the head are those of verl's formula on the model's own logits."""
    labels = shown["input_ids"].roll(-1, dims=-1)
    expected = by_verl(call(**shown).logits, labels)
    wanted = gradients(model, loss_of(*expected))
    output = call(**shown, temperature=TEMPERATURE, return_dict=True)
    torch.testing.assert_close((output.log_probs, output.entropy), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        gradients(model, loss_of(output.log_probs, output.entropy)), wanted, rtol=1e-5, atol=1e-5
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("setting", ["recompute", "saved"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_gives_what_verl_computes_from_its_logits(
    kind: str, setting: str, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_HEAD", setting)
    model = model_of(kind)
    logits: list[tuple[int, ...]] = []
    model.lm_head.register_forward_hook(lambda layer, args, out: logits.append(tuple(out.shape)))
    worker.apply_monkey_patch(model=model, use_fused_kernels=True, fused_kernels_backend="torch")
    worker.apply_monkey_patch(model=model, use_fused_kernels=True)
    check(model, model, {**tokens(), "use_cache": torch.tensor(False)})
    leanly = kind in ("untied", "tied")
    assert logits[1:] == [(1, 12, 2)] if leanly else logits[-1] == (1, 12, 61)


def test_an_old_torch_keeps_verls_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setenv("TUNER_HEAD", "policy")  # which wants all of them
    monkeypatch.setattr(patches, "say", said.append)
    for release, there in (("2.7.1+cu126", False), ("2.8.0", True), (None, True)):
        patches._runs_here.cache_clear()
        monkeypatch.setattr(patches, "installed_version", lambda package, release=release: release)
        assert [patch.wanted() for patch in PATCHES] == [there] * len(PATCHES)
    patches._runs_here.cache_clear()
    assert said == ["the head needs torch 2.8 or newer, and this is 2.7.1+cu126: verl's own heads stay"]


def test_a_model_without_fused_kernels_stays_as_it_is(worker: Any) -> None:
    before = KINDS["untied"].forward
    worker.apply_monkey_patch(model=model_of("untied"))
    assert KINDS["untied"].forward is before


@pytest.mark.parametrize("kind", [Seeing, ScalingInPlace])
def test_images_reach_a_model_that_verl_has_no_fused_head_for(kind: type[Seeing], worker: Any) -> None:
    torch.manual_seed(3)
    model = kind()
    worker.apply_monkey_patch(model=model, use_fused_kernels=True)
    check(model, model, {"input_ids": tokens()["input_ids"], "pixel_values": torch.randn(1, 12, 32)})


def test_a_forward_pass_on_the_model_itself_gets_the_head(worker: Any) -> None:
    model = model_of("untied")
    model.forward = MethodType(KINDS["untied"].forward, model)  # as Liger does
    worker.apply_monkey_patch(model=model, use_fused_kernels=True)
    check(model, model, tokens())


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # asked for by the compiler
def test_a_compiled_model_gives_the_same(worker: Any) -> None:
    torch.manual_seed(3)
    model = Seeing()
    worker.apply_monkey_patch(model=model, use_fused_kernels=True)
    compiled = torch.compile(model, backend="eager")
    check(model, compiled, {"input_ids": tokens()["input_ids"], "pixel_values": torch.randn(1, 12, 32)})


def test_an_untied_projection_that_fsdp2_shards_by_itself(worker: Any) -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = model_of("untied")
        worker.apply_monkey_patch(model=model, use_fused_kernels=True)
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        fully_shard(model.lm_head, mesh=mesh)
        fully_shard(model, mesh=mesh)
        check(model, model, tokens())
    finally:
        torch.distributed.destroy_process_group()


def test_the_last_position_of_a_rank_predicts_the_first_token_of_the_next(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ulysses = importlib.import_module("verl.utils.ulysses")
    whole = tokens()["input_ids"]
    shards = whole.split(6, dim=1)
    rolled = whole.roll(-1, dims=-1).split(6, dim=1)

    def gather(into: list[Tensor], own: Tensor, group: Any) -> None:
        for target, shard in zip(into, shards, strict=True):
            target.copy_(shard[..., 0])

    monkeypatch.setattr(torch.distributed, "all_gather", gather)
    monkeypatch.setattr(ulysses, "ranks", 2)
    for rank in range(2):
        monkeypatch.setattr(ulysses, "rank", rank)
        assert next_tokens(shards[rank], 6, None).equal(rolled[rank])  # a model that sees its own tokens
        assert next_tokens(whole, 6, None).equal(rolled[rank])  # one that slices its embeddings
        assert next_tokens(shards[rank], 6, whole[:, :6]).equal(whole[:, :6])


def test_megatrons_call_gives_flat_results(worker: Any) -> None:
    assert "verl.utils.kernel.linear_cross_entropy" not in sys.modules
    hidden, weight = torch.randn(6, 1, 32), torch.randn(61, 32)
    labels = torch.randint(61, (1, 6))
    log_probs, entropy = cross_entropy(hidden, weight, labels, TEMPERATURE, "none", None)
    expected = by_verl(hidden.view(6, 32) @ weight.T, labels.view(6))
    torch.testing.assert_close((log_probs, entropy), expected, rtol=1e-5, atol=1e-5)
