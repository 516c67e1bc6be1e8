"""``tuner bundle``: a run in one file that can be sent on, and what must not be in it."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.cli.runner import run
from tests.cli.test_accuracy import valid
from tests.credentials import BARE, SHAPED
from tests.memory.measured import RECORDED
from tuner.models import find_config

RECORD = RECORDED / "record-two-h100"
ONE_FILE = RECORDED / "whole-runs" / "qwen2.5-1.5b-ppo.jsonl"
_TIMERS = "timing_s/gen:60.0 - timing_s/old_log_prob:10.0 - timing_s/update_actor:40.0 - timing_s/step:120.0"
_FURTHER = "prompt_length/mean:200.0 - response_length/mean:900.0 - val-core/acme-secret-set/reward:0.5"
LOG = f"step:1 - {_TIMERS}\nstep:2 - {_TIMERS} - {_FURTHER}\n"
NAMES = (
    *("alice", "carol", "acme", "10.20.30.40", "trainhost17", "/home", "/Users", "example.org", "zz-project"),
    *("zz-run", "fd00:", "wandb-team"),
)


def launch(*further: str, model: str = "/home/alice/models/Qwen2.5-7B-Instruct") -> str:
    words = [
        "data.train_files=/home/alice/data/acme.parquet",
        "data.val_files=[/Users/carol/a.parquet,hdfs://trainhost17:9000/acme/b.parquet]",
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.rollout.name=vllm",
        "algorithm.adv_estimator=grpo",
        "trainer.project_name=zz-project",
        "trainer.experiment_name=zz-run",
        "trainer.default_local_dir=/home/alice/runs",
        "trainer.n_gpus_per_node=8",
        "+ray_kwargs.ray_init.address=10.20.30.40:6379",
        "+ray_kwargs.ray_init._node_ip_address=10.20.30.40",
        "+trainer.wandb_entity=wandb-team",
        "+data.alice_flag=3",
        *further,
    ]
    lines = " \\\n    ".join(f"'{word}'" for word in words)
    return f"export WANDB_API_KEY=hunter2\npython3 -m verl.trainer.main_ppo \\\n    {lines}\n"


def written(folder: Path, text: str, log: str = LOG) -> tuple[str, str]:
    script, printed = folder / "run.sh", folder / "run.log"
    script.write_text(text)
    printed.write_text(log)
    return str(script), str(printed)


def bundled(folder: Path, *arguments: str) -> tuple[Path, Any, str]:
    file = folder / "miss.json"
    result = run("bundle", *arguments, "--output", str(file))
    assert (result.code, result.err) == (0, "")
    content = json.loads(file.read_text())
    valid(content, "bundle")
    return file, content, result.out


def seconds(*files: str) -> list[dict[str, Any]]:
    report = json.loads(run("accuracy", *files, "-f", "json").out)
    drop = ("source", "case")
    rows = [*report["seconds"], *report["recorded"]]
    return [{key: value for key, value in row.items() if key not in drop} for row in rows]


@pytest.mark.parametrize("source", [RECORD, ONE_FILE])
def test_accuracy_and_advise_say_of_a_bundle_what_they_say_of_the_run(source: Path, tmp_path: Path) -> None:
    file, content, out = bundled(tmp_path, str(source))
    assert seconds(str(file)) == seconds(str(source)) != []
    sides = [json.loads(run("advise", str(one), "-f", "json").out) for one in (file, source)]
    assert sides[0]["memory"]["phases"] == sides[1]["memory"]["phases"]
    predicted = {row["phase"]: row for row in content["predicted"]}
    told = {row["phase"]: row for row in seconds(str(source)) if "predicted_s" in row}
    for phase in ("old_log_prob", "update_actor", "step"):
        assert predicted[phase]["seconds"] == told[phase]["predicted_s"]
    assert f"{file}: written" in out
    assert "left out: " in out


def test_a_script_with_its_log_is_bundled(tmp_path: Path) -> None:
    script, log = written(tmp_path, launch())
    file, content, _out = bundled(tmp_path, script, "--log", log, "--gpu", "8xh100-sxm")
    assert content["premises"]["gpu"] == "h100-sxm"
    assert content["premises"]["gpus_per_node"] == 8
    assert [step["metrics"]["timing_s/gen"] for step in content["steps"]] == [60.0, 60.0]
    assert "actor_rollout_ref.model.path=Qwen2.5-7B-Instruct" in content["overrides"]
    rows = {row["phase"]: row for row in seconds(str(file))}
    assert rows["rollout"]["measured_s"] == 60.0
    assert {"trainer.project_name", "data.train_files"} <= set(content["hidden"])


def test_nothing_that_names_somebody_is_in_a_bundle(tmp_path: Path) -> None:
    script, log = written(tmp_path, launch())
    file, _content, out = bundled(tmp_path, script, "--log", log, "--gpu", "h100-sxm")
    for text in (file.read_text(), out.replace(str(tmp_path), "")):
        assert [name for name in (*NAMES, "hunter2") if name in text] == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("text", "secret"), SHAPED)
def test_no_credential_is_in_a_bundle(text: str, secret: str, tmp_path: Path) -> None:
    if "'" in text or "\n" in text:
        return
    value = '"' + text.replace("\\", "").replace('"', "") + '"'
    script, log = written(tmp_path, launch(f"trainer.project_name={value}", f"+trainer.some_key={value}"))
    file, _content, out = bundled(tmp_path, script, "--log", log, "--gpu", "h100-sxm")
    assert secret not in file.read_text()
    assert secret not in out


@pytest.mark.sampled(8)
@pytest.mark.parametrize("word", BARE)
def test_no_value_of_a_made_up_name_is_in_a_bundle(word: str, tmp_path: Path) -> None:
    script, log = written(
        tmp_path, launch(f"+ray_kwargs.ray_init.runtime_env.env_vars.ACME_THING={word}", f"+data.mine={word}")
    )
    file, _content, out = bundled(tmp_path, script, "--log", log, "--gpu", "h100-sxm")
    for text in (file.read_text(), out):
        assert word not in text
        assert "ACME_THING" not in text


def test_a_record_gives_no_node_and_no_time_of_day(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    copytree(RECORD, folder)
    for file in folder.glob("*.jsonl"):
        file.write_text(file.read_text().replace('"host":"node"', '"host":"trainhost17"'))
    bundle, content, _out = bundled(tmp_path, str(folder))
    text = bundle.read_text()
    assert "trainhost17" not in text
    assert "17954854" not in text  # seconds since 1970
    assert {line["host"] for line in content["record"] if line["line"] == "process"} == {"node-1"}
    assert {line["pid"] for line in content["record"] if line["line"] == "process"} == {0}


def test_a_model_that_is_not_bundled_travels_as_its_dimensions(tmp_path: Path) -> None:
    folder = tmp_path / "alice-model"
    folder.mkdir()
    own = {"_name_or_path": "/home/alice/base", "num_hidden_layers": 12, "id2label": {"0": "acme"}}
    config = {**find_config("Qwen2.5-0.5B").values, **own}
    (folder / "config.json").write_text(json.dumps(config))
    script, log = written(tmp_path, launch(model=str(folder)))
    file, content, _out = bundled(tmp_path, script, "--log", log, "--gpu", "h100-sxm")
    assert "alice" not in file.read_text()
    assert "acme" not in file.read_text()
    assert content["models"]["model-1"]["num_hidden_layers"] == 12
    before = run("advise", script, "--log", log, "--gpu", "h100-sxm", "-f", "json")
    (folder / "config.json").unlink()
    after = json.loads(run("advise", str(file), "-f", "json").out)
    assert after["memory"]["phases"] == json.loads(before.out)["memory"]["phases"]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "miss.json"
    file.write_text("mine")
    result = run("bundle", str(RECORD), "--output", str(file))
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"error: {file}: the file is there already; give another name, or --force to write over it\n"
    )
    assert file.read_text() == "mine"
    assert run("bundle", str(RECORD), "--output", str(file), "--force").code == 0
    assert json.loads(file.read_text())["tuner_bundle"] == 1


BAD = {
    "a configuration alone": ([], "nothing in it is of a run that has ended a step"),
    "no card": (["--log"], "nobody says which card it ran on; give --gpu NAME"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_bundled_is_one_message(case: str, tmp_path: Path) -> None:
    options, words = BAD[case]
    script, log = written(tmp_path, launch())
    result = run("bundle", script, *options, *([log] if options else []), "-o", str(tmp_path / "a.json"))
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert len(result.err.splitlines()) == 1
    assert not (tmp_path / "a.json").exists()


def test_an_output_of_another_kind_is_refused(tmp_path: Path) -> None:
    result = run("bundle", str(RECORD), "-o", str(tmp_path / "miss.yaml"))
    assert (result.code, result.out) == (2, "")
    assert "the name of a bundle ends in .json" in result.err


@pytest.mark.parametrize(
    "content",
    [
        '{"tuner_bundle": 1',
        '{"tuner_bundle": 1}',
        '{"tuner_bundle": 2}',
        '{"tuner_bundle": "1", "overrides": 3}',
    ],
)
@pytest.mark.parametrize("command", ["accuracy", "advise"])
def test_a_damaged_bundle_is_one_message(command: str, content: str, tmp_path: Path) -> None:
    file = tmp_path / "miss.json"
    file.write_text(content)
    result = run(command, str(file))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {file}: is no bundle: ")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("premises", {"gpus_per_node": "many"}),
        ("premises", {"verl_version": 3}),
        ("record", [{"line": "phase"}]),
        ("record", [{"line": "nothing"}]),
        ("overrides", []),
    ],
)
def test_a_bundle_with_a_bad_part_is_one_message(field: str, value: Any, tmp_path: Path) -> None:
    file, content, _out = bundled(tmp_path, str(RECORD))
    file.write_text(json.dumps({**content, field: value}))
    result = run("accuracy", str(file))
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
