"""Shapes whose parameters and activations were counted: what they hold, and what is refused."""

from collections.abc import Callable
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests import workloads  # noqa: E402
from tests.trace.configs import KNOWN, UNKNOWN, kept_counts, write  # noqa: E402
from tuner.architectures import model_types  # noqa: E402
from tuner.dtypes import DType  # noqa: E402
from tuner.errors import InputError, TunerError, UnsupportedError  # noqa: E402
from tuner.memory.layer import activations  # noqa: E402
from tuner.model_shape import LogitCopies, ModelShape  # noqa: E402
from tuner.models import find_config, find_model  # noqa: E402
from tuner.models.adapters import adapter_parameters  # noqa: E402
from tuner.rules.case import Case  # noqa: E402
from tuner.rules.kernels import fused_layers  # noqa: E402
from tuner.trace import layers, trace_model  # noqa: E402
from tuner.trace.count import LayerCount  # noqa: E402
from tuner.trace.kv_cache import LayerCache  # noqa: E402
from tuner.trace.limits import expect_counted  # noqa: E402
from tuner.traced_layers import TracedModel  # noqa: E402
from tuner.workload import Backend, Checkpointing, Engine, Lora, Workload  # noqa: E402

pytestmark = [pytest.mark.sampled(6), pytest.mark.slow]

Trace = Callable[..., ModelShape]


@pytest.fixture
def trace(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept_counts(tmp_path_factory)))

    def of(model_type: str, **changes: Any) -> ModelShape:
        return trace_model(find_config(str(write(tmp_path / "model", model_type, **changes))))

    return of


