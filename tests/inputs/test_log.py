"""Logs of runs: what is read of them, in which forms, and within which limits."""

import cProfile
import io
import pstats
import time
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import pytest

from tests.inputs.logs import by_ray, log, printed, step_line
from tests.trainers.launches import DYNAMIC
from tuner.inputs.log.lines import read_ends
from tuner.inputs.log.metrics import MOST_STEPS, last_steps, read_step
from tuner.inputs.log.run_log import RunLog, is_log, read_log
from tuner.inputs.tree import lookup
from tuner.inputs.yaml_file import Document
from tuner.trainers.verl.defaults import read_defaults
from tuner.trainers.verl.printed_configuration import as_set, printed_by
from tuner.trainers.verl.releases import BUNDLED
from tuner.units import MIB

pytestmark = pytest.mark.sampled(6)


def read(text: str) -> RunLog:
    return read_log("run.log", read_ends(b"", io.BytesIO(text.encode())))


def document(text: str) -> Document:
    mapping = read(text).configuration
    assert mapping is not None
    return Document(source="run.log", tree=mapping.tree, locations=mapping.locations, printed=True)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("version", BUNDLED)
@pytest.mark.parametrize("config", ["ppo_trainer", "ppo_megatron_trainer"])
def test_a_printed_configuration_tells_its_release_and_what_was_set(version: str, config: str) -> None:
    set_by_user = {
        ("data", "train_batch_size"): 384,
        ("actor_rollout_ref", "rollout", "n"): 5,
        ("actor_rollout_ref", "model", "path"): "Qwen/Qwen3-8B",
    }
    overrides = [f"{'.'.join(path)}={value}" for path, value in set_by_user.items()]
    given = document(log(version, overrides, config=config))
    told = printed_by(given)
    assert (told.version, told.config, told.other_keys) == (version, config, 0)
    own, base, of_recipe = as_set(given)
    assert (base, of_recipe) == (config, False)
    assert {path: lookup(own.tree, path) for path in set_by_user} == set_by_user
    keys = [(section, *below) for section, node in own.tree.items() for below in _leaves(node)]
    assert set(keys) == set(set_by_user)


@pytest.mark.parametrize(("older", "newer"), list(pairwise(BUNDLED)))
@pytest.mark.parametrize("config", ["ppo_trainer", "ppo_megatron_trainer"])
def test_a_state_of_development_is_told_by_the_keys_that_it_has_already(
    older: str, newer: str, config: str
) -> None:
    before, after = (set(_leaves(read_defaults(version, config).tree)) for version in (older, newer))
    new = sorted(after - before)
    lacking = new[: len(new) // 2]  # of the keys that the newer release brings
    tree = deepcopy(dict(read_defaults(newer, config).tree))
    for path in lacking:
        del lookup(tree, path[:-1])[path[-1]]
    assert printed_by(Document(source="run.log", tree=tree, locations={}, printed=True)).version == newer


def test_keys_that_a_user_adds_make_no_other_release() -> None:
    added = ["+trainer.mine=1", "+actor_rollout_ref.actor.loss_agg_mode=token-mean", "+data.seed=3"]
    assert printed_by(document(log("0.3.0.post1", added))).version == "0.3.0.post1"


def _leaves(node: object) -> list[tuple[str, ...]]:
    if not isinstance(node, dict):
        return [()]
    return [(key, *below) for key, child in node.items() for below in _leaves(child)]


def test_keys_know_their_lines() -> None:
    text = log("0.5.0", DYNAMIC)
    lines = text.splitlines()
    given = document(text)
    for path, place in given.locations.items():
        assert place.line is not None
        assert f"'{path[-1]}'" in lines[place.line - 1]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("dressed", "what"),
    [
        (lambda text: text, "nothing in front"),
        (by_ray, "Ray's colours"),
        (lambda text: by_ray(text, coloured=False), "no colours"),
        (lambda text: by_ray(text, "main_task pid=7, ip=10.0.0.3"), "with an address"),
        (lambda text: by_ray(text, "abcWorkerDict_0:0 WorkerDict pid=7"), "a named actor"),
        (lambda text: text.replace("\n", "\r\n"), "lines of Windows"),
        (lambda text: text.replace("\n", "\n(raylet) spilling objects\n", 30), "others between the lines"),
        (lambda text: by_ray(text).replace(",\n", ",(pid=934604)\n", 3), "the next process glued to a line"),
    ],
)
def test_whatever_stands_around_the_lines(dressed: object, what: str) -> None:
    assert callable(dressed)
    plain = read(printed("0.7.1", DYNAMIC)).configuration
    other = read("noise\n" + dressed(printed("0.7.1", DYNAMIC)) + "\nmore noise\n").configuration
    assert plain is not None
    assert other is not None, what
    assert other.tree == plain.tree


