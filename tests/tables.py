"""The tables of examples beside the verl trainer: what they say, and what the real path makes of it.

A table is ``tuner/trainers/verl/examples/<rule>.yaml``; bases are in ``bases.yaml`` there. A table is
about the rule it names, and only that rule is judged on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from tests.loading import load
from tuner import rules
from tuner.advise import Written, advise
from tuner.errors import TunerError
from tuner.findings import Finding
from tuner.gpus import find_gpu
from tuner.hardware import Cluster
from tuner.inputs.settings import Settings
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.rules.case import Case
from tuner.trainers import verl
from tuner.trainers.protocol import Loaded
from tuner.trainers.verl import checks
from tuner.workload import ANY_LENGTHS, Lengths, ServiceRole, Workload

EXAMPLES = Path(verl.__file__).parent / "examples"
HEADROOM = 0.1
_BASE_FIELDS = ("model", "gpu", "gpus_per_node", "nodes", "version")
_FIELDS = (*_BASE_FIELDS, "engine_version", "zero_advantage_ratio", "program", "folder")


@dataclass(frozen=True, kw_only=True)
class Base:
    """A configuration that examples start from."""

    name: str
    model: str
    gpu: str
    gpus_per_node: int
    nodes: int
    version: str
    overrides: tuple[str, ...]
    engine_version: str | None = None  # of the rollout engine; None: the newest that the release allows
    zero_advantage_ratio: float | None = None  # what the option says
    program: str = ""  # that a launch starts; empty of settings alone
    folder: str = ""  # of this repository, in which it lies; empty where nobody says
    model_key: str = "actor_rollout_ref.model.path"  # the key of the model, by the program that reads it


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case of a table."""

    name: str
    base: Base
    set: tuple[str, ...]
    finds: bool
    proposes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The examples of one rule or check.

    ``judged_by`` says what shows that a rule's proposal serves its goal, where it is not the goal's usual
    figure; ``settings`` are the assignments that do, where no figure does; ``remedy`` stands for the
    proposal of a rule that makes none; ``no_remedy`` says why no release has one.
    """

    rule: str
    base: Base
    bad_base: Base  # the same, with what options say of the bad example
    bad: tuple[str, ...]
    rows: tuple[Row, ...]
    judged_by: str | None
    settings: tuple[str, ...]
    remedy: tuple[str, ...]
    no_remedy: str | None


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A configuration as the program sees it."""

    loaded: Loaded
    workload: Workload

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def version(self) -> str:
        return self.loaded.version


def names() -> list[str]:
    """The rules that have a table."""
    return sorted(path.stem for path in EXAMPLES.glob("*.yaml") if path.stem != "bases")


@cache
def bases() -> dict[str, Base]:
    """The named bases."""
    return {
        name: Base(name=name, **{**body, "overrides": tuple(body["overrides"])})
        for name, body in _read(EXAMPLES / "bases.yaml").items()
    }


@cache
def table(rule: str) -> Table:
    """The table of a rule."""
    raw = _read(EXAMPLES / f"{rule}.yaml")
    bad_base = _base(bases()[raw["base"]], raw)
    base = replace(bad_base, engine_version=None, zero_advantage_ratio=None, program="", folder="")
    known = {"rule", "base", "bad", "cases", "judged_by", "settings", "remedy", "no_remedy", *_FIELDS}
    unknown = set(raw) - known
    assert not unknown, f"{rule}.yaml: {unknown}"
    return Table(
        rule=raw["rule"],
        base=base,
        bad_base=bad_base,
        bad=tuple(raw["bad"]),
        rows=tuple(_row(case, base) for case in raw["cases"]),
        judged_by=raw.get("judged_by"),
        settings=tuple(raw.get("settings", ())),
        remedy=tuple(raw.get("remedy", ())),
        no_remedy=raw.get("no_remedy"),
    )