@pytest.fixture
def uncounted(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """As ``trace``, but activations are not counted, which takes nearly all of its time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "uncounted"))
    monkeypatch.setattr(layers, "count_layer", in_proportion)
    return trace


def in_proportion(*_: Any, tokens: int, **__: Any) -> LayerCount:
    return LayerCount(
        tokens=tokens,
        saved_bytes=tokens,
        forward_peak_bytes=tokens,
        backward_peak_bytes=tokens,
        recomputed_peak_bytes=tokens,
    )


def counts(shape: ModelShape) -> TracedModel:
    assert shape.traced is not None
    return shape.traced


def built_parameters(model_type: str, **changes: Any) -> int:
    """All parameters of the model that transformers builds, without the code under test."""
    config = transformers.AutoConfig.for_model(model_type, **(UNKNOWN | KNOWN)[model_type] | changes)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


# -- unknown types -------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("model_type", UNKNOWN)
def test_an_unknown_type_has_the_parameters_that_transformers_builds(
    model_type: str, uncounted: Trace
) -> None:
    assert model_type not in model_types()
    shape = uncounted(model_type)
    assert shape.parameters == built_parameters(model_type)
    assert shape.architecture == model_type
    assert shape.source.endswith(
        f"traced with transformers {transformers.__version__} and torch {torch.__version__}"
    )


@pytest.mark.sampled(28)
@pytest.mark.parametrize("model_type", [*UNKNOWN, *KNOWN])
def test_the_activations_of_every_type_are_counted(model_type: str, trace: Trace) -> None:
    for kind in counts(trace(model_type)).kinds:
        assert 0 < kind.trained.forward <= kind.trained.saved


def test_units_are_counted_apart(uncounted: Trace) -> None:
    tied, untied = uncounted("starcoder2"), uncounted("starcoder2", tie_word_embeddings=False)
    assert (tied.tied_embeddings, untied.tied_embeddings) == (True, False)
    assert tied.head_parameters == 0
    assert untied.head_parameters == untied.embedding_parameters == 4096 * 256
    assert tied.final_norm_parameters == 2 * 256  # a LayerNorm with bias
    attention = 2 * 256 * 256 + 2 * 256 * 64 + 256 + 2 * 64 + 256
    mlp = 2 * 256 * 512 + 512 + 256
    assert tied.layer_parameters(0) == attention + mlp + 4 * 256


@pytest.mark.sampled(12)
def test_saved_bytes_are_those_of_the_layer_by_hand(trace: Trace) -> None:
    """StarCoder2, whose LayerNorm and biases no formula knows."""
    norms = 2 * (4 * 256 + 4 + 4)  # inputs in float32, means and deviations
    inputs = 4 * 2 * 256  # of queries, keys, values and first projection: each casts the norm's output anew
    attention = 2 * (256 + 64 + 64 + 256) + 4 * 8  # queries, keys, values, output; sums of the heads
    mlp = 2 * (512 + 512)  # first projection and its activation
    constant = 2 * 2 * 256 * 4 + 32  # weights and biases of the norms in float32, and the lengths
    saved = counts(trace("starcoder2")).layer(0).trained.saved
    assert saved == norms + inputs + attention + mlp + ceil(constant / 4096)


@pytest.mark.sampled(16)
def test_layers_that_differ_are_counted_apart(trace: Trace) -> None:
    shape = trace("cohere2")
    assert counts(shape).kind_of_layer == (0, 0, 0, 1)
    assert (shape.sliding_window, shape.windowed_layers) == (1024, 3)
    sliding, full = counts(shape).kinds
    assert sliding.trained.forward > full.trained.forward  # only these have rotary embeddings


def test_experts_rest(uncounted: Trace) -> None:
    shape = uncounted("olmoe")
    assert shape.moe is not None
    assert (shape.moe.experts, shape.moe.experts_per_token) == (16, 4)
    assert shape.one_expert_parameters == 3 * 256 * 512
    idle = shape.parameters - shape.embedding_parameters - shape.active_parameters
    assert idle == 4 * 12 * shape.one_expert_parameters
    assert uncounted("granitemoe").one_expert_parameters == 3 * 256 * 512  # under another name


def test_the_kv_cache_is_what_the_layers_cache(uncounted: Trace) -> None:
    assert uncounted("granite").kv_values_per_token == 2 * 2 * 32
    assert uncounted("minicpm3").kv_values_per_token == 64 + 16  # compressed


def test_what_the_model_makes_of_its_logits(uncounted: Trace) -> None:
    assert uncounted("starcoder2").logit_copies == LogitCopies()
    assert uncounted("granite").logit_copies == LogitCopies(saved=0, forward=1, backward=1)


# -- types that the formulas know ----------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("model_type", KNOWN)
def test_a_known_type_has_the_parameters_of_the_formulas(
    model_type: str, uncounted: Trace, tmp_path: Path
) -> None:
    traced = uncounted(model_type)
    derived = find_model(str(tmp_path / "model"))
    assert traced.traced is not None and derived.traced is None
    assert traced.parameters == derived.parameters
    assert traced.active_parameters == derived.active_parameters
    assert traced.embedding_parameters == derived.embedding_parameters
    assert traced.head_parameters == derived.head_parameters
    assert traced.final_norm_parameters == derived.final_norm_parameters
    for layer in range(derived.layers):
        assert traced.layer_parameters(layer) == derived.layer_parameters(layer)
    assert traced.logit_copies == derived.logit_copies
    assert traced.kv_values_per_token == derived.kv_values_per_token


@pytest.mark.sampled(16)
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3", "gemma2"])
def test_a_known_type_has_the_activations_of_the_formulas(
    model_type: str, trace: Trace, tmp_path: Path
) -> None:
    # As wide as a real model: a narrow one's peak moves elsewhere under adapters of a high rank.
    sizes = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16, "head_dim": 128}
    traced = trace(model_type, **sizes)
    derived = find_model(str(tmp_path / "model"))
    trained = workloads.fsdp_engine(gpus=8)
    engines = [trained, *(replace(trained, lora=Lora(rank=rank, parameters=1)) for rank in (1, 8, 200))]
    engines += [replace(engine, checkpointing=Checkpointing.NONE) for engine in engines]
    engines += [replace(engine, packed=False) for engine in engines]
    for engine in engines:
        of_the_model = (
            activations.all_layers_saved_bytes,
            activations.largest_layer_forward_bytes,
            activations.final_norm_bytes,
        )
        of_a_layer = (activations.layer_forward_bytes, activations.gradients_in_flight_bytes)
        sizes: list[Callable[[ModelShape, Engine], int]] = [*of_the_model]
        sizes += [partial(size, layer=layer) for layer in range(derived.layers) for size in of_a_layer]
        for size in sizes:
            # What does not grow with the tokens is spread over 4,096 of them: some bytes per layer.
            within = pytest.approx(size(derived, engine), rel=2e-4, abs=16)
            assert size(traced, engine) == within, size


# -- what a trace does not hold for --------------------------------------------------------


def job(shape: ModelShape, **engine: Any) -> Workload:
    base = workloads.grpo_0_5b()
    return replace(base.with_actor_engine(**engine), model=shape)


def test_a_job_as_counted_is_accepted(trace: Trace) -> None:
    expect_counted(job(trace("starcoder2")))
    expect_counted(job(trace("starcoder2"), lora=Lora(rank=8, parameters=1)))
    expect_counted(job(find_model("Qwen2.5-0.5B"), fused_layers=True))


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ({"fused_layers": True}, "Liger"),
        ({"backend": Backend.MEGATRON}, "Megatron"),
        ({"compute_dtype": DType.FLOAT32}, "float32"),
        ({"parallel": replace(workloads.fsdp_engine(gpus=8).parallel, ulysses=4)}, "key heads"),
    ],
)
def test_a_job_that_was_not_counted_is_refused(engine: dict[str, Any], says: str, trace: Trace) -> None:
    with pytest.raises(UnsupportedError, match=says):
        expect_counted(job(trace("starcoder2"), **engine))


def test_adapters_on_layers_that_take_none_are_refused(trace: Trace) -> None:
    shape = trace("starcoder2")
    bare = replace(counts(shape), kinds=tuple(replace(kind, adapted=None) for kind in counts(shape).kinds))
    shape = replace(shape, traced=bare)
    expect_counted(job(shape))
    with pytest.raises(UnsupportedError, match="adapters"):
        expect_counted(job(shape, lora=Lora(rank=8, parameters=1)))


def test_adapters_sit_on_the_linear_layers_that_were_found(trace: Trace, tmp_path: Path) -> None:
    layer = 8 * sum((256 + 256, 256 + 64, 256 + 64, 256 + 256, 256 + 512, 512 + 256))
    assert adapter_parameters(trace("starcoder2"), rank=8, target="all-linear", experts=False) == 4 * layer
    only = adapter_parameters(trace("starcoder2"), rank=8, target=["c_fc"], experts=False)
    assert only == 4 * 8 * (256 + 512)


# -- what cannot be traced -----------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("model_type", "changes", "says"),
    [
        (
            "mamba2",
            {"num_hidden_layers": 2, "hidden_size": 64, "head_dim": 16, "num_heads": 8},
            "keeps a state",
        ),
        ("gptj", {"n_layer": 2, "n_embd": 64, "n_head": 4, "rotary_dim": 8}, "intermediate_size: is missing"),
        (
            "doge",
            {
                "hidden_size": 64,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "keep_window_size": 10**6,
            },
            "not proportional",
        ),
        ("bart", {}, "encoder-decoder"),
        ("bert", {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}, "in no list"),
        ("made_up", {}, "does not implement models of type 'made_up'"),
        ("granite", {"num_hidden_layers": 10**9}, "at most 10000 layers"),
        ("granite", {"hidden_size": "wide"}, "cannot be traced"),
        ("granite", {"num_attention_heads": 0}, "cannot be traced"),
    ],
)
def test_what_cannot_be_traced_is_refused(
    model_type: str, changes: dict[str, Any], says: str, trace: Trace, tmp_path: Path
) -> None:
    with pytest.raises(TunerError, match=says) as caught:
        trace(model_type, **changes)
    assert str(tmp_path / "model" / "config.json") in str(caught.value)


def test_a_count_off_the_line_is_refused(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))

    def quadratic(*_: Any, tokens: int, **__: Any) -> LayerCount:
        return LayerCount(
            tokens=tokens,
            saved_bytes=tokens**2,
            forward_peak_bytes=tokens,
            backward_peak_bytes=tokens,
            recomputed_peak_bytes=tokens,
        )

    monkeypatch.setattr(layers, "count_layer", quadratic)
    with pytest.raises(UnsupportedError, match="saved bytes of decoder layer 0 are not proportional"):
        trace("granite")


def test_heads_that_the_layers_do_not_cache_are_refused(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tuner.trace import model

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    caches = model.layer_caches

    def halved(*arguments: Any) -> tuple[LayerCache, ...]:
        return tuple(replace(cache, key_heads=1, value_heads=1) for cache in caches(*arguments))

    monkeypatch.setattr(model, "layer_caches", halved)
    with pytest.raises(InputError, match="2 heads of 32 are stated, the layers cache 1 of 32"):
        trace("granite")


# -- a checkpoint's own code ---------------------------------------------------------------


def with_own_code(folder: Path, marker: Path) -> dict[str, Any]:
    """Code beside the configuration that leaves a trace of having run."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("configuration_own", "modeling_own"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Own: pass\n")
    return {"auto_map": {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}}


