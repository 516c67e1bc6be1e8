"""``.. operator-table:: products`` and the like: what was measured of operators, by shape and card."""

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner import shipped

_SIZES = {"products": "Hidden size", "attention": "Head size", "grouped": "Expert width"}
_OPERATIONS = ("norm", "rotary", "gate", "residual")


class OperatorTable(SphinxDirective):
    """Forward and backward shares in percent, a column for each number of tokens."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """One row for each size on each card."""
        operation = self.arguments[0]
        cards = _cards(self)
        tokens = sorted({count for card in cards for count in card[operation]["tokens"]})
        rows = [row for card in cards for row in _rows(card, operation, tokens)]
        return _with_numbers(
            table(self, ["Card", _SIZES[operation], *(f"{count:,}" for count in tokens)], rows)
        )


class TrafficTable(SphinxDirective):
    """Bytes per value of element-wise operations forward and backward, a column for each number of values."""

    def run(self) -> list[nodes.Node]:
        """One row for each operation on each card."""
        cards = _cards(self)
        values = cards[0]["elementwise"]["values"]
        rows = [
            [
                f"``{card['gpu']}``" if name == _OPERATIONS[0] else "",
                name,
                *_traffic(card["elementwise"][name]),
            ]
            for card in cards
            for name in _OPERATIONS
        ]
        heads = ["Card", "Operation", *(f"2^{int(count).bit_length() - 1}" for count in values)]
        return table(self, heads, rows)


class HostTable(SphinxDirective):
    """What the host needs for one layer, by engine, in milliseconds."""

    def run(self) -> list[nodes.Node]:
        """One row for each machine, engine, number of ranks and width."""
        rows = [
            [
                f"``{card['gpu']}``",
                machine.get("host_date", machine.get("date", "–")),
                str(layer["ranks"]),
                layer["engine"],
                f"{layer['hidden']:,}",
                *(_milliseconds(layer[key]) for key in ("forward_s", "kept_s", "forward_backward_s")),
            ]
            for card in _cards(self)
            for machine in (card, *card.get("host_on_other_machines", ()))
            for layer in machine.get("host", ())
        ]
        columns = [
            "Beside",
            "Date",
            "Ranks",
            "Engine",
            "Hidden size",
            "Forward",
            "With backward",
            "With recomputation",
        ]
        return table(self, columns, rows)


class RoutingTable(SphinxDirective):
    """Bytes per hidden value of routing tokens to experts, forward and backward, by tokens."""

    def run(self) -> list[nodes.Node]:
        """One row for each card on which it was measured."""
        cards = [card for card in _cards(self) if "routing" in card]
        rows = [[f"``{card['gpu']}``", *_traffic(card["routing"])] for card in cards]
        return table(self, ["Card", *(f"{count:,}" for count in cards[0]["routing"]["tokens"])], rows)


class ReadsTable(SphinxDirective):
    """Terabytes per second at which a decoding step reads its cache or its weights."""

    required_arguments = 1
    _KINDS: ClassVar[dict[str, tuple[str, str, int, str, int]]] = {
        "cache_reads": ("Tokens of a sequence", "contexts", 1, "token_bytes", 1 << 10),
        "weight_reads": ("MiB", "bytes", 1 << 20, "rows", 1),
    }

    def run(self) -> list[nodes.Node]:
        """One row for each size on each card where it was measured."""
        kind = self.arguments[0]
        title, rows_key, row_unit, columns_key, column_unit = self._KINDS[kind]
        rows, columns = [], []
        for card in _cards(self):
            if (reads := card.get(kind)) is None:
                continue
            columns = [f"{size // column_unit:,}" for size in reads[columns_key]]
            made = next(
                f"{name} {reads[key]}" for key, name in (("vllm", "vLLM"), ("torch", "torch")) if key in reads
            )
            for index, (size, rates) in enumerate(zip(reads[rows_key], reads["bytes_per_s"], strict=True)):
                name = f"``{card['gpu']}``, {made}, {reads['date']}" if index == 0 else ""
                rows.append([name, f"{size / row_unit:,.0f}", *(f"{rate / 1e12:.2f}" for rate in rates)])
        return _with_numbers(table(self, ["Card", title, *columns], rows))


class CollectivesTable(SphinxDirective):
    """Milliseconds of collectives between the GPUs of one machine, a column for each kind."""

    _KINDS: ClassVar[dict[str, str]] = {
        "all_gather": "All-gather",
        "reduce_scatter": "Reduce-scatter",
        "all_reduce": "All-reduce",
        "all_to_all": "All-to-all",
    }

    def run(self) -> list[nodes.Node]:
        """One row for each number of bytes between as many GPUs of a card."""
        rows = []
        for card in _cards(self):
            for measured in card.get("collectives", ()):
                versions = measured["versions"]
                made = f"torch {versions['torch']}, NCCL {versions['nccl']}, {measured['date']}"
                for index, size in enumerate(measured["bytes"]):
                    name = f"{measured['ranks']} x ``{card['gpu']}``, {made}" if index == 0 else ""
                    times = (f"{1e3 * measured[kind][index]:.3f}" for kind in self._KINDS)
                    rows.append([name, f"{size / 2**20:,.{0 if size >= 2**20 else 3}f}", *times])
        return table(self, ["GPUs", "MiB", *self._KINDS.values()], rows)


def _with_numbers(made: list[nodes.Node]) -> list[nodes.Node]:
    """Numbers are no texts to be translated."""
    for node in made:
        for title in node.findall(nodes.TextElement):
            if title.astext().replace(",", "").isdigit():
                title["translatable"] = False
    return made


def _cards(directive: SphinxDirective) -> list[dict[str, Any]]:
    files = sorted((shipped.profiles() / "operators").glob("*.json"))
    for file in files:
        directive.env.note_dependency(str(file))
    return [_content(file) for file in files]


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e3 * seconds:.2f}"


def _traffic(operation: dict[str, list[float]]) -> list[str]:
    pairs = zip(operation["forward"], operation["backward"], strict=True)
    return [f"{forward:.0f} / {max(0.0, backward):.0f}" for forward, backward in pairs]


def _content(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _rows(card: dict[str, Any], operation: str, tokens: list[int]) -> list[list[str]]:
    shares = card[operation]
    rows = []
    for index, size in enumerate(shares["sizes"]):
        columns = zip(shares["tokens"], shares["forward"][index], shares["backward"][index], strict=True)
        cells = {count: (forward, backward) for count, forward, backward in columns}
        name = f"``{card['gpu']}``, torch {card['versions']['torch']}, {card['date']}" if index == 0 else ""
        rows.append([name, f"{size:,}", *(_cell(cells.get(count)) for count in tokens)])
    return rows


def _cell(pair: tuple[float, float] | None) -> str:
    return "–" if pair is None else f"{100 * pair[0]:.0f} / {100 * pair[1]:.0f}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("operator-table", OperatorTable)
    app.add_directive("traffic-table", TrafficTable)
    app.add_directive("host-table", HostTable)
    app.add_directive("routing-table", RoutingTable)
    app.add_directive("reads-table", ReadsTable)
    app.add_directive("collectives-table", CollectivesTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
