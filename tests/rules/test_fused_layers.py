"""Whether advice to use Liger's kernels says that their package is missing."""

import pytest

from tests.tables import HEADROOM, bases, scene
from tuner.findings import Finding
from tuner.rules.case import Case
from tuner.rules.kernels import fused_layers


def advised() -> Finding:
    it = scene(bases()["tuned"], ["actor_rollout_ref.model.use_liger=False"])
    finding = fused_layers.check(
        Case.of(it.workload, headroom=HEADROOM)
    )  # asked anew, past what is remembered
    assert finding is not None
    return finding


@pytest.mark.parametrize("installed", [True, False])
def test_a_missing_package_is_named(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_layers, "find_spec", lambda name: name if installed else None)
    monkeypatch.setattr(fused_layers, "_is_here", fused_layers._is_here.__wrapped__)  # nothing is remembered
    assert ["liger-kernel" in note for note in advised().notes] == ([] if installed else [True])
