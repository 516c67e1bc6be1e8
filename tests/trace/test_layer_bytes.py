"""What becomes of counts at several numbers of tokens: every quantity keeps its own slope."""

from typing import Any

import pytest

from tuner.trace import layers
from tuner.trace.count import LayerCount
from tuner.traced_layers import LayerBytes

AT_RANK_0 = LayerBytes(saved=3, forward=5, backward=11, recomputed=17)
PER_RANK = LayerBytes(saved=2, forward=1, backward=7, recomputed=4)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def count_layer(*_: Any, tokens: int, lora_rank: int, **__: Any) -> LayerCount:
        per_token = AT_RANK_0.at_rank(PER_RANK, lora_rank)
        return LayerCount(
            tokens=tokens,
            saved_bytes=tokens * per_token.saved,
            forward_peak_bytes=tokens * per_token.forward,
            backward_peak_bytes=tokens * per_token.backward,
            recomputed_peak_bytes=tokens * per_token.recomputed,
        )

    monkeypatch.setattr(layers, "count_layer", count_layer)


def test_each_count_gives_its_own_bytes_per_token() -> None:
    assert layers.trained_bytes(None, 0) == AT_RANK_0


def test_adapters_add_to_each_count_by_their_rank() -> None:
    assert layers.adapted_bytes(None, 0) == (AT_RANK_0, PER_RANK)
