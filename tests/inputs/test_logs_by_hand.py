"""What stands in the lines of a log, each form on a table: printed values, commands, engines, steps, ends."""

import io
from typing import Any

import pytest

from tuner.inputs.log.command import last_command
from tuner.inputs.log.engine import engine_start, engine_version
from tuner.inputs.log.lines import LONGEST, Ends, LogLine, lines_of, read_ends
from tuner.inputs.log.mapping import begins_mapping, read_mapping
from tuner.inputs.log.metrics import MOST_STEPS, StepMetrics, last_steps, read_step
from tuner.inputs.log.run_log import is_log, read_log
from tuner.units import GIB

STEP = "step:1 - a:1"


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(text=text, number=number) for number, text in enumerate(texts, start=1)]


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("- 1", -1),
        ("1.5", 1.5),
        ("-1e-06", -1e-6),
        ("inf", float("inf")),
        ("-inf", -float("inf")),
        ("True", True),
        ("None", None),
        ("'x'", "x"),
        ("'x' 'y'", "xy"),
        ("b'x'", "b'x'"),
        ("...", "Ellipsis"),
        ("-'x'", "-'x'"),
        ("-y", "-y"),
        ("+1", "+1"),
        ("~1", "~1"),
        ("[]", []),
        ("(1, 2)", [1, 2]),
        ("{1}", [1]),
        ("[1, {'b': 2}]", [1, {"b": 2}]),
        ("{}", {}),
        ("<Role.Actor: 1>", None),
        ("Path('x')", "Path('x')"),
        ("x.y", "x.y"),
        ("1j", "1j"),
        (str(2**64), 2**64),
        (str(2**64 + 1), str(2**64 + 1)),
    ],
)
def test_a_printed_value(printed: str, value: Any) -> None:
    mapping = read_mapping(lines(f"{{'a': {{'b': {printed}}}}}"), 0, "log")
    if printed.startswith("<"):
        assert mapping is None  # no Python
        return
    assert mapping is not None
    assert (mapping.tree, mapping.line, mapping.lines) == ({"a": {"b": value}}, 1, 1)
    assert type(mapping.tree["a"]["b"]) is type(value)


def test_keys_of_a_printed_mapping_stand_on_their_lines() -> None:
    text = (
        "other",
        "{'a': {'b': 1,",
        "noise",
        "       'c': [1,",
        "             {'d': 2}]},",
        " 'e': 3}",
        "behind",
    )
    mapping = read_mapping(lines(*text), 1, "log")
    assert mapping is not None
    assert mapping.tree == {"a": {"b": 1, "c": [1, {"d": 2}]}, "e": 3}
    assert (mapping.line, mapping.lines) == (2, 5)
    found = {".".join(path): place.line for path, place in mapping.locations.items()}
    assert found == {"a": 2, "a.b": 2, "a.c": 4, "a.c.1.d": 5, "e": 6}