WARNED = (  # of Python, PyTorch, tqdm
    "/opt/verl/trainer/main_ppo.py:307: UserWarning: Disabled critic as algorithm.adv_estimator != gae.",
    "  use_critic=need_critic(config),",
    "  from verl.utils.megatron.router_replay_utils import (",
    "Filtering prompts longer than 2048 tokens (num_proc=1):  13%|#7  | 1000/7473 [00:02<00:13, 49.5s]",
    "[W105 17:12:50.8 compiler_depend.ts:1060] Warning: it's less than {1836000ms",
    "    *********",
    "",
    "'a': 1,",
)


@pytest.mark.parametrize("line", [1, 2, 20, 57, 150])
def test_what_the_same_process_warned_of_in_between_is_left_out(line: int) -> None:
    path = "/mnt/a folder with blanks/" + "very long words of a path " * 8
    text = printed("0.7.1", [*DYNAMIC, f"data.train_files='{path}'"])
    lines = text.splitlines()
    plain = read(by_ray(text)).configuration
    mixed = read(by_ray("\n".join([*lines[:line], *WARNED, *lines[line:]]))).configuration
    assert plain is not None
    assert mixed is not None
    assert mixed.tree == plain.tree
    assert lookup(mixed.tree, ("data", "train_files")) == path


def test_long_strings_come_back_whole() -> None:
    path = "/mnt/a folder with blanks/" + "very long words of a path " * 8
    given = document(log("0.5.0", [f"data.train_files='{path}'"]))
    assert lookup(given.tree, ("data", "train_files")) == path


def test_the_last_start_counts() -> None:
    metrics = {"response_length/mean": 100.0, "timing_s/step": 10.0}
    first = log("0.5.0", ["actor_rollout_ref.rollout.n=2"], [metrics] * 3)
    second = log("0.5.0", ["actor_rollout_ref.rollout.n=6"], [metrics | {"response_length/mean": 300.0}])
    found = read(first + second)
    assert found.configuration is not None
    assert lookup(found.configuration.tree, ("actor_rollout_ref", "rollout", "n")) == 6
    assert [step.values["response_length/mean"] for step in found.steps if step.step] == [300.0]


def test_steps_that_a_job_repeats_behind_a_checkpoint_count_once() -> None:
    lines = [step_line("0.5.0", number, {"a": float(place)}) for place, number in enumerate([1, 2, 3, 2, 3])]
    steps = last_steps(step for line in lines if (step := read_step(line)) is not None)
    assert [(step.step, step.values["a"]) for step in steps] == [(1, 0.0), (2, 3.0), (3, 4.0)]


def test_lines_of_the_same_step_are_one_step() -> None:
    lines = ["step:2 - a:1.0 - b:2.0", "step:2 - c:3.0", "step:3 - a:4.0", "step:3 - b:5.0 - a:6.0"]
    steps = last_steps(step for line in lines if (step := read_step(line)) is not None)
    assert [(step.step, step.values) for step in steps] == [
        (2, {"a": 1.0, "b": 2.0, "c": 3.0}),
        (3, {"a": 6.0, "b": 5.0}),
    ]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("step:3 - a:1.000 - b/c:np.float64(2.5) - d:np.int64(4)", {"a": 1.0, "b/c": 2.5, "d": 4.0}),
        ("1%|#| 3/9 [05:05<8:24, 3.5s/it]step:3 - a:1e-07 - t:True", {"a": 1e-07, "t": 1.0}),
        ("step:3 - a:nan - b:inf - c:-0.5", {"c": -0.5}),
        ("step:3 - critic/lr(1e-4):0.100", {"critic/lr(1e-4)": 0.1}),
        ("timing_s/step:3 - a:1", None),
        ("global_step:3 - a:1", None),
        ("step:3 - nothing", None),
        ("step:3 - a:1.2.3 - b:[1]", {"a": 1.2}),
    ],
)
def test_metrics_of_a_line(line: str, values: dict[str, float] | None) -> None:
    step = read_step(line)
    assert (None if step is None else step.values) == values


def test_secrets_are_not_even_read() -> None:
    token = "hf_" + "x" * 30
    text = log("0.5.0", ["+trainer.wandb_api_key=abcdef0123456789", f"+trainer.note={token}"])
    assert token not in str(read(text).configuration)
    assert "abcdef0123456789" not in str(read(text).configuration)


def test_what_began_the_job_where_no_configuration_is_printed() -> None:
    failed = "Error executing job with overrides: ['data.train_batch_size=64', \"+a='b c'\"]"
    found = read(f"noise\n{failed}\nTraceback (most recent call last):\n")
    assert (found.overrides, found.overrides_line) == (("data.train_batch_size=64", "+a='b c'"), 2)
    echoed = read(
        "a\n+ python3 -m verl.trainer.main_ppo data.train_batch_size=64 'trainer.logger=[console]'\n"
    )
    assert (echoed.command_line, echoed.command.split()[:2]) == (2, ["python3", "-m"])
    assert read(f"{failed[:-20]}\n").overrides == ()


