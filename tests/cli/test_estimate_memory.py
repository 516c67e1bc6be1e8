import json

import jsonschema
import pytest

from tests.cli.golden import expect
from tests.cli.runner import run
from tests.workloads import QWEN25_7B
from tuner.consultation.head import HeadSizes, head_rows, token_rows
from tuner.dtypes import DType
from tuner.render.head_table import head_text
from tuner.render.schemas import schema
from tuner.render.terminal import Terminal

SIZES = HeadSizes(tokens=16384, vocab=152064, hidden=3584, dtype=DType.BFLOAT16)
LOGITS = 16384 * 152064 * 2


def test_a_row_for_every_way() -> None:
    rows = {row.name: row for row in head_rows(SIZES)}
    assert len(rows) == 11
    assert rows["compiled"].forward_bytes == LOGITS
    assert rows["compiled"].training_entropy_bytes == 3 * LOGITS
    assert rows["eager"].training_entropy_bytes == 13 * LOGITS
    assert all(row.forward_bytes <= row.forward_entropy_bytes for row in rows.values())
    assert rows["fused, Triton"].training_entropy_bytes < LOGITS


def test_tokens_of_a_model() -> None:
    rows = {row.name: row for row in token_rows(SIZES, QWEN25_7B)}
    assert rows["KV cache"].bytes_per_token == 2 * 4 * 128 * 28 * 2
    assert rows["activations, checkpointed"].bytes_per_token == 3584 * 2 * 28
    assert rows["activations, all kept"].bytes == 16384 * rows["activations, all kept"].bytes_per_token


def test_both_tables_at_80_columns() -> None:
    text = head_text(SIZES, QWEN25_7B, Terminal(width=80))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "17,437,294,592" not in text
    expect("estimate-memory.txt", text)


def test_k_is_1000_for_vocabulary_and_1024_for_tokens() -> None:
    result = run("estimate-memory", "--vocab", "152k", "--tokens", "16k", "--output-format", "json")
    report = json.loads(result.out)
    jsonschema.validate(report, schema("estimate"), cls=jsonschema.Draft202012Validator)
    assert report["sizes"] == {"tokens": 16384, "vocab": 152000, "hidden": 3584, "dtype": "bfloat16"}
    assert report["published_rule_bytes"] == 7 * 16384 * 152000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--vocab"),
        (("--vocab", "many"), "'many' is not a count"),
        (("--vocab", "152k", "--tokens", "0"), "at least 1"),
        (("--vocab", "152k", "--dtype", "int5"), "unknown dtype 'int5'"),
    ],
)
def test_bad_sizes_end_in_one_message(arguments: tuple[str, ...], message: str) -> None:
    result = run("estimate-memory", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert len(result.err.splitlines()) == 1
