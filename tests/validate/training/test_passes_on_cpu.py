"""Training passes of a tiny model, really run: what they compute is right for every head and both FSDPs."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from msgspec import structs
from torch.nn import functional

from tests.memory.test_accuracy import PASS
from tuner.accuracy import MeasuredCase, workload_of
from tuner.models import find_config, shape_from_config
from tuner.validate.head.worker.cross_entropy import cross_entropy_loss
from tuner.validate.head.worker.heads import from_logits
from tuner.validate.training.passes import planned_passes
from tuner.validate.training.settings import ModelSettings, PassFailed, PassFigures, PassSettings
from tuner.validate.training.worker import attention, measure, verl_engine
from tuner.validate.training.worker.engine import TrainingEngine
from tuner.validate.training.worker.model import empty_model
from tuner.workload import Backend, Checkpointing, HeadKind, OutputHead, Scaling

pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:torch"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]

CPU = torch.device("cpu")
TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 512,
}
CONFIG: dict[str, Any] = {**find_config("Qwen2.5-1.5B").values, **TINY}


@pytest.fixture(autouse=True)
def _no_group_is_left() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def settings(**changes: Any) -> PassSettings:
    shape = shape_from_config(CONFIG, name="tiny", source="a test")
    case = MeasuredCase.model_validate(
        PASS | {"world_size": 1, "tokens": 64, "sequence_length": 16, "use_torch_compile": False}
    )
    planned = planned_passes(workload_of(case, shape), processes=1)
    found = next(each for each in planned if each.training).settings
    return replace(found, **{"temperature": 1.0, "micro_batches": 1} | changes)


def engine_of(**changes: Any) -> Any:
    return structs.replace(settings().engine, **changes)


HEAD = OutputHead(kind=HeadKind.LOGITS, compiled=False)
PASSES = {
    "log-probabilities": settings(training=False, head=HEAD),
    "log-probabilities and entropy": settings(training=False, entropy=True, head=HEAD),
    "update": settings(head=HEAD),
    "two micro-batches": settings(head=HEAD, micro_batches=2, first_tokens=16),
    "nothing recomputed": settings(head=HEAD, engine=engine_of(checkpointing=Checkpointing.NONE)),
    "entropy": settings(head=HEAD, entropy=True),
    "entropy in chunks": settings(head=structs.replace(HEAD, chunk_tokens=24), entropy=True),
    "entropy recomputed": settings(head=structs.replace(HEAD, checkpointed=True), entropy=True),
    "temperature copies": settings(head=structs.replace(HEAD, scaling=Scaling.COPY), temperature=0.7),
    "temperature in place": settings(head=structs.replace(HEAD, scaling=Scaling.IN_PLACE), temperature=0.7),
    "row by row": settings(head=structs.replace(HEAD, fused_cross_entropy=False)),
    "fused": settings(head=OutputHead(kind=HeadKind.FUSED_TORCH), entropy=True),
    "offloaded": settings(head=HEAD, engine=engine_of(param_offload=True, optimizer_offload=True)),
    "deferred": settings(head=HEAD, micro_batches=2, engine=engine_of(deferred_gradient_sync=True)),
}


def measured(passes: Sequence[PassSettings], **changes: Any) -> tuple[PassFigures | PassFailed, ...]:
    return measure.measure_passes(ModelSettings(config=CONFIG, **changes), passes, 1, device="cpu")


@pytest.mark.sampled(16)
@pytest.mark.parametrize("backend", [Backend.FSDP2, Backend.FSDP])
def test_every_pass_comes_to_an_end(backend: Backend) -> None:
    passes = [replace(each, engine=structs.replace(each.engine, backend=backend)) for each in PASSES.values()]
    for name, found in zip(PASSES, measured(passes), strict=True):
        assert isinstance(found, PassFigures), f"{name}: {found}"
        assert found.allocated_before_bytes is None
        assert len(found.seconds) == 1
        assert found.seconds[0] > found.once_seconds[0] >= 0


@pytest.mark.sampled(6)
def test_a_critic_and_a_reference_under_a_cpu_offload_policy() -> None:
    (critic,) = measured([settings(head=OutputHead(kind=HeadKind.VALUE))], critic=True)
    assert isinstance(critic, PassFigures)
    (reference,) = measured([settings(training=False, head=HEAD, engine=engine_of(streamed_offload=True))])
    assert isinstance(reference, PassFigures)


def test_a_failed_pass_is_the_last_and_says_why() -> None:
    wrong = replace(PASSES["update"], tokens=0)  # no sequence at all
    first, failed = measured([PASSES["update"], wrong, PASSES["update"]])
    assert isinstance(first, PassFigures)
    assert isinstance(failed, PassFailed)
    assert not failed.out_of_memory


def test_a_model_that_cannot_be_built_says_so() -> None:
    config = {**CONFIG, "model_type": "nothing-known"}
    (failed,) = measure.measure_passes(ModelSettings(config=config), [PASSES["update"]], 1, device="cpu")
    assert isinstance(failed, PassFailed)
    assert "before the first pass" in failed.message


@pytest.mark.sampled(6)
def test_a_pass_that_would_outlast_the_time_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one takes long by the clock, so the second does not begin; without a limit it does."""
    now = [0.0]
    monkeypatch.setattr(measure.time, "monotonic", lambda: now[0])
    run = TrainingEngine.run

    def slow(self: TrainingEngine, *arguments: Any) -> float:
        now[0] += 10.0
        return run(self, *arguments)

    monkeypatch.setattr(TrainingEngine, "run", slow)
    model, one = ModelSettings(config=CONFIG), PASSES["update"]
    assert len(measure.measure_passes(model, [one, one, one], 1, 55.0, device="cpu")) == 2
    assert len(measure.measure_passes(model, [one, one, one], 1, 49.0, device="cpu")) == 1