def given(base: Base, overrides: Sequence[str] = ()) -> list[str]:
    """What a person types for a base with overrides on top."""
    return [
        f"{base.model_key}={base.model}",
        f"trainer.n_gpus_per_node={base.gpus_per_node}",
        f"trainer.nnodes={base.nodes}",
        *base.overrides,
        *overrides,
    ]


def scene(base: Base, overrides: Sequence[str] = (), *, lengths: Lengths | None = None) -> Scene:
    """Load, read and resolve a base with overrides on top, as the command line does."""
    return _scene(base, tuple(overrides), lengths)


@lru_cache(maxsize=1000)  # several laws ask of the same one
def _scene(base: Base, overrides: tuple[str, ...], lengths: Lengths | None) -> Scene:
    folder = str(EXAMPLES.parents[3] / base.folder) if base.folder else ""
    loaded = load(None, given(base, overrides), version=base.version, program=base.program, folder=folder)
    critic = loaded.critic_model_path()
    per_node, nodes = loaded.cluster_size()
    workload = loaded.workload(
        model=find_model(loaded.model_path() or base.model),
        critic_model=find_model(critic) if critic else None,
        cluster=Cluster(
            gpu=find_gpu(base.gpu),
            gpus_per_node=per_node,
            nodes=nodes,
            network_bytes_per_s=50e9,
            host_memory_bytes=None,
        ),
        rollout_engine_version=base.engine_version,
        lengths=lengths or ANY_LENGTHS,
        zero_advantage_ratio=base.zero_advantage_ratio,
        service_models=_service_models(loaded),
    )
    return Scene(loaded=loaded, workload=workload)


def _service_models(loaded: Loaded) -> dict[str, ModelShape]:
    """The models of reward models and teachers; of a teacher whose name is made up nothing is known."""
    models: dict[str, ModelShape] = {}
    for role, path in loaded.service_paths():
        if path and (role is ServiceRole.REWARD or "/" in path):
            models[path] = find_model(path)
    return models


class SceneReading:
    """A base as advice reads it, through the trainer."""

    releases = None

    def __init__(self, base: Base, overrides: Sequence[str] = ()) -> None:
        self._base, self._overrides = base, tuple(overrides)
        self._scene = scene(base, overrides)
        self.workload = self._scene.workload
        self.findings = check_findings(self._scene)

    def write(self, proposal: Workload) -> Written:
        it = self._scene
        return it.loaded.override_writer(it.workload)(proposal)

    def averages_elsewhere(self) -> bool:
        return False

    def serving_releases(
        self, overrides: tuple[str, ...], serves: Callable[[Workload, Workload], bool]
    ) -> str:
        return ""

    def adding(self, overrides: Sequence[str]) -> "SceneReading":
        try:
            return SceneReading(self._base, (*self._overrides, *overrides))
        except TunerError as error:
            raise ValueError(str(error)) from error


def combined(base: Base) -> Scene:
    """A base with the advised combination followed."""
    combination = advise(SceneReading(base), headroom=HEADROOM).combination
    assert combination is not None
    return scene(base, combination.overrides)


def check_findings(it: Scene) -> list[Finding]:
    """What the checks say."""
    return checks.run(it.settings, it.workload, version=it.version)


def rule_findings(it: Scene, *, headroom: float = HEADROOM) -> list[Finding]:
    """What the rules say."""
    return rules.run(Case.of(it.workload, headroom=headroom))


def _row(raw: dict[str, Any], base: Base) -> Row:
    unknown = set(raw) - {"name", "base", "set", "finds", "proposes", *_FIELDS}
    assert not unknown, f"{raw['name']}: {unknown}"
    return Row(
        name=raw["name"],
        base=_base(bases()[raw["base"]] if "base" in raw else base, raw),
        set=tuple(raw.get("set", ())),
        finds=raw["finds"],
        proposes=tuple(raw.get("proposes", ())),
    )


def _base(base: Base, raw: dict[str, Any]) -> Base:
    return replace(base, **{field: raw[field] for field in _FIELDS if field in raw})


def _read(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    assert isinstance(content, dict), path
    return content
