"""What no job has, and what nobody would call a configuration, ends in one message and exit code 2."""

import gc
import json
import os
import time
from pathlib import Path

import pytest

from tests.cli.runner import Result, run
from tuner.cli.formats import FORMATS

pytestmark = pytest.mark.sampled(1)  # every day: what is shown by mistake cannot be taken back

JOB = (
    "actor_rollout_ref.model.path=Qwen/Qwen3-8B",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "algorithm.adv_estimator=grpo",
)
NINES = "9" * 400


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("actor_rollout_ref.actor.strategy=[fsdp]", "expected the name of a training engine, got ['fsdp']"),
        ("actor_rollout_ref.actor.strategy={a: 1}", "expected the name of a training engine, got a section"),
        ("--host-memory=nan", "--host-memory nan: expected a number"),
        ("--host-memory=inf", "--host-memory inf: expected a number"),
        ("--host-memory=1e308", "--host-memory 1e+308: expected a number"),
        ("--headroom=nan", "--headroom nan: expected a number up to 0.9"),
        (f"data.train_batch_size={NINES}", "holds a larger number than any setting takes"),
        (f"data.max_response_length={NINES * 12}", "holds a larger number than any setting takes"),
        ("data.train_batch_size=1000000000", "1,000,000,000 sequences in a step are not modelled"),
        ("actor_rollout_ref.rollout.n=1000000000", "sequences in a step are not modelled"),
        ("trainer.n_gpus_per_node=1000000000", "a job of 1,000,000,000 GPUs is not modelled"),
        ("data.max_response_length=10000000000", "tokens in a sequence are not modelled"),
    ],
)
def test_a_value_beyond_all_jobs_is_one_message(word: str, message: str) -> None:
    result = run("advise", "/dev/null", *JOB, word, "--gpu", "h100-sxm")
    assert result.code == 2, result.err
    assert message in result.err
    assert result.err.count("\n") == 1
    assert len(result.err) < 400