def test_buffers_are_what_the_model_computes_and_parameters_are_not_made() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    built = empty_model(ModelSettings(config=CONFIG), torch.float32)
    assert all(parameter.is_meta for parameter in built.parameters())
    values = dict(CONFIG)
    whole = AutoModelForCausalLM.from_config(AutoConfig.for_model(values.pop("model_type"), **values))
    expected = dict(whole.named_buffers())
    assert expected
    for name, buffer in built.named_buffers():
        torch.testing.assert_close(buffer, expected[name], check_dtype=False)
    assert torch.nn.Linear(1, 1).weight.device.type == "cpu"  # nothing else is changed


def test_no_pass_begins_once_the_time_is_up() -> None:
    model = ModelSettings(config=CONFIG)
    assert measure.measure_passes(model, [PASSES["update"]], 1, 0.0, device="cpu") == ()


@pytest.mark.parametrize("backend", [Backend.FSDP2, Backend.FSDP])
def test_sharded_passes_compute_what_the_model_does(backend: Backend) -> None:
    """Packed sequences do not see each other, and FSDP changes nothing but roundings."""
    measure.join_alone(CPU)
    one = settings(training=False, head=HEAD, engine=engine_of(backend=backend))
    engine = TrainingEngine(ModelSettings(config=CONFIG), one.built, CPU)
    (batch,) = engine.batch(one)
    with torch.no_grad():
        (log_probs,) = engine._forward(one, batch)
        apart = []
        for row in batch.input_ids.view(4, 16):
            single = replace(one, tokens=16)
            (alone,) = engine.batch(single)
            alone = replace(alone, input_ids=row[None])
            apart.append(engine._forward(single, alone)[0])
    # The last token of a sequence is asked for the first of the next one.
    inside = torch.arange(64).view(4, 16)[:, :-1].reshape(-1)
    torch.testing.assert_close(log_probs[inside], torch.cat(apart)[inside], rtol=2e-2, atol=2e-2)