@pytest.mark.parametrize(
    ("text", "begins"),
    [("{'a': 1", True), ("{'a'", False), (" {'a': 1", False), ('{"a": 1', False), ("['a': 1", False)],
)
def test_how_a_mapping_begins(text: str, begins: bool) -> None:
    assert begins_mapping(text) is begins


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("step:3 - a:1", {"a": 1.0}),
        ("step:3 - a:1.500 - b/c:-2", {"a": 1.5, "b/c": -2.0}),
        ("step:3 - a:np.float64(913.2) - b:np.int64(4)", {"a": 913.2, "b": 4.0}),
        ("step:3 - a:1e-06 - b:2E+3 - c:1.", {"a": 1e-6, "b": 2000.0, "c": 1.0}),
        ("step:3 - a:True - b:False", {"a": 1.0, "b": 0.0}),
        ("step:3 - a:nan - b:inf - c:1", {"c": 1.0}),
        ("step:3 - a:-inf", None),
        ("step:3 - a:1e18 - b:1.1e18", {"a": 1e18}),
        ("step:3 - a:x", None),
        ("step:3 - a", None),
        ("step:3 - :1", {"": 1.0}),
        ("step:3 a:1", None),
        ("mystep:3 - a:1", None),
        ("x/step:3 - a:1", None),
        ("bar step:3 - a:1", {"a": 1.0}),
        ("step:1234567890 - a:1", None),
        ("step:3 - \x1b[32ma:1\x1b[0m - b:2", {"a": 1.0, "b": 2.0}),
        ("step:3 - " + "a" * 120 + ":1", {"a" * 120: 1.0}),
        ("step:3 - " + "a" * 121 + ":1", None),
        ("step:3 - a:b:1", {"a:b": 1.0}),
    ],
)
def test_the_metrics_of_a_step(text: str, values: dict[str, float] | None) -> None:
    step = read_step(text)
    assert (None if step is None else step.values) == values
    assert step is None or step.step == 3


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2, 3, 2, 3], [1, 2, 3]),
        ([1, 2, 3, 1], [1]),
        ([5, 4, 3], [3]),
        ([1, 1, 2], [1, 2]),
        ([], []),
    ],
)
def test_steps_that_are_repeated(numbers: list[int], expected: list[int]) -> None:
    steps = [
        StepMetrics(step=step, values={"n": float(place), f"v{place}": 0.0})
        for place, step in enumerate(numbers)
    ]
    read = last_steps(steps)
    assert [step.step for step in read] == expected
    for step in read:  # the last one's value, beside those of lines right before it
        assert step.values["n"] == max(place for place, number in enumerate(numbers) if number == step.step)


def test_only_the_last_steps_are_kept_and_one_step_has_the_metrics_of_all_its_lines() -> None:
    steps = [StepMetrics(step=number, values={}) for number in range(MOST_STEPS + 1)]
    assert [step.step for step in last_steps(steps)] == list(range(1, MOST_STEPS + 1))
    both = [StepMetrics(step=1, values={"a": 1.0, "b": 1.0}), StepMetrics(step=1, values={"b": 2.0})]
    assert last_steps(both) == (StepMetrics(step=1, values={"a": 1.0, "b": 2.0}),)


@pytest.mark.parametrize(
    ("texts", "command", "line"),
    [
        (["+ python a.py x.y=1"], "python a.py x.y=1", 1),
        (["++ python3 -m a x.y=1"], "python3 -m a x.y=1", 1),
        (["+++ A=1 torchrun a.py x.y=1"], "A=1 torchrun a.py x.y=1", 1),
        (["++++ python a.py x.y=1"], None, None),
        (["+python a.py x.y=1"], None, None),
        (["+ echo x.y=1"], None, None),
        (["+ python a.py"], None, None),
        (["python a.py x.y=1"], "python a.py x.y=1", 1),
        (["python a.py x=1"], None, None),
        (["$ python a.py x.y=1"], "python a.py x.y=1", 1),
        (["user@host:~$ /usr/bin/python3 a.py x.y=1"], "/usr/bin/python3 a.py x.y=1", 1),
        (["root@host x# ray job submit -- python a.py x.y=1"], "ray job submit -- python a.py x.y=1", 1),
        (["# python a.py x.y=1"], None, None),
        (["nohup python a.py x.y=1"], "nohup python a.py x.y=1", 1),
        (["uv run python a.py x.y=1"], "uv run python a.py x.y=1", 1),
        (["accelerate launch a.py x.y=1"], "accelerate launch a.py x.y=1", 1),
        (["perl a.py x.y=1"], None, None),
        (["a", "python a.py \\", "  x.y=1 \\", "  x.z=2", "x.w=3"], "python a.py \\\n  x.y=1 \\\n  x.z=2", 2),
        (["python a.py x.y=1", "python b.py x.y=2", "end"], "python b.py x.y=2", 2),
        (["+ python a.py x.y=1", "python b.py x.y=2"], "python a.py x.y=1", 1),
        (["+ python a.py x.y=1", "+ python b.py x.y=2"], "python b.py x.y=2", 2),
        (["python a.py x.y=1", *["python b.py"] * 49], "python a.py x.y=1", 1),
        (["python a.py x.y=1", *["python b.py"] * 50], None, None),
    ],
)
def test_the_command_of_a_log(texts: list[str], command: str | None, line: int | None) -> None:
    found = last_command(lines(*texts))
    assert (None if found is None else (found.text, found.line)) == (command and (command, line))
    assert found is None or found.index == (line or 0) - 1


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Initializing a V1 LLM engine (v0.11.0) with config: model", "0.11.0"),
        ("Initializing an LLM engine (v0.8.5.post1) with", "0.8.5"),
        ("vLLM API server version 0.11.0", "0.11.0"),
        ("LLM engine (vx)", "9.9"),
        ("version 1.0", "9.9"),
    ],
)
def test_the_version_of_an_engine(text: str, version: str) -> None:
    assert engine_version(lines("x", text, "LLM engine (v9.9)")) == version


