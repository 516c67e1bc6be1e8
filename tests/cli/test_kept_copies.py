"""What was read of a copy of verl is kept between runs, and no longer than its files stay as they are."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import process
from tests.cli.test_copies_of_the_trainer import LAUNCH, REFUSES
from tuner.cache_files import keep, sealed
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

pytestmark = pytest.mark.sampled(12)

TOKEN = "hf_" + "aB3dE5fG7hJ9kL2mN4pQ6rS8tU"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl 0.9.1 that was written long ago."""
    folder = tmp_path / "repository"
    for name in (".git", "verl/trainer/config", "verl/workers"):
        (folder / name).mkdir(parents=True)
    (folder / "run.sh").write_text(LAUNCH)
    (folder / "verl" / "trainer" / "house.py").write_text(REFUSES)
    tree = dict(read_defaults("0.9.1", CONFIGS[0]).tree)
    (folder / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text(
        yaml.safe_dump({"defaults": [{"optional house": "mine"}, "_self_"], **tree})
    )
    age(folder)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tuner" / "copies"


def age(folder: Path) -> None:
    """A file that was just written could change without anything telling it: nothing of it is kept."""
    for file in folder.rglob("*"):
        os.utime(file, (time.time() - 60,) * 2)


def advice(repository: Path, cache: Path) -> dict[str, Any]:
    words = ("advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "-f", "json")
    answer = process(*words, env={"XDG_CACHE_HOME": str(cache.parents[1])})
    assert answer.err == ""
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


def prompts(answer: dict[str, Any]) -> int:
    batch: dict[str, int] = answer["workload"]["batch"]
    return batch["prompts"]


def refused_at(answer: dict[str, Any]) -> list[str]:
    notes = [note for item in answer["findings"] if item["code"] == "CFG118" for note in item["notes"]]
    return [line for note in notes for line in re.findall(r"It stops at (\S+) of this copy", note)]


def kept(cache: Path, word: str) -> Path:
    """The file of the answers, or that of the defaults."""
    (file,) = [file for file in cache.iterdir() if f'"{word}":' in file.read_text()]
    return file


def changed(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(file.read_text().partition("\n")[2])
    change(content)
    file.write_text(sealed(json.dumps(content)))


def test_a_second_run_answers_by_what_the_first_one_kept(repository: Path, cache: Path) -> None:
    first = advice(repository, cache)
    assert (refused_at(first), prompts(first)) == (["verl/trainer/house.py:3"], 1024)
    assert advice(repository, cache) == first

    def other_line(content: dict[str, Any]) -> None:
        for lines in filter(bool, content["answers"].values()):
            if isinstance(lines, list):
                lines[0]["line"] = 77

    changed(kept(cache, "answers"), other_line)
    changed(kept(cache, "tree"), lambda content: content["tree"]["data"].update(train_batch_size=64))
    second = advice(repository, cache)
    assert (refused_at(second), prompts(second)) == (["verl/trainer/house.py:77"], 64)


def write_code(repository: Path) -> None:
    (repository / "verl" / "trainer" / "house.py").write_text(f"\n{REFUSES}")


def write_code_of_the_same_size(repository: Path) -> None:
    """With the old time of writing as well, as an archive unpacks it."""
    file = repository / "verl" / "trainer" / "house.py"
    before = file.stat()
    file.write_text(f"\n{REFUSES}"[: before.st_size])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def move_code(repository: Path) -> None:
    (repository / "verl" / "trainer" / "house.py").rename(repository / "verl" / "workers" / "house.py")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (write_code, "verl/trainer/house.py:4"),
        (write_code_of_the_same_size, "verl/trainer/house.py:4"),
        (move_code, "verl/workers/house.py:3"),
    ],
)
def test_code_that_changes_is_read_anew(
    change: Callable[[Path], None], line: str, repository: Path, cache: Path
) -> None:
    advice(repository, cache)
    change(repository)
    assert refused_at(advice(repository, cache)) == [line]


def test_a_configuration_that_changes_is_read_anew(repository: Path, cache: Path) -> None:
    advice(repository, cache)
    file = repository / "verl" / "trainer" / "config" / "ppo_trainer.yaml"
    file.write_text(file.read_text().replace("train_batch_size: 1024", "train_batch_size: 2048"))
    assert prompts(advice(repository, cache)) == 2048


def test_a_file_that_appears_where_one_was_looked_for_in_vain_is_read(repository: Path, cache: Path) -> None:
    advice(repository, cache)
    assert '"changed":[]' in kept(cache, "tree").read_text()
    folder = repository / "verl" / "trainer" / "config" / "house"
    folder.mkdir()
    (folder / "mine.yaml").write_text("trial: 1\n")
    answer = advice(repository, cache)
    assert "adds house.trial" in answer["premises"]["release_reason"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-20],
        lambda text: text.replace("train_batch_size", "train_batch_sizes").replace('"line":3', '"line":4'),
        lambda text: sealed("[]"),
        lambda text: sealed('{"state": 1, "answers": {}, "tree": []}'),
        lambda text: "\x00\xff",
    ],
    ids=["empty", "cut off", "changed", "no content", "wrong types", "no text"],
)
def test_damaged_files_are_as_good_as_none(
    damage: Callable[[str], str], repository: Path, cache: Path
) -> None:
    first = advice(repository, cache)
    files = {file: file.read_text() for file in cache.iterdir()}
    assert len(files) == 2
    for file, text in files.items():
        file.write_text(damage(text), encoding="latin-1")
    assert advice(repository, cache) == first
    assert {file: file.read_text() for file in cache.iterdir()} == files


def test_a_folder_that_cannot_be_written_to_does_no_harm(repository: Path, cache: Path) -> None:
    cache.parents[1].write_text("in the way")
    assert advice(repository, cache) == advice(repository, cache)


def test_what_was_just_written_is_not_kept(repository: Path, cache: Path) -> None:
    """Its time of writing would stay the same where it is written once more at once."""
    code = repository / "verl" / "trainer" / "new.py"
    code.write_text("new = 1\n")
    for written in (code, repository / "verl" / "trainer" / "config" / "ppo_trainer.yaml"):
        os.utime(written, (time.time() + 60,) * 2)  # the process that reads them may be slow to start
    advice(repository, cache)
    assert not cache.exists()


def test_no_secret_and_no_value_of_the_launch_is_kept(repository: Path, cache: Path) -> None:
    file = repository / "verl" / "trainer" / "config" / "ppo_trainer.yaml"
    file.write_text(f"{file.read_text()}house:\n  api_key: {TOKEN}\n  word: {TOKEN}\n")
    launch = repository / "run.sh"
    launch.write_text(launch.read_text().replace("=grpo", f"={TOKEN}"))
    age(repository)
    advice(repository, cache)
    texts = [file.read_text() for file in cache.iterdir()]
    assert len(texts) >= 1
    assert not any(TOKEN in text for text in texts)


def test_the_oldest_files_make_room(tmp_path: Path) -> None:
    for number in range(5):
        keep(tmp_path / f"{number}.json", "{}", most=3)
        os.utime(tmp_path / f"{number}.json", (number, number))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["2.json", "3.json", "4.json"]
