"""The workloads that the form can describe, as one workload whose numbers are not known yet.

Each field of it is resolved when the memory model asks for it. What it depends on is found by reading
configurations that differ in one answer; where it depends on two of them, the one is settled first.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from calculator import form, layers, numbers
from calculator.asking import COUNTS, asking
from calculator.form import AMOUNTS, Answers
from calculator.numbers import Fraction, NotWritableError, Number
from calculator.paths import Explorer
from calculator.reading import ABSENT, OTHER, at, code_of, kind, read_once, telling, variables
from tuner.architectures import layer_traits
from tuner.memory.rollout.kv_cache import CachedLayers, cached_layers
from tuner.workload import Workload


def _amounts() -> dict[str, Number]:
    return {one.name: numbers.symbol("form", one.name, one.low, one.high) for one in AMOUNTS}


def _stated() -> dict[str, Any]:
    """What the amounts of the form decide, by the path of the field."""
    said = _amounts()
    gpus = said["gpus"] * said["nodes"]
    stated = {
        "cluster.gpus_per_node": said["gpus"],
        "cluster.nodes": said["nodes"],
        "batch.prompts": said["prompts"],
        "batch.responses_per_prompt": said["responses"],
        "batch.mini_batch_prompts": said["mini_batch"],
        "batch.max_prompt_tokens": said["prompt"],
        "batch.max_response_tokens": said["response"],
        "rollout.gpus": gpus,
        "rollout.memory_fraction": Fraction.of(said["fraction"], numbers.constant(100)),
    }
    for engine in ("actor.engine", "reference.engine"):
        stated |= {f"{engine}.parallel.gpus": gpus, f"{engine}.parallel.shard": gpus}
    for one in ("actor.update", "actor.log_prob", "reference.log_prob"):
        stated[f"{one}.batching.token_budget"] = said["budget"]
    return stated


class Family:
    """The workloads of the form."""

    def __init__(self) -> None:
        self.names = variables()
        self.tables: dict[str, list[dict[str, Any]]] = {
            variable: [{} for _ in names] for variable, names in self.names.items()
        }
        self._made: dict[tuple[Any, ...], _Column] = {}
        self.base = {**form.start(), "reference": "kept"}
        self.stated = _stated()
        for name, row in zip(self.names["model"], self.tables["model"], strict=True):
            row["model.layers"] = _layers(name)
        self._cached = self._cached_layers()
        self._counts = {
            name: [getattr(form.model_named(one), name) for one in self.names["model"]] for name in COUNTS
        }
        self._explorer: Explorer | None = None
        self._rows = {variable: list(names) for variable, names in self.names.items()}
        self._found: dict[tuple[Any, ...], dict[str, list[Any]]] = {}

    def traced(self, layers: int, fresh: Any) -> Explorer:
        """Somebody who runs programs on this family's workload, with so many layers in its model."""
        self._explorer = Explorer(self.tables, layers, fresh)
        return self._explorer

    # -- one field ------------------------------------------------------------------------------

    def field(self, path: str) -> Any:
        """What a field is on the way that is taken: a number or one of its values."""
        if path in self.stated:
            return self.stated[path]
        if path == "model.layers":
            return layers.symbol()
        assert self._explorer is not None
        return self._explorer.once(path, lambda: self._resolved(path, {}))

    def _resolved(self, path: str, settled: Mapping[str, str]) -> Any:
        """What a field is, some variables settled."""
        found = self._columns(path, settled)
        if not found:
            return self._only(path, {**self.base, **settled})
        if len(found) == 1:
            ((variable, values),) = found.items()
            return self._picked(variable, path, values)
        fewest = min(found, key=lambda variable: len(found[variable]))
        name = self._picked(fewest, "name", self._rows[fewest])
        return self._resolved(path, {**settled, fewest: name})

    def _only(self, path: str, base: Answers) -> Any:
        """The value of a field that depends on nothing where it is."""
        value = at(read_once(base), path)
        if value is not ABSENT:
            return value
        others = (
            {**base, variable: name} for variable, names in self._variables_of(path).items() for name in names
        )
        return next(found for other in others if (found := at(read_once(other), path)) is not ABSENT)

    def _columns(self, path: str, settled: Mapping[str, str]) -> dict[str, list[Any]]:
        """The value of a field for each choice of the variables that it depends on."""
        key = (path, *settled.items())
        if key not in self._found:
            base = {**self.base, **settled}
            self._found[key] = dict(self._depending(path, base, settled))
            if telling(at(read_once(base), path)) != telling(at(read_once({**base, **OTHER}), path)):
                raise NotWritableError(f"{path} depends on an amount, and nobody says how")
        return self._found[key]

    def _depending(
        self, path: str, base: Answers, settled: Mapping[str, str]
    ) -> Iterator[tuple[str, list[Any]]]:
        for variable, names in self._variables_of(path).items():
            if variable in settled:
                continue
            values = [at(read_once({**base, variable: name}), path) for name in names]
            if len({telling(value) for value in values if value is not ABSENT}) > 1:
                yield variable, values

    def _variables_of(self, path: str) -> Mapping[str, tuple[str, ...]]:
        """The variables that a field may depend on: of the parts that say so themselves, only those."""
        for start, variable in (("model.", "model"), ("cluster.gpu.", "card")):
            if path.startswith(start):
                return {variable: self.names[variable]}
        return self.names

    def _picked(self, variable: str, path: str, values: list[Any]) -> Any:
        """A value by a choice; numbers together, anything else one after the other."""
        assert self._explorer is not None
        column = self._column(variable, path, values)
        left = [row for row in self._explorer.open_choices(variable) if values[row] is not ABSENT]
        kinds = {column.kinds[row] for row in left}
        if kinds == {"number"}:
            return column.number
        code = column.code
        if kinds == {"flag"}:
            return code == column.distinct.index(True)
        for row in left:
            if code == column.codes[row]:
                return column.number if column.kinds[row] == "number" else column.values[row]
        raise AssertionError(f"nothing is left of {path}")

    def _column(self, variable: str, path: str, values: list[Any]) -> "_Column":
        """The values of a field in the table of a variable."""
        key = (variable, path, id(values))
        if key not in self._made:
            if path == "model.architecture":
                values = [_representative(value) for value in values]
            suffix = "" if not any(path in row for row in self.tables[variable]) else f"#{len(self._made)}"
            self._made[key] = _Column(self.tables[variable], variable, path + suffix, values)
        return self._made[key]

    def count(self, name: str) -> Any:
        """How many parameters a model has in one of its parts."""
        return self._column("model", f"model.{name}", self._counts[name]).number

    def _cached_layers(self) -> dict[str, list[Any]]:
        found = []
        for name in self.names["model"]:
            job = read_once({**self.base, "model": name})
            found.append(cached_layers(job.model, job.generator))
        return {kind: [getattr(one, kind) for one in found] for kind in CachedLayers.__struct_fields__}

    def cached_layers(self) -> CachedLayers:
        """Layers with a KV cache by kind, which the dimensions of a model alone decide."""
        columns = {
            kind: self._column("model", f"cached.{kind}", values) for kind, values in self._cached.items()
        }
        return CachedLayers(**{kind: column.number for kind, column in columns.items()})

    # -- the workload ------------------------------------------------------------------------------

    def workload(self) -> Workload:
        """The workload, each field of which is resolved when it is read."""
        whole: Workload = asking(read_once(self.base), "", self)
        return whole


