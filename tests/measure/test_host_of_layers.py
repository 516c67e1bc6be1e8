"""Programs that record the host of Megatron-Core's layers and of calls, as far as a CPU runs them."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.memory.measured import RECORDED

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _measured_from_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1]))


@pytest.fixture
def compiled() -> ModuleType:
    from measure.megatron_layers.compiled_part import CompiledPart

    return CompiledPart()


def test_a_product_in_the_compiled_parts_place_is_the_linear_layers(compiled: ModuleType) -> None:
    states, weight, gradient = torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(2, 3, 5)
    none = (None,) * 7

    def product(*operands: object, accumulates: bool = False, out: object = None) -> torch.Tensor:
        return compiled.generic_gemm(*operands, out, *none[:6], False, None, 0, accumulates)[0]

    forward = product(weight, True, states, False)
    assert torch.allclose(forward, torch.nn.functional.linear(states, weight), atol=1e-5)
    of_states = product(weight, False, gradient, False)
    assert torch.allclose(of_states, gradient @ weight, atol=1e-5)
    of_weight = product(states, False, gradient, True)
    by_hand = gradient.reshape(-1, 5).t() @ states.reshape(-1, 4)
    assert torch.allclose(of_weight, by_hand, atol=1e-5)
    buffer = torch.ones(5, 4)
    product(states, False, gradient, True, accumulates=True, out=buffer)
    assert torch.allclose(buffer, by_hand + 1, atol=1e-5)


def test_sources_of_transformer_engine_are_changed_as_they_are_loaded() -> None:
    from measure.megatron_layers.on_the_cpu import changed

    device, assertion = (
        'x = torch.device("cuda", torch.cuda.current_device())',
        'assert x.is_cuda, "TransformerEngine needs CUDA."',
    )
    source = f"{device}\n{assertion}\n"
    assert changed(source, "transformer_engine.pytorch.utils") == 'x = torch.device("cpu")\npass\n'
    assert "def load_framework_extension" in changed("", "transformer_engine.common")
    assert changed("", "transformer_engine.pytorch") == ""


def test_kept_bytes_are_each_storage_once_without_parameters() -> None:
    from measure.megatron_layers.readings import kept_bytes

    layer = torch.nn.Linear(8, 8, bias=False)
    states = torch.randn(4, 8, requires_grad=True)
    parameters = frozenset({layer.weight.untyped_storage().data_ptr()})

    def run() -> torch.Tensor:
        hidden = layer(states)
        return hidden * hidden

    assert kept_bytes(run, without=parameters) == 2 * 4 * 8 * 4
    assert kept_bytes(run) == 2 * 4 * 8 * 4 + 8 * 8 * 4


def test_seconds_of_transformers_layers_by_direction() -> None:
    pytest.importorskip("transformers")
    from measure.megatron_layers.layers import Choices, Dimensions, transformers_layers
    from measure.megatron_layers.readings import directions

    sizes = Dimensions(layers=1)
    for norms in (False, True):
        run = transformers_layers(sizes, Choices(query_key_norms=norms, recomputes=True))
        seconds = directions(run, sizes.layers, least_s=0.0)
        assert 0 < seconds["kept_forward_s"] < seconds["kept_s"]


def test_operators_and_launches_of_a_layer_are_counted() -> None:
    pytest.importorskip("transformers")
    from measure.liger_layers.__main__ import launches
    from measure.megatron_layers.layers import Choices, Dimensions, transformers_layers

    sizes = Dimensions()
    found = launches(transformers_layers(sizes, Choices()), sizes.layers, [0])
    record = json.loads((RECORDED / "liger-host.json").read_text())["readings"][0]["rows"][0]
    assert found["operators"][:2] == pytest.approx(record["operators"][:2], abs=3)  # releases differ
    assert record["operators"][2] >= found["operators"][2] > 2 * found["operators"][1]
    assert found["triton_launches"] == [0, 0, 0]


@pytest.mark.sampled(4)
def test_calls_of_the_host_are_the_records() -> None:
    pytest.importorskip("transformers")
    from measure.host_calls.calls import read_calls
    from measure.ranks import in_processes

    found = in_processes(read_calls, "3", ranks=1, port=29790, timeout_s=120, group=True)
    record = json.loads((RECORDED / "host-calls-h200.json").read_text())
    assert isinstance(found, dict), found
    assert list(found) == list(record["readings"][0])
    assert all(value > 0 for value in found.values())


def test_notes_are_the_records() -> None:
    pytest.importorskip("transformers")
    from measure.host_calls.__main__ import NOTES as OF_CALLS
    from measure.liger_layers.__main__ import NOTES as OF_LIGER
    from measure.megatron_layers.__main__ import NOTES

    files = {
        "megatron-host.json": NOTES["host"],
        "megatron-saved.json": NOTES["kept"],
        "host-calls-h200.json": OF_CALLS,
        "liger-host.json": OF_LIGER,
    }
    for file, notes in files.items():
        recorded = json.loads((RECORDED / file).read_text())["notes"]
        assert recorded[1:] == list(notes)[1:]
        assert recorded[0].rpartition(";")[2] == notes[0].rpartition(";")[2]