def test_own_code_is_refused_and_not_run(trace: Trace, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    own = with_own_code(tmp_path / "model", marker)
    with pytest.raises(UnsupportedError, match="its auto_map names is never executed"):
        trace("made_up", **own)
    assert not marker.exists()


def test_own_code_of_a_type_that_transformers_has_is_left_alone(uncounted: Trace, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    shape = uncounted("granite", **with_own_code(tmp_path / "model", marker))
    assert "its auto_map is not used" in shape.source
    assert shape.parameters == built_parameters("granite")
    assert not marker.exists()


@pytest.mark.sampled(8)
def test_kernels_and_formats_of_the_file_are_left_alone(trace: Trace) -> None:
    plain = trace("granite")
    foreign = {
        "_attn_implementation": "someone/kernel",
        "attn_implementation": "someone/kernel",
        "quantization_config": {"quant_method": "fp8"},
        "torch_dtype": "float32",
    }
    changed = trace("granite", **foreign)
    assert changed.traced == plain.traced


def test_no_rule_proposes_kernels_that_were_not_counted(trace: Trace) -> None:
    shape = trace("starcoder2")
    assert fused_layers.check(Case.of(job(shape), headroom=0.1)) is None
    assert fused_layers.check(Case.of(job(find_model("Qwen2.5-0.5B")), headroom=0.1)) is not None