@pytest.mark.parametrize(
    ("texts", "figures"),
    [
        (["GPU KV cache size: 1,234,567 tokens"], {"cache_tokens": 1_234_567}),
        (["max_total_num_tokens=1000, chunked_prefill_size=2, context_len=32768"], {"cache_tokens": 1000}),
        (["# cuda blocks: 27,000, # CPU blocks: 3"], {"cache_blocks": 27_000}),
        (["# GPU blocks: 5"], {"cache_blocks": 5}),
        (["KV max_seq_len=4096,"], {"sequence_tokens": 4096}),
        (["{'max_model_len': 2048}"], {"sequence_tokens": 2048}),
        (["Maximum concurrency for 8,192 tokens per request: 2x"], {"sequence_tokens": 8192}),
        (["Available KV cache memory: 10.5 GiB"], {"cache_bytes": int(10.5 * GIB)}),
        (["the rest of the memory reserved for KV Cache is 2GiB"], {"cache_bytes": 2 * GIB}),
        (["# GPU blocks: 7", "# GPU blocks: 5", "# GPU blocks: 6"], {"cache_blocks": 5}),
        (["# GPU blocks: 7", "step:0 - a:1", "# GPU blocks: 5"], {"cache_blocks": 5}),
        (["# GPU blocks: 7", STEP, "# GPU blocks: 5"], {"cache_blocks": 7}),
        ([STEP, "# GPU blocks: 5"], None),
        (["nothing"], None),
    ],
)
def test_what_an_engine_starts_with(texts: list[str], figures: dict[str, int] | None) -> None:
    start = engine_start(lines(*texts))
    if figures is None:
        assert start is None
        return
    if "context_len" in texts[0]:
        figures = {**figures, "sequence_tokens": 32768}
    assert start is not None
    named = {
        name: getattr(start, name) for name in start.__struct_fields__ if getattr(start, name) is not None
    }
    assert named == figures


class Pipe(io.BytesIO):
    """A stream that cannot go back."""

    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("start", "size", "end_bytes", "beginning", "end", "cut"),
    [
        (b"", 10, 5, b"0123456789", b"", 0),
        (b"", 11, 5, b"01234", b"67890", 1),
        (b"ab", 7, 5, b"ab0123456", b"", 0),
        (b"ab", 9, 5, b"ab012", b"45678", 1),
        (b"abcdefgh", 4, 5, b"abcdefgh0123", b"", 0),
        (b"abcdefgh", 6, 5, b"abcdefgh", b"12345", 1),
    ],
)
def test_both_ends_of_a_file(
    start: bytes, size: int, end_bytes: int, beginning: bytes, end: bytes, cut: int
) -> None:
    content = (b"0123456789" * 3)[:size]
    expected = Ends(beginning=beginning, end=end, cut_bytes=cut)
    assert read_ends(start, io.BytesIO(content), end_bytes=end_bytes) == expected
    if cut == 0:
        assert read_ends(start, Pipe(content), end_bytes=end_bytes) == expected


