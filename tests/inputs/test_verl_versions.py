"""Which release a configuration rests on."""

import importlib.metadata
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tuner import versions
from tuner.errors import InputError
from tuner.trainers.verl.releases import BUNDLED, RELEASES
from tuner.versions import at_least


@pytest.mark.parametrize(
    ("requested", "version", "reason"),
    [
        ("0.9.1", "0.9.1", "asked for 0.9.1"),
        ("v0.7.1", "0.7.1", "asked for v0.7.1"),
        ("0.7", "0.7.1", "asked for 0.7"),
        ("0.7.0", "0.7.0", "asked for 0.7.0"),
        ("0.7.2", "0.7.1", "asked for 0.7.2; 0.7.1 is the nearest older bundled release"),
        ("0.8.2", "0.8.0", "asked for 0.8.2; 0.8.0 is the nearest older bundled release"),
        ("99.0", BUNDLED[-1], f"asked for 99.0; {BUNDLED[-1]} is the nearest older bundled release"),
        ("0.3.0.post1", "0.3.0.post1", "asked for 0.3.0.post1"),
        ("0.3.0", "0.3.0.post1", "asked for 0.3.0"),
        ("0.2.0", "0.3.0.post1", "asked for 0.2.0; 0.3.0.post1 is the oldest bundled release"),
        ("0.8.0.dev0", "0.8.0", "asked for 0.8.0.dev0"),
        ("0.9.1rc2", "0.9.1", "asked for 0.9.1rc2"),
    ],
)
def test_requested(requested: str, version: str, reason: str) -> None:
    choice = RELEASES.choose(requested)
    assert (choice.version, choice.reason) == (version, reason)
    assert choice.unbundled == (requested if "bundled" in reason else None)


@pytest.mark.parametrize("requested", ["main", "", "latest", "0.9.1,0.8.0"])
def test_nonsense(requested: str) -> None:
    with pytest.raises(InputError, match=r"not a verl release; bundled releases: 0\.3\.0\.post1"):
        RELEASES.choose(requested)


def test_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(importlib.metadata, "version", {"verl": "0.7.1.post2"}.__getitem__)
    assert RELEASES.choose(None).version == "0.7.1"
    assert RELEASES.choose(None).reason == "verl 0.7.1.post2 is installed"


def test_a_checkout_that_was_built_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its folder is the first that Python takes packages from where ``python -m tuner`` is called in it."""
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "__init__.py").touch()
    (tmp_path / "verl.egg-info").mkdir()
    told = "Metadata-Version: 2.1\nName: verl\nVersion: 0.5.0.dev0\n"
    (tmp_path / "verl.egg-info" / "PKG-INFO").write_text(told)
    monkeypatch.chdir(tmp_path)
    without = RELEASES.choose(None)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert RELEASES.choose(None) == without


def test_no_module_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "find_spec", {"verl": None}.__getitem__)
    monkeypatch.setattr(importlib.metadata, "version", {"verl": "0.7.1.post2"}.__getitem__)
    assert RELEASES.choose(None).version == BUNDLED[-1]
    assert "newest bundled release" in RELEASES.choose(None).reason


def test_a_folder_of_its_name_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(versions, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert RELEASES.choose(None).version == BUNDLED[-1]
    assert "newest bundled release" in RELEASES.choose(None).reason


@pytest.mark.parametrize(
    ("version", "minimum", "expected"),
    [
        ("0.9.1", "0.10.0", False),
        ("0.10.0", "0.9.1", True),
        ("0.8.0", "0.8.0", True),
        ("0.8", "0.8.0", True),
        ("0.8.0rc1", "0.8.0", True),
        ("0.7.1.post1", "0.8.0", False),
    ],
)
def test_at_least(version: str, minimum: str, expected: bool) -> None:
    assert at_least(version, minimum) is expected