@pytest.mark.parametrize(
    "prompt", ["", "$ ", "(base) root@node-0:/work# ", "    ", "CUDA_VISIBLE_DEVICES=0 nohup "]
)
def test_a_command_that_was_copied_beside_its_steps(prompt: str) -> None:
    command = "python3 -m verl.trainer.main_ppo \\\n  data.train_batch_size=8 \\\n  trainer.nnodes=1"
    other = "python3 -m verl.model_merger merge --local_dir x=y\n# python3 -m verl.trainer.main_ppo a.b=1\n"
    earlier = command.replace("=8", "=4") + "\nstep:9 - timing_s/gen:5.0\n"
    found = read(f"It ran\n{earlier}then:\n{prompt}{command}\nstep:3 - timing_s/gen:1.0\n{other}")
    assert found.command_line == 7
    assert found.command.endswith(command)
    assert [(step.step, step.values["timing_s/gen"]) for step in found.steps] == [(3, 1.0)]
    above = read(f"step:3 - timing_s/gen:1.0\n{command}\n")
    assert [step.step for step in above.steps] == [3]


def test_an_error_keeps_its_line() -> None:
    text = log(
        "0.5.0",
        DYNAMIC,
        tail=by_ray(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB.", "WorkerDict pid=1"
        ),
    )
    error = read(text).out_of_memory
    assert error is not None
    assert "13.91 GiB" in text.splitlines()[error.line - 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[36m(TaskRunner pid=1)\x1b[0m a\n", True),
        ("noise\nstep:1 - a/b:1.0\n", True),
        ("Error executing job with overrides: []\n", True),
        ("{'a': {'b': 1}}\n", True),
        ("+ python3 -m verl.trainer.main_ppo a=1\n", True),
        ("Traceback (most recent call last):\n", True),
        ("actor_rollout_ref:\n  actor: {}\n", False),
        ('{"a": {"b": 1}}\n', False),
        ("#!/bin/bash\n# (TaskRunner pid=1)\npython3 -m verl.trainer.main_ppo a.b=1\n", False),
        ("python3 -m verl.trainer.main_ppo a.b=1\n", False),
        ("data.step:1 - x\n", False),
    ],
)
def test_a_log_is_told_by_its_content(text: str, expected: bool) -> None:
    assert is_log(text.encode()) is expected


@pytest.mark.parametrize(
    "text",
    [
        "{'a': {'b': " * 5000,
        "{'a': {'b': __import__('os').system('touch pwned')}}",
        "{'a': {'b': " + "(" * 300 + ")" * 300 + "}}",
        "{'a': {'b': " + "9" * 6000 + "}}",
        "{'a': {'b': '" + "x" * 700_000 + "'}}",
        "\n".join("{'a': {'b':" for _ in range(20_000)),
        "step:1 - " + "a:1 - " * 200_000,
        "step:" * 100_000,
        "+ " + "python3 " * 50_000 + "a=1",
        "Error executing job with overrides: [" + "'a=1', " * 50_000,
        "python3 x \\\n" * 50_000,
        "a a# " * 20_000 + "python3 a.b=1",
        "A=1 " * 20_000 + "python a.b",
        "\r" * 100_000 + "(TaskRunner pid=1) \x00\ufffd",
    ],
)
def test_nothing_is_run_and_nothing_takes_long(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 2
    assert not list(tmp_path.iterdir())


class _Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("stream", [io.BytesIO, _Pipe])
@pytest.mark.parametrize("size", [0, 100, 2 * MIB, 5 * MIB])
def test_a_large_log_is_read_at_both_ends(stream: type[io.BytesIO], size: int) -> None:
    content = bytes(range(33, 123)) * (size // 90 + 1)
    content, end = content[:size], MIB
    begun = stream(content)
    start = begun.read(10)
    ends = read_ends(start, begun, end_bytes=end)
    assert len(ends.beginning) + ends.cut_bytes + len(ends.end) == size
    assert content.startswith(ends.beginning)
    assert content.endswith(ends.end)
    assert len(ends.beginning) <= 2 * end
    if size > 3 * end:
        assert ends.cut_bytes > 0
        assert len(ends.end) >= end


def test_a_log_takes_no_more_work_than_it_has_lines() -> None:
    """A number of lines takes the same work, wherever in a log they stand."""
    taken = []
    for size in (0, MIB // 2, MIB):
        profile = cProfile.Profile()
        profile.runcall(read, log("0.5.0", DYNAMIC) + "noise of a library\n" * (size // 19))
        taken.append(int(pstats.Stats(profile).total_calls))  # type: ignore[attr-defined]
    nothing, half, all_of_it = taken
    assert nothing < half
    assert all_of_it - half < 1.1 * (half - nothing)  # 27 calls of each line in both


@pytest.mark.sampled(4)
def test_steps_behind_the_cut_are_read() -> None:
    metrics = {"timing_s/step": 10.0, "response_length/mean": 5.0}
    text = log("0.5.0", DYNAMIC) + ("noise of a library " * 20 + "\n") * (40 * MIB // 381)
    text += "\n".join(step_line("0.5.0", number, metrics) for number in range(MOST_STEPS + 10))
    found = read(text)
    assert found.cut_bytes > 0
    assert found.configuration is not None
    assert (len(found.steps), found.steps[-1].step) == (MOST_STEPS, MOST_STEPS + 9)
