"""The report as tables for a terminal of 80 columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import isnan

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tuner.kernels.benchmark.report import (
    AdversarialReport,
    BenchmarkReport,
    HeadResult,
    HeadSource,
    HeadStatus,
    ShapeReport,
    Speed,
    Task,
)
from tuner.units import GIB

WIDTH = 80
_NONE = "-"
_TITLES = {
    "log_probs": "Log-prob",
    "entropy": "Entropy",
    "loss": "Loss",
    "d_hidden": "dHidden",
    "d_weight": "dWeight",
}
_HARD_TITLES = {name: title for name, title in _TITLES.items() if name != "loss"}

Cell = Callable[[HeadResult], str]


def _speed(find: Callable[[Speed], str | None]) -> Cell:
    return lambda head: (find(head.speed) if head.speed else None) or _NONE


_SPEED_COLUMNS: dict[str, Cell] = {
    "Forward\nms": _speed(lambda speed: f"{speed.forward.median_ms:.2f}"),
    "Both\nms": _speed(lambda speed: f"{speed.both.median_ms:.2f}"),
    "Forward\nGiB": lambda head: f"{head.peak_bytes.forward / GIB:.2f}" if head.peak_bytes else _NONE,
    "Both\nGiB": lambda head: f"{head.peak_bytes.both / GIB:.2f}" if head.peak_bytes else _NONE,
    "Of its\nfloor": _speed(lambda speed: f"{speed.share_of_products.both:.0%}"),
    "Over\nverl": _speed(
        lambda speed: f"{speed.over_verl_triton.both:.2f}x" if speed.over_verl_triton else None
    ),
}


def write_tables(report: BenchmarkReport, console: Console) -> None:
    """Write all tables of a report, with what stands behind the columns."""
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    driver = f", driver {machine.driver}" if machine.driver else ""
    console.print(_line(f"{machine.device}{driver}, {report.date}"), soft_wrap=False)
    console.print(_line(f"{versions}; {report.dtype}"))
    for shape in report.shapes:
        console.print()
        console.print(shape_tables(shape))
    if report.adversarial:
        console.print()
        console.print(adversarial_tables(report.adversarial))


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style)


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("Head")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _grouped(heads: Sequence[HeadResult]) -> Iterator[tuple[Task, list[HeadResult]]]:
    order = list(Task)
    ranked = sorted(heads, key=lambda head: order.index(head.task))
    for task, group in groupby(ranked, key=lambda head: head.task):
        yield task, list(group)


def _fill(table: Table, heads: Sequence[HeadResult], cells: Sequence[Cell]) -> None:
    """Rows, with a heading for each task but the first."""
    for number, (task, group) in enumerate(_grouped(heads)):
        if number:
            table.add_section()
            table.add_row(Text(f"{task.value}:", style="italic"), *("" for _ in cells))
        for head in group:
            style = "bold" if head.family is HeadSource.OURS else ""
            table.add_row(Text(head.name, style=style), *(cell(head) for cell in cells))


def shape_tables(shape: ShapeReport) -> RenderableType:
    """Speed, then accuracy, then what has no speed and why."""
    heads = [head for head in shape.heads if head.status in (HeadStatus.RIGHT, HeadStatus.WRONG)]
    title = f"{shape.tokens:,} tokens, hidden {shape.hidden:,}, vocabulary {shape.vocabulary:,}"
    speed = _table(title, _SPEED_COLUMNS)
    _fill(speed, heads, list(_SPEED_COLUMNS.values()))
    accuracy = _table("Error against float64, relative norm", [*_TITLES.values(), "First s"])
    _fill(accuracy, heads, [*(_error(name) for name in _TITLES), _first_call])
    products = ", ".join(f"{name} {times.median_ms:.2f}" for name, times in shape.products.items())
    notes = [_line(f"Matrix products alone, ms: {products}")] if products else []
    verdicts = dict.fromkeys(_verdict(head) for head in shape.heads if head.reason)
    for verdict in verdicts:
        names = "; ".join(head.name for head in shape.heads if head.reason and _verdict(head) == verdict)
        notes.append(_line(f"{verdict}: {names}"))
    varying = "; ".join(head.name for head in heads if head.same_bits_twice is False)
    bits = [_line(f"Other bits the second time: {varying}")] if varying else []
    return Group(speed, *notes, Text(), accuracy, *bits)


def _error(name: str) -> Cell:
    def cell(head: HeadResult) -> str:
        if name not in head.errors:
            return _NONE
        off = head.errors[name] > head.limits.get(name, float("inf"))
        return f"{head.errors[name]:.1e}" + ("!" if off else "")

    return cell


def _first_call(head: HeadResult) -> str:
    first = head.first_call_s
    return f"{first.forward + first.both:.1f}" if first else _NONE


def _verdict(head: HeadResult) -> str:
    if head.status is HeadStatus.RIGHT:
        return head.reason
    if head.status is HeadStatus.WRONG:
        return f"Wrong ({head.reason}), so no speed"
    return f"{head.status.value.capitalize()} ({head.reason})"


def adversarial_tables(reports: Sequence[AdversarialReport]) -> RenderableType:
    """One table for each vocabulary: of each head the worst over all cases, and where it is wrong."""
    tables: list[RenderableType] = []
    for vocabulary in dict.fromkeys(report.vocabulary for report in reports):
        title = f"Logits that break kernels, vocabulary {vocabulary:,}: worst errors"
        table = _table(title, _HARD_TITLES.values())
        table.add_column("Wrong with logits")
        rows = [report for report in reports if report.vocabulary == vocabulary]
        for head in dict.fromkeys(report.head for report in rows):
            _add_hard_row(table, [report for report in rows if report.head == head])
        tables.append(table)
    note = "Log-probability and entropy: absolute, of one token. Gradients: relative norm."
    return Group(*tables, _line(note))


def _add_hard_row(table: Table, cases: Sequence[AdversarialReport]) -> None:
    def worst(name: str) -> str:
        errors = [report.errors[name] for report in cases if name in report.errors]
        # A NaN is the worst, and max() would pass it over.
        return f"{max(errors, key=lambda error: (isnan(error), error)):.1e}" if errors else _NONE

    wrong = ", ".join(report.case for report in cases if report.status is not HeadStatus.RIGHT)
    style = "bold" if cases[0].family is HeadSource.OURS else ""
    table.add_row(Text(cases[0].head, style=style), *(worst(name) for name in _HARD_TITLES), wrong or _NONE)