def test_lines_have_numbers_up_to_the_cut() -> None:
    cut = Ends(beginning=b"a\r\nb\npart", end=b"rest\nc\nd", cut_bytes=5)
    assert [(line.text, line.number) for line in lines_of(cut)] == [
        ("a", 1),
        ("b", 2),
        ("part", 3),
        ("c", None),
        ("d", None),
    ]
    [line] = lines_of(Ends(beginning=b"x" * (LONGEST + 1)))
    assert len(line.text) == LONGEST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step:1 - actor/loss:1", True),
        ("mystep:1 - actor/loss:1", False),
        ("(TaskRunner pid=123) x", True),
        ("(TaskRunner x pid=123) x", True),
        (" (TaskRunner pid=123) x", False),
        ("Error executing job with overrides: ['a=1']", True),
        ("{'a': {'b': 1", True),
        ("{'a': 1", False),
        ("+ python a.py", True),
        ("++ A=1 /usr/bin/torchrun a.py", True),
        ("+ echo", False),
        ("Traceback (most recent call last):", True),
        ("x Traceback (most recent call last):", False),
        ("#!/bin/bash\n+ python a.py", False),
        ("a: 1", False),
    ],
)
def test_what_is_a_log(text: str, expected: bool) -> None:
    assert is_log(f"{text}\n".encode()) is expected
    assert is_log(f"a\n{text}\n".encode()) is (expected or text.startswith("#!"))


def logged(*texts: str) -> Any:
    return read_log("log", Ends(beginning="\n".join(texts).encode()))


def test_the_largest_of_the_last_mappings_is_the_configuration() -> None:
    def mapping(name: str, leaves: int) -> str:
        return f"{{'{name}': {{{', '.join(f'{chr(39)}k{n}{chr(39)}: {n}' for n in range(leaves))}}}}}"

    def name(*texts: str) -> list[str]:
        configuration = logged(*texts).configuration
        return [] if configuration is None else list(configuration.tree)

    assert name(mapping("a", 4)) == ["a"]
    assert name(mapping("a", 4), mapping("b", 2)) == ["b"]
    assert name(mapping("a", 5), mapping("b", 2)) == ["a"]
    assert name(mapping("a", 2), mapping("b", 5)) == ["b"]
    assert name("{'a': 1, 'b': 2}") == []


def test_overrides_steps_and_the_command_of_a_log() -> None:
    log = logged(
        "+ python a.py x.y=1", "step:1 - a:1", "Error executing job with overrides: ['x.y=1', 'x.z=a b']"
    )
    assert (log.overrides, log.overrides_line) == (("x.y=1", "x.z=a b"), 3)
    assert (log.command, log.command_line) == ("python a.py x.y=1", 1)
    assert [step.step for step in log.steps] == [1]
    assert logged("step:1 - a:1", "+ python a.py x.y=1").steps[0].step == 1  # a report
    assert [s.step for s in logged("step:1 - a:1", "+ python a.py x.y=1", "step:7 - a:1").steps] == [7]
    assert logged("Error executing job with overrides: ['x.y=1', 'x.z").overrides == ()
    assert logged("Error executing job with overrides: ['x.y=1', 3] x").overrides == ("x.y=1",)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("INFO: GPU KV cache size: 1,234 tokens", "cache_tokens", 1234),
        ("max_total_num_tokens=77", "cache_tokens", 77),
        ("# GPU blocks: 55, # CPU blocks: 0", "cache_blocks", 55),
        ("max_seq_len=4096", "sequence_tokens", 4096),
        ("non-default args: {'max_model_len': 2048}", "sequence_tokens", 2048),
        ("Maximum concurrency for 8,192 tokens per request: 3.1x", "sequence_tokens", 8192),
    ],
)
def test_each_figure_of_an_engine_s_start_is_read_where_it_stands_alone(
    line: str, name: str, value: int
) -> None:
    start = engine_start(lines(line))
    assert start is not None
    assert getattr(start, name) == value
