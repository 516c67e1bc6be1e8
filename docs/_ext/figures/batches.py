"""The batches of a job as boxes in one another: the step, a mini-batch, a GPU's share and a micro-batch."""

from collections.abc import Mapping, Sequence
from html import escape

from msgspec import Struct

import running_job
from figures import Drawing
from figures.plot import COLOURS
from tuner.render.batches import BatchRow, batch_rows
from tuner.workload import Phase, Workload

WORDS = {
    "step": "one step",
    "mini-batch": "a mini-batch: one optimizer step",
    "rank": "the share of one GPU",
    "micro-batch": "a micro-batch: one forward and backward",
    "sequences": "sequences",
    "tokens": "tokens",
    "level": "box",
    "key": "set by",
    "size": "holds",
    "number": "how many",
}
_WIDTH, _INDENT, _LINE, _BELOW = 390, 13, 17, 12


class _Box(Struct, frozen=True, kw_only=True):
    title: str
    key: str
    size: str
    number: int  # in the box around it


def _micro_batch(row: BatchRow, words: Mapping[str, str]) -> tuple[str, str]:
    """The key that bounds a micro-batch of the update, and what it holds."""
    if row.micro_batch_tokens is not None:
        return "ppo_max_token_len_per_gpu", f"{row.micro_batch_tokens:,} {words['tokens']}"
    return "ppo_micro_batch_size_per_gpu", f"{row.micro_batch_sequences:,} {words['sequences']}"


def _boxes(job: Workload, words: Mapping[str, str]) -> tuple[_Box, ...]:
    """From the outermost to the innermost."""
    (row,) = (row for row in batch_rows(job) if row.phase is Phase.UPDATE_ACTOR)
    batch, several = job.batch, words["sequences"]
    each = batch.responses_per_prompt
    mini_prompts = min(batch.mini_batch_prompts, batch.prompts)
    key, size = _micro_batch(row, words)
    return (
        _Box(
            title=words["step"],
            key="train_batch_size × n",
            size=f"{batch.prompts:,} × {each} = {batch.sequences:,} {several}",
            number=1,
        ),
        _Box(
            title=words["mini-batch"],
            key="ppo_mini_batch_size × n",
            size=f"{mini_prompts:,} × {each} = {row.sequences:,} {several}",
            number=row.optimizer_steps,
        ),
        _Box(
            title=words["rank"],
            key="n_gpus_per_node × nnodes",
            size=f"{row.sequences:,} / {row.ranks} = {row.rank_sequences:,} {several}",
            number=row.ranks,
        ),
        _Box(title=words["micro-batch"], key=key, size=size, number=row.micro_batches),
    )


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Four boxes with what sets each and how many of it the next one around holds."""
    boxes = _boxes(running_job.workload(arguments), words)
    head = 3 * _LINE + 10
    height = len(boxes) * head + (len(boxes) - 1) * _BELOW + 8
    parts = [part for depth, box in enumerate(boxes) for part in _drawn(box, depth, head, height)]
    svg = f'<svg viewBox="0 0 {_WIDTH} {height}" font-size="12">{"".join(parts)}</svg>'
    rows = tuple((box.title, box.key, box.size, f"{box.number:,}") for box in boxes)
    return Drawing(
        svg=svg, header=tuple(words[name] for name in ("level", "key", "size", "number")), rows=rows
    )


def _drawn(box: _Box, depth: int, head: int, height: int) -> list[str]:
    """One box; a second outline behind it says that there are several."""
    colour, left, top = COLOURS[depth], 2 + depth * _INDENT, 2 + depth * head
    width, tall = _WIDTH - 8 - 2 * depth * _INDENT, height - 8 - depth * (head + _BELOW)
    several = box.number > 1
    behind = _outline(left + 4, top + 4, width, tall, colour, "0") if several else ""
    times = f"{box.number:,} × " if several else ""
    return [
        behind,
        _outline(left, top, width, tall, colour, "0.1"),
        _text(left + 9, top + _LINE, f"{times}{box.title}", 'font-weight="600"'),
        _text(
            left + 9, top + 2 * _LINE, box.key, 'font-family="var(--font-stack--monospace)" font-size="11"'
        ),
        _text(left + 9, top + 3 * _LINE, box.size, ""),
    ]


def _outline(left: int, top: int, width: int, height: int, colour: str, opacity: str) -> str:
    place = f'x="{left}" y="{top}" width="{width}" height="{height}" rx="4"'
    return f'<rect {place} fill="{colour}" fill-opacity="{opacity}" stroke="{colour}"/>'


def _text(left: int, line: int, text: str, style: str) -> str:
    return f'<text x="{left}" y="{line}" fill="currentColor" {style}>{escape(text)}</text>'
