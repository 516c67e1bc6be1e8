"""A stand-in for verl, whose modules are imported as verl's are."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tests.interpreted  # noqa: F401  # the head's kernels, before anything imports them


@pytest.fixture
def fake_verl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes a package ``verl`` of a release, with modules of the given sources, that can be imported."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "verl"}
    for name in kept:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(release: str, sources: dict[str, str]) -> None:
        root = tmp_path / "verl"
        (root / "version").mkdir(parents=True)
        (root / "version" / "version").write_text(f"{release}\n")
        (root / "__init__.py").write_text(f"__version__ = {release!r}\n")
        for name, source in sources.items():
            path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            for parent in path.parents:
                if parent == root:
                    break
                (parent / "__init__.py").touch()
            path.write_text(source)
        importlib.invalidate_caches()

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "verl"]:
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the head with the policy loss, which has said none of them before."""
    from tuner.inside_verl.head.policy import loss_handoff  # torch, which few of these tests need

    lines: list[str] = []
    monkeypatch.setattr(loss_handoff, "say", lines.append)
    monkeypatch.setattr(loss_handoff.WAY, "_said", set())
    monkeypatch.setattr(loss_handoff.WAY, "closed", False)
    return lines