@pytest.mark.parametrize(
    "text", ['a: !!int ""\n', "a: !!timestamp x\n", "a: " + "${" * 200 + "x" + "}" * 200 + "\n"]
)
def test_yaml_that_is_no_configuration_is_one_message(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    result = run("advise", str(file), "--gpu", "h100-sxm")
    assert result.code == 2
    assert result.err.count("\n") == 1


def refused(*words: str, stdin: str = "") -> str:
    """The one line that refuses an input."""
    began = time.process_time()
    result = run(*words, stdin=stdin)
    assert time.process_time() - began < 2
    assert (result.code, result.out) == (2, ""), result.err
    assert result.err.count("\n") == 1
    assert len(result.err) < 2_500
    return result.err


@pytest.mark.parametrize("digits", [300, 4_000, 5_000])
@pytest.mark.parametrize(
    "key",
    ["data.seed", "trainer.nnodes", "actor_rollout_ref.actor.optim.lr", "trainer.experiment_name", "+x.y"],
)
def test_a_number_of_hundreds_of_digits_is_refused_in_any_value(
    key: str, digits: int, tmp_path: Path
) -> None:
    number = "9" * digits
    expected = "larger number than any setting takes"
    assert expected in refused("advise", "/dev/null", *JOB, f"{key}={number}")
    assert expected in refused("config", "/dev/null", *JOB, f"{key}=[1,{{a:{number}}}]")
    file = tmp_path / "config.yaml"
    file.write_text(f"a: 1\nb: [0x{number}]\n")
    assert "config.yaml:2:5" in refused("advise", str(file))


@pytest.mark.parametrize("option", ["--gpus-per-node", "--nodes", "--response-p95", "--image-pixels"])
@pytest.mark.parametrize("number", [NINES, NINES * 12, "-1", "nan", "1e3"])
def test_an_option_takes_no_number_beyond_all_jobs(option: str, number: str) -> None:
    result = run("advise", "/dev/null", *JOB, f"{option}={number}", "--gpu", "h100-sxm")
    assert result.code == 2
    assert len(result.err) < 2_500


def test_sizes_of_amounts_and_of_counts_of_cards_are_bounded() -> None:
    assert "no GPU" in refused("advise", "/dev/null", *JOB, "--gpu", f"{NINES * 12}xh100-sxm")
    assert "count" in refused("estimate-memory", "--vocab", NINES)
    assert "count" in refused("estimate-memory", "--vocab", "152k", "--tokens", f"{NINES}.5G")


@pytest.mark.parametrize(
    "value", ["x" * 100_000, "\u4e2d" * 50_000, "${" * 50_000, "[" * 50_000, "\x1b" * 50_000]
)
def test_a_message_repeats_no_more_than_a_line_of_a_huge_value(value: str) -> None:
    for words in (
        ("advise", value),
        ("check", "/dev/null", value),
        ("diff", "/dev/null", value),
        ("advise", "/dev/null", f"a.b={value}"),
        ("advise", "/dev/null", *JOB, f"actor_rollout_ref.actor.strategy='{value}'"),
        ("advise", "/dev/null", f"actor_rollout_ref.model.path='{value}'"),
        ("advise", "/dev/null", *JOB, "--gpu", value),
        ("advise", "/dev/null", *JOB, "--nodes", value),
        ("config", "/dev/null", "--verl-version", value),
        ("explain-oom", "--message", value),
        ("rule", value),
        (value,),
    ):
        result = run(*words)
        assert result.code == 2, words[0]
        assert 0 < len(result.err) < 2_500


def test_a_pipe_that_nobody_writes_into_and_a_device_without_end_are_refused(tmp_path: Path) -> None:
    pipe, endless, folder = tmp_path / "pipe.yaml", tmp_path / "zero.yaml", tmp_path / "model"
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    folder.mkdir()
    with (folder / "config.json").open("wb") as stream:
        stream.truncate(1_500_000_000)  # a hole: it takes no room
    assert "no program writes into this pipe" in refused("advise", str(pipe))
    assert "no program writes into this pipe" in refused("explain-oom", "--message", str(pipe))
    assert "larger than the limit of 1 MiB" in refused("advise", str(endless))
    assert "larger than the limit of 16 MiB" in refused("explain-oom", "--message", str(endless))
    assert "larger than the limit of 256 KiB" in refused("advise", "/dev/null", *JOB, "--gpu", str(endless))
    assert "larger than the limit of 4 MiB" in refused("advise", "/dev/null", *JOB, "--model", str(folder))


def test_a_pipe_is_read_where_somebody_writes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    if os.fork() == 0:
        pipe.write_text("actor_rollout_ref: {model: {path: Qwen/Qwen3-8B}}\n")
        os._exit(0)
    assert "Qwen/Qwen3-8B" in run("config", str(pipe)).out
    os.wait()


def test_deep_nesting_is_refused_wherever_yaml_is_read(tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text("[" * 200_000)
    assert "nested deeper" in refused("advise", str(file))
    assert "nested deeper" in refused("advise", "/dev/null", *JOB, "--gpu", str(file))


def test_json_holds_what_is_not_utf8(tmp_path: Path) -> None:
    odd = b"caf\xe9".decode("utf-8", "surrogateescape")
    for words in (
        ("advise", "/dev/null", *JOB, f"trainer.experiment_name='{odd}'"),
        ("config", "/dev/null", *JOB, f"trainer.experiment_name='{odd}'"),
        ("check", "/dev/null", *JOB, f"actor_rollout_ref.rollout.nothing='{odd}'"),
        ("explain-oom", "--message", f"CUDA out of memory. Tried to allocate 2.00 GiB. {odd}"),
    ):
        result = run(*words, "--output-format", "json")
        assert result.code in (0, 1), result.err
        assert json.loads(result.out)
    name = json.loads(run("config", "/dev/null", f"trainer.experiment_name='{odd}'", "-f", "json").out)
    assert odd in [setting["value"] for setting in name["settings"]]
    assert run("check", "/dev/null", *JOB, f"+trainer.{odd}=1", "-f", "json").code == 2


def test_a_cache_that_has_no_room_is_no_negative_size() -> None:
    words = [*JOB, "actor_rollout_ref.model.path=Qwen/Qwen2.5-72B", "--gpu", "rtx-3090", "-f", "json"]
    assert json.loads(run("advise", "/dev/null", *words).out)["rollout"]["kv_bytes"] == 0


def test_a_process_that_calls_it_again_and_again_does_not_grow() -> None:
    def objects(calls: int) -> int:
        for _ in range(calls):
            assert run("config", "/dev/null", *JOB, "+a.b=[1,{c:2}]").code == 0
        gc.collect()
        return len(gc.get_objects())

    objects(2)  # what is made once, and tuples that the collector no longer follows once it has seen them
    before = objects(1)
    assert objects(10) - before < 5


SECRETS = ("0123456789abcdef0123456789abcdef01234567", "hf_" + "aB3" * 11, "correct-horse-battery")
SCRIPT = f"""export WANDB_API_KEY={SECRETS[0]}
export HF_TOKEN="{SECRETS[1]}" DB_PASSWORD='{SECRETS[2]}'
wandb login {SECRETS[0]}
nvidia-smi --query-gpu=name # {SECRETS[1]}
X=$(curl -H "Authorization: {SECRETS[1]}" https://example.org/{SECRETS[0]})
python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=True \\
    +trainer.wandb_api_key={SECRETS[2]} trainer.experiment_name={SECRETS[1]} +ray.HF_TOKEN=$HF_TOKEN \\
    +a.{SECRETS[1]}=1 trainer.project_name="$X" trainer.logger=[console,{SECRETS[0]}] {{wrong}}
"""
PRINTED = f"""WANDB_API_KEY={SECRETS[0]}
(WorkerDict pid=1) env: HF_TOKEN={SECRETS[1]} DB_PASSWORD={SECRETS[2]}
  File "/home/{SECRETS[1]}/verl/workers/actor.py", line 3, in update_policy
    login("{SECRETS[1]}", "{SECRETS[0]}")
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {SECRETS[0]}
"""


def hides(result: Result) -> None:
    assert result.out + result.err
    assert [secret for secret in SECRETS if secret in result.out + result.err] == []


@pytest.mark.parametrize("wrong", ["", "trainer.nnodes=hf_" + "aB3" * 11, "a.b=[hf_" + "aB3" * 11])
def test_no_secret_is_printed_by_any_command(wrong: str, tmp_path: Path) -> None:
    script, printed = tmp_path / "run.sh", tmp_path / "error.txt"
    script.write_text(SCRIPT.replace("{wrong}", f"'{wrong}'" if wrong else ""))
    printed.write_text(PRINTED)
    code = 2 if wrong else 0
    gpu = ("--gpu", "h100-sxm")
    for form in ("text", "json", "html"):
        hides(answer := run("advise", str(script), *gpu, "--output-format", form))
        assert answer.code == code
    hides(run("advise", str(script), *gpu, "--full", "--explain"))
    for form in ("text", "json"):
        hides(run("config", str(script), "--all", "--output-format", form))
    files = {form: tmp_path / f"{form}.out" for form in FORMATS}
    hides(
        run("check", str(script), *gpu, *(f"--output-format={form}:{file}" for form, file in files.items()))
    )
    for file in files.values():
        assert not any(secret in file.read_text() for secret in SECRETS)
    for form in ("text", "json"):
        hides(
            run("diff", str(script), str(script), "trainer.nnodes=2", *gpu, "--output-format", form, "--full")
        )
        for job in ((), (str(script),)):
            hides(run("explain-oom", *job, "--message", str(printed), *gpu, "--output-format", form))
            hides(run("explain-oom", *job, "--message", PRINTED, *gpu, "--output-format", form))
    words = SCRIPT.partition("main_ppo ")[2].replace("\\\n", "").replace("{wrong}", wrong).split()
    hides(run("advise", "/dev/null", *words, *gpu, "--output-format", "json"))
    hides(run("config", *words))


def test_the_folder_of_a_snapshot_is_no_secret(tmp_path: Path) -> None:
    folder = tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / SECRETS[0]
    folder.mkdir(parents=True)
    result = run("advise", "/dev/null", *JOB, f"actor_rollout_ref.model.path={folder}", "--gpu", "h100-sxm")
    assert "the folder holds no config.json" in result.err
    assert str(folder) in result.err


def test_a_long_piece_of_a_script_is_not_repeated_whole(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    words = " ".join((*JOB, f"trainer.test_freq=$(({'x' * 50_000} + 1))"))
    script.write_text(f"python3 -m verl.trainer.main_ppo {words}\n")
    for form in ("text", "overrides"):
        result = run("config", str(script), "--output-format", form)
        assert result.code == 0
        assert "trainer.test_freq is not known: the script has $((xxx" in " ".join(
            (result.out + result.err).split()
        )
        assert len(result.out + result.err) < 5_000


def test_aliases_within_aliases_nest_no_deeper_than_what_is_written_out(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    links = "".join(f"k{number}: &k{number} {{v: *k{number - 1}}}\n" for number in range(1, 300))
    file.write_text(f"k0: &k0 1\n{links}")
    error = refused("config", str(file))
    assert "nested deeper than 64 levels once its aliases are expanded" in error


def test_a_list_of_hundreds_of_thousands_is_refused_before_it_is_built(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for text in ("a: [" + "1," * 500_000 + "1]\n", "".join(f"k{number}: 1\n" for number in range(95_000))):
        file.write_text(text)
        assert "more than 100,000 keys and values" in refused("config", str(file))


def test_keys_that_take_the_place_of_merged_ones_cost_no_more_than_their_number(tmp_path: Path) -> None:
    file, keys = tmp_path / "config.yaml", range(8_000)
    merged = "".join(f"  k{key}: [1]\n" for key in keys)
    own = "".join(f"  k{key}: 2\n" for key in keys)
    file.write_text(f"a: &a\n{merged}b:\n  <<: *a\n{own}")
    began = time.process_time()
    result = run("config", str(file))
    assert time.process_time() - began < 8  # some 0.6 s; by their square it was a minute
    assert (result.code, result.err.count("\n")) == (2, 1)


def test_what_takes_the_place_of_merged_sections_has_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "a: &a\n  x: {p: 1, q: 1}\n  y: 1\nc: &c\n  x: {q: 2}\n"
        "b:\n  <<: [*c, *a]\n  y: 2\nd:\n  <<: *a\n  x: {p: 3}\n"
    )
    settings = json.loads(run("config", str(file), "-f", "json").out)["settings"]
    lines = {one["key"]: one["location"]["line"] for one in settings if one["key"][0] in "bd"}
    assert lines == {"b.x.q": 5, "b.y": 8, "d.x.p": 11, "d.y": 3}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[" * 65, "is nested too deeply"),
        ("[" * 9_000, "is nested too deeply"),
        ("{a:" * 2_000 + "1" + "}" * 2_000, "is nested too deeply"),
        ("int(" * 1_500 + "1" + ")" * 1_500, "is nested too deeply"),
        ("[" + "x y," * 10_000 + "1]", "is longer than the limit of 10,000 characters"),
    ],
)
def test_a_nested_or_long_value_is_refused_before_it_is_parsed(
    value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.inputs.overrides._parser", lambda: pytest.fail("the grammar was asked"))
    assert message in refused("config", "/dev/null", f"+a.b={value}")


def test_brackets_in_quotes_nest_nothing() -> None:
    result = run("config", "/dev/null", f"+a.b=['{'[' * 100}',x y]")
    assert result.code == 0, result.err