def test_an_update_moves_the_weights_and_keeps_tied_ones_one() -> None:
    measure.join_alone(CPU)
    for backend in (Backend.FSDP2, Backend.FSDP):
        update = replace(PASSES["update"], engine=engine_of(backend=backend))
        engine = TrainingEngine(ModelSettings(config=CONFIG), update.built, CPU)
        shape = shape_from_config(CONFIG, name="tiny", source="a test")
        parameters = list(engine._module.parameters())
        assert sum(each.numel() for each in parameters) == shape.parameters
        before = [each.detach().clone() for each in parameters]
        engine.run(update, engine.batch(update))
        after = list(engine._module.parameters())
        assert any(not torch.equal(one, two) for one, two in zip(before, after, strict=True))
        assert all(each.grad is None for each in after)


def test_sequences_see_themselves_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 9, 8, generator=generator) for heads in (4, 2, 2))
    module = torch.nn.Identity()
    with attention.packed([4, 5], CPU):
        found, _ = attention._attend(module, query, key, value, None)
    for part in (slice(0, 4), slice(4, 9)):
        expected = functional.scaled_dot_product_attention(
            query[:, :, part], key[:, :, part], value[:, :, part], is_causal=True, enable_gqa=True
        )
        torch.testing.assert_close(found[:, part], expected.transpose(1, 2))
    with pytest.raises(RuntimeError, match="outside"):
        attention._attend(module, query, key, value, None)


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_cross_entropy_is_torchs_and_writes_over_the_logits(device: str, inplace: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 4099, generator=generator).to(device)
    labels = torch.randint(4099, (7,), generator=generator).to(device)
    ours, reference = (logits.clone().requires_grad_() for _ in range(2))
    given = ours * 1.0
    loss, _ = cross_entropy_loss(given, labels, inplace_backward=inplace)
    expected = functional.cross_entropy(reference, labels, reduction="none")
    torch.testing.assert_close(loss, expected)
    upstream = torch.linspace(-1, 1, 7, device=device)
    loss.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(ours.grad, reference.grad)
    assert torch.equal(given, ours) is not inplace


@pytest.mark.parametrize("scaling", list(Scaling))
@pytest.mark.parametrize("chunk", [None, 3])
def test_a_head_gives_log_probabilities_and_entropy(scaling: Scaling, chunk: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 8, 50, generator=generator)
    labels = torch.randint(50, (8,), generator=generator)
    temperature = 1.0 if scaling is Scaling.NONE else 0.5
    head = OutputHead(kind=HeadKind.LOGITS, compiled=False, scaling=scaling, chunk_tokens=chunk)
    returned = type("Returned", (), {"logits": logits.clone()})()
    found, entropy = from_logits(returned, labels, torch.full((8,), temperature), head, entropy=True)
    distribution = torch.distributions.Categorical(logits=logits[0] / temperature)
    torch.testing.assert_close(found, distribution.log_prob(labels))
    torch.testing.assert_close(entropy, distribution.entropy())


def test_a_verl_without_its_engine_leaves_the_passes_to_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verl_engine, "version", lambda name: "0.9.1")
    monkeypatch.setitem(sys.modules, "verl", None)  # as where importing it fails
    assert not verl_engine.is_here([PASSES["update"]])
    (found,) = measured([PASSES["update"]])
    assert isinstance(found, PassFigures)
    assert found.engine == "tuner"


def test_passes_of_two_heads_are_not_for_one_engine_of_verl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verl_engine, "version", lambda name: "0.9.1")
    monkeypatch.setattr(verl_engine, "import_module", lambda name: None)
    assert verl_engine.is_here([PASSES["update"], PASSES["entropy"]])
    assert not verl_engine.is_here([PASSES["update"], PASSES["entropy in chunks"]])
    assert not verl_engine.is_here([PASSES["fused"]])
    monkeypatch.setattr(verl_engine, "version", lambda name: "0.7.1")
    assert not verl_engine.is_here([PASSES["update"]])