class _Column:
    """The values of a field for the choices of a variable, entered in its table."""

    def __init__(self, table: list[dict[str, Any]], variable: str, path: str, values: list[Any]) -> None:
        self.values = values
        self.kinds = [kind(value) for value in values]
        told = [code_of(value) for value in values]
        self.distinct = list(dict.fromkeys(told))
        self.codes = [self.distinct.index(value) for value in told]
        known = [value for value in values if kind(value) == "number"]
        for row, code, value in zip(table, self.codes, values, strict=True):
            row[f"{path}?"] = code
            row[path] = value if kind(value) == "number" else 0
        self.code = numbers.symbol(variable, f"{path}?", 0, len(self.distinct) - 1)
        self.number: Any = None
        if len(set(known)) == 1:
            self.number = known[0]
        elif known:
            self.number = numbers.symbol(variable, path, min(known), max(known))


def _layers(name: str) -> int:
    """How many layers a model has, all of which are alike."""
    model = form.model_named(name)
    if len(set(model.parameters_by_layer)) > 1 or not layers.FEW < model.layers < layers.MANY:
        raise NotWritableError(f"{name} has layers that differ, or too many or too few of them")
    return model.layers


@lru_cache
def _representative(architecture: str) -> str:
    """The first architecture whose layers compute the same."""
    alike = layer_traits(architecture)
    names = dict.fromkeys(form.model_named(model).architecture for model in form.shapes())
    return next(name for name in names if layer_traits(name) == alike)
