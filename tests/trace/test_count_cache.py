"""Counts kept between runs."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.trace.configs import kept_counts, write
from tuner.cache_files import sealed
from tuner.errors import InputError
from tuner.model_shape import ModelShape
from tuner.models import FoundConfig, find_config
from tuner.trace import build, count_cache, model, trace_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuner" / "trace"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> ModelShape:
    """A shape that was really counted, here or by another test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(kept_counts(tmp_path_factory)))
        return trace_model(find_config(str(write(tmp_path_factory.mktemp("one"), "granite"))))


@pytest.fixture
def counted(one: ModelShape, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that were to be counted; each time the same shape is the result."""
    names: list[str] = []

    def count(config: FoundConfig) -> ModelShape:
        names.append(config.name)
        return one

    monkeypatch.setattr(model, "count_model", count)
    return names


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.sampled(6)
def test_a_count_is_kept(tmp_path: Path, cache: Path, counted: list[str]) -> None:
    config = find_config(str(write(tmp_path / "first", "granite")))
    first, second = trace_model(config), trace_model(config)
    assert counted == ["first"]
    assert first == second
    assert len(files(cache)) == 1


@pytest.mark.sampled(6)
def test_a_kept_count_is_that_of_the_configuration_not_of_its_name(
    tmp_path: Path, cache: Path, counted: list[str]
) -> None:
    first = trace_model(find_config(str(write(tmp_path / "first", "granite"))))
    second = trace_model(find_config(str(write(tmp_path / "second", "granite"))))
    assert counted == ["first"]
    assert (first.name, second.name) == ("first", "second")
    assert str(tmp_path / "second") in second.source
    trace_model(find_config(str(write(tmp_path / "third", "granite", hidden_size=512))))
    assert counted == ["first", "third"]


@pytest.mark.parametrize("installed", [("2.13.0", "5.99.0"), ("2.14.0", "5.23.0")])
def test_other_versions_count_anew(
    tmp_path: Path,
    cache: Path,
    counted: list[str],
    monkeypatch: pytest.MonkeyPatch,
    installed: tuple[str, str],
) -> None:
    config = find_config(str(write(tmp_path / "model", "granite")))
    trace_model(config)
    monkeypatch.setattr("tuner.trace.versions", lambda: installed)
    trace_model(config)
    assert len(counted) == 2


def test_other_code_counts_anew(
    tmp_path: Path, cache: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = find_config(str(write(tmp_path / "model", "granite")))
    trace_model(config)
    monkeypatch.setattr(count_cache, "_counting", lambda: "another hash")
    trace_model(config)
    assert len(counted) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-20],
        lambda text: text.replace('"hidden":256', '"hidden":257'),
        lambda text: "\x00\xff",
        lambda text: sealed("[]"),
        lambda text: sealed(json.dumps({**json.loads(text.partition("\n")[2]), "hidden": "wide"})),
    ],
    ids=["empty", "cut off", "a digit changed", "no text", "no shape", "wrong type"],
)
def test_a_damaged_file_is_counted_anew_and_written_anew(
    tmp_path: Path, cache: Path, counted: list[str], damage: object
) -> None:
    config = find_config(str(write(tmp_path / "model", "granite")))
    shape = trace_model(config)
    (file,) = files(cache)
    whole = file.read_text(encoding="utf-8")
    changed = damage(whole)  # type: ignore[operator]
    assert changed != whole
    file.write_text(changed, encoding="latin-1")
    assert trace_model(config) == shape
    assert counted == ["model"] * 2
    assert file.read_text(encoding="utf-8") == whole
    trace_model(config)
    assert counted == ["model"] * 2


def test_a_file_that_is_a_folder_does_no_harm(tmp_path: Path, cache: Path, counted: list[str]) -> None:
    config = find_config(str(write(tmp_path / "model", "granite")))
    trace_model(config)
    (file,) = files(cache)
    file.unlink()
    file.mkdir()
    trace_model(config)
    assert files(cache) == []  # no half-written file either


def test_without_a_folder_to_write_to_nothing_is_kept(
    tmp_path: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = find_config(str(write(tmp_path / "model", "granite")))
    assert trace_model(config) == trace_model(config)
    assert counted == ["model"] * 2


def test_nothing_is_written_elsewhere(tmp_path: Path, cache: Path, counted: list[str]) -> None:
    config = find_config(str(write(tmp_path / "model", "granite")))
    before = files(tmp_path)
    trace_model(config)
    assert set(files(tmp_path)) - set(before) == set(files(cache))


def test_the_folder_is_the_platforms_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for platform, folder in (("linux", ".cache"), ("darwin", "Library/Caches")):
        monkeypatch.setattr("sys.platform", platform)
        assert count_cache.folder() == tmp_path / folder / "tuner" / "trace"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert count_cache.folder() == tmp_path / "Library/Caches" / "tuner" / "trace"


def test_without_torch_one_message_says_what_to_install(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import PackageNotFoundError

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(build, "version", missing)
    with pytest.raises(InputError, match=r"torch is not installed.*pip install '\.\[trace\]'"):
        trace_model(find_config(str(write(tmp_path / "model", "granite"))))


def test_an_old_transformers_is_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "version", lambda name: "4.57.3")
    with pytest.raises(InputError, match=r"transformers 4\.57\.3"):
        trace_model(find_config(str(write(tmp_path / "model", "granite"))))
