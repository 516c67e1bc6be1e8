"""Whether advice to use Liger's kernels says that their package is missing."""

import pytest

from tests.tables import bases, rule_findings, scene
from tuner.findings import Finding
from tuner.rules.kernels import fused_layers


def advised() -> Finding:
    it = scene(bases()["tuned"], ["actor_rollout_ref.model.use_liger=False"])
    return next(finding for finding in rule_findings(it) if finding.rule.name == "fused-layers")


@pytest.mark.parametrize("installed", [True, False])
def test_a_missing_package_is_named(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_layers, "find_spec", lambda name: name if installed else None)
    assert ["liger-kernel" in note for note in advised().notes] == ([] if installed else [True])
