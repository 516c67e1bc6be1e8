"""What a newer wheel changed, and the defaults that verl flattened itself."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.inputs import flatten
from tuner.trainers.verl.compare import main, named_files

CONFIG = "verl/trainer/config/"
OLDER = {
    f"{CONFIG}ppo_trainer.yaml": "data: {train_batch_size: 8, gone: 1}\ntrainer: {nnodes: 1}\n",
    f"{CONFIG}ppo_megatron_trainer.yaml": "data: {train_batch_size: 8, gone: 1}\ntrainer: {nnodes: 1}\n",
    "verl/utils/fsdp_utils.py": "a = 1\n",
    "verl/workers/fsdp_workers.py": "a = 1\n",
    "verl/utils/config.py": "a = 1\n",
    "verl-9.8.0.dist-info/METADATA": "Name: verl\nRequires-Dist: vllm<=0.30.0; extra == 'vllm'\n",
}
NEWER = {
    f"{CONFIG}ppo_trainer.yaml": "data: {train_batch_size: 16, new: {}}\n",
    f"{CONFIG}ppo_megatron_trainer.yaml": "data: {train_batch_size: 32, new: {}}\n",
    "verl/utils/fsdp_utils.py": "a = 2\n",
    "verl/utils/config.py": "a = 1\n",
    "verl-9.9.0.dist-info/METADATA": "Name: verl\nRequires-Dist: vllm<=0.31.0; extra == 'vllm'\n",
}


def wheel(folder: Path, version: str, contents: dict[str, str]) -> str:
    path = folder / f"verl-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return str(path)


def test_what_a_newer_wheel_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([wheel(tmp_path, "9.8.0", OLDER), wheel(tmp_path, "9.9.0", NEWER)])
    said = capsys.readouterr().out.splitlines()
    titles = [number for number, line in enumerate(said) if not line.startswith(" ")]
    changed = said[titles[-1] + 1 :]
    assert said[: titles[-1] + 1] == [
        "Keys that appeared: 1",
        "  data.new={}",
        "Keys that vanished: 2",
        "  data.gone",
        "  trainer.nnodes",
        "Defaults that changed: 2",
        "  data.train_batch_size: 8 -> 16 (ppo_trainer)",
        "  data.train_batch_size: 8 -> 32 (ppo_megatron_trainer)",
        "Keys of the tables that are gone: 1",
        "  trainer.nnodes (nodes)",
        "Requirements that are gone: 1",
        "  vllm<=0.30.0; extra == 'vllm'",
        "Requirements that are new: 1",
        "  vllm<=0.31.0; extra == 'vllm'",
        f"Files that a source names and that changed: {len(changed)}",
    ]
    files = dict(line.strip().split(": ", 1) for line in changed)
    assert files["workers/fsdp_workers.py (gone)"] == ", ".join(named_files()["workers/fsdp_workers.py"])
    assert "memory/fsdp/units.py" in files["utils/fsdp_utils.py"]
    assert "utils/config.py" not in files


def test_nothing_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = wheel(tmp_path, "9.8.0", OLDER)
    main([same, same])
    assert all(line.endswith(": none") for line in capsys.readouterr().out.splitlines())


def test_defaults_that_verl_flattened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "defaults.jsonl"
    data.write_text('["ppo_trainer", "data.size", [[4, ["9.7.0"]]]]\n')
    monkeypatch.setattr(flatten, "DATA", data)
    contents = {
        f"{CONFIG}_generated_ppo_trainer.yaml": "data: {size: 4, more: {}}\n",
        f"{CONFIG}_generated_ppo_megatron_trainer.yaml": "data: {size: true}\n",
        f"{CONFIG}model_engine/dp.yaml": "# @package _global_\nmodel_engine: dp\n",
    }
    built = wheel(tmp_path, "9.8.0", contents)
    for _ in range(2):  # adding a release once more replaces it
        flatten.main([built])
    assert [json.loads(line) for line in data.read_text().splitlines()] == [
        ["ppo_trainer", "data.size", [[4, ["9.7.0", "9.8.0"]]]],
        ["ppo_trainer", "data.more", [["{}", ["9.8.0"]]]],
        ["ppo_trainer", "model_engine", [["dp", ["9.8.0"]]]],
        ["ppo_megatron_trainer", "data.size", [[True, ["9.8.0"]]]],
    ]
