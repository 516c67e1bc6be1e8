"""No fact is written down twice: no two classes have the same fields, but for those that are argued here."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, combinations
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tuner"
LEAST = 3  # fields of one name, from which on two classes may say the same
SHARE = 0.6  # of the fields of the smaller class, where they have one type as well
KINDS = ("Struct", "BaseModel", "NamedTuple")


RECORDER, OFFER = "tuner/inside_verl/record/recorder.py:_Open", "tuner/advise/remedies.py:_Offer"
STANDS = "tuner/render/checked/lines.py:_Stands"

#: Why two classes have the same fields and are two all the same.
ARGUED: dict[str, tuple[tuple[str, str], ...]] = {
    "The file that is sent is flat, and its settings are chosen by a module that knows nothing of the rest": (
        ("Bundle", "SentSettings"),
    ),
    "a finding as a report has it: rule, finding and price in one row, overrides without what is secret": (
        ("FindingReport", "Recommendation"),
        ("FindingReport", "Refusal"),
        ("FindingReport", OFFER),
    ),
    "what is known of a project, and what of it settings need whatever trainer they are for": (
        ("Fork", "SettingsReader"),
    ),
    "values of fields in words of a language, where the model has the values": (
        ("FieldChange", "FieldReport"),
        ("Difference", "DifferenceReport"),
    ),
    "the premises of one answer, of one side of two, of one input of many: each a selection of its own": (
        ("JudgedFor", "PremisesReport"),
        ("HeadContext", "SideReport"),
    ),
    "a change before its price, after it, in a block, beside one, where a launch is refused, memory ran "
    "out": (
        ("Addition", "Refusal"),
        ("Contribution", "Recommendation"),
        ("Contribution", "Refusal"),
        ("FollowedFinding", "Recommendation"),
        ("FollowedFinding", "Refusal"),
        ("Lengthening", "Refusal"),
        ("Lengthening", "Remedy"),
        ("Lengthening", OFFER),
        ("Recommendation", "Refusal"),
        ("Recommendation", OFFER),
        ("Refusal", "Remedy"),
        ("Refusal", OFFER),
        ("Remedy", OFFER),
    ),
    "what a package brings on top of the job or its block, with all that is found, and on top of a setting": (
        ("Addition", "PackageGain"),
    ),
    "settings on a release, as two trainers have them: both fulfil the protocol, and share no member": (
        ("LoadedConfiguration", "LoadedNemoConfiguration"),
    ),
    "a rule that there is, and one that is gone": (("Retired", "Rule"),),
    "one text with its place: an argument, and what is open of it": (
        ("OpenArgument", "Override"),
        ("OpenArgument", "Unknown"),
        ("OpenValue", "Override"),
        ("OpenValue", "Unknown"),
        ("OpenArgument", "UndecidedPart"),
        ("OpenValue", "UndecidedPart"),
        ("Override", "UserSetting"),
    ),
    "a key with its value: as it is read, as it differs, as it is left out": (
        ("KeyState", "Setting"),
        ("KeyStateReport", "Setting"),
        ("LeftOut", "Setting"),
        ("LeftOutReport", "Setting"),
    ),
    "lines of a file that another process writes while it runs, each read by itself": (
        ("Begin", "Ended"),
        ("Begin", RECORDER),
        ("Ended", "PhasePeak"),
        ("RecordProcess", "VerlWorker"),
    ),
    "what a person may write, beside what it comes to for one input": (
        ("FindingChoice", "Selection"),
        ("FindingOptions", "Selection"),
        ("PerFile", "Selection"),
        ("ProjectSettings", "Selection"),
        ("Lengths", "Premises"),
        ("Budget", "PhaseBudget"),
    ),
    "a part of a whole, by which something is remembered, or that another release has": (
        ("CacheSizing", "Rollout"),
        ("Engine", "SecondFsdp"),
        ("JudgeInput", "RolloutInput"),
        ("JudgeInput", "ValidationWorkload"),
        ("JudgeInput", "Workload"),
        (STANDS, "FindingLine"),
    ),
    "one word for two things: a sparse indexer has heads too, a content a name, a tensor a backward pass": (
        ("FoundConfig", "ModelShape"),
        ("FoundConfig", "RecordedModel"),
        ("ModelShape", "SparseIndexer"),
        ("RecordedModel", "SparseIndexer"),
        ("LayerBytes", "LogitCopies"),
        ("Linear", "TracedLinear"),
        ("Actor", "Critic"),
        ("Edit", "Excerpt"),
    ),
    "a size that is measured in bytes, and a share of a rate that is reached": (("Attained", "Constant"),),
    "groups of sequences that wait in one, that run in the other, counted in the innermost loop": (
        ("SequenceGroup", "Waiting"),
    ),
    "two summaries of the same groups of measurements": (("Ratios", "Series"),),
    "measured files, whose forms are older than one another": (
        ("HostMachine", "Operators"),
        ("HostOfExperts", "HostSeconds"),
    ),
    "a file as it is read, whoever wrote it and however much of it, and the one that is written here": (
        ("MeasuredFile", "ValidationFile"),
    ),
    "a head on one shape, and on logits that break kernels: other errors, none of the seconds": (
        ("AdversarialReport", "HeadResult"),
    ),
    "a comment, and what it says where it ignores findings": (("Comment", "Suppression"),),
    "what a fixed file was and is; what is kept of many has no findings, which are stored apart": (
        ("FileFixes", "FixedFile"),
    ),
    "keys under one reason: without an effect, or left out with what is missing": (("IdleKeys", "Omission"),),
    "parts of a document, which a writer sets each in its own way": (
        ("Entry", "Heading"),
        ("Entry", "Paragraph"),
        ("Heading", "Paragraph"),
        ("Paragraph", "Paste"),
    ),
}


def classes_in(file: str, text: str) -> list[tuple[str, ast.ClassDef]]:
    return [(file, node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]


@cache
def sources() -> tuple[tuple[str, ast.ClassDef], ...]:
    paths = sorted(PACKAGE.rglob("*.py"))
    files = (
        (path.relative_to(PACKAGE.parent).as_posix(), path.read_text(encoding="utf-8")) for path in paths
    )
    return tuple(chain.from_iterable(classes_in(file, text) for file, text in files))


def key_of(file: str, name: str) -> str:
    """A class by its name, which it alone has; a private one by its file as well."""
    return f"{file}:{name}" if name.startswith("_") else name


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def type_of(node: ast.expr) -> str:
    """A type without what is said of it, whether it is quoted or not."""
    if isinstance(node, ast.Subscript) and name_of(node.value) == "Annotated":
        assert isinstance(node.slice, ast.Tuple)
        return type_of(node.slice.elts[0])
    return ast.unparse(node).strip("'")


class Fields:
    """The classes with fields in some sources: their own fields, and the classes that they extend."""

    def __init__(self, classes: Iterable[tuple[str, ast.ClassDef]]) -> None:
        self.own: dict[str, dict[str, str]] = {}
        self.bases: dict[str, list[str]] = {}
        self.above = cache(self._find_above)  # a class and all that it extends
        self.fields = cache(self._find_fields)  # of a class and of all that it extends
        for file, node in classes:
            key = key_of(file, node.name)
            bases = (key_of(file, name_of(base)) for base in node.bases)
            self.bases[key] = [base for base in bases if base != key]
            self.own[key] = {
                line.target.id: type_of(line.annotation)
                for line in node.body
                if isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and "ClassVar" not in ast.unparse(line.annotation)
            }

    def _find_above(self, name: str) -> set[str]:
        return {name}.union(*(self.above(base) for base in self.bases.get(name, ())))

    def _find_fields(self, name: str) -> dict[str, str]:
        inherited = [self.fields(base) for base in self.bases.get(name, ())]
        return {
            field: kind for fields in (*inherited, self.own.get(name, {})) for field, kind in fields.items()
        }

    def mirrors(self, of: str = "") -> Iterator[tuple[frozenset[str], list[str]]]:
        """Pairs of classes that have the same fields, or of which one has all names of the other one's.

        Args:
            of: one of them, where a class is named.
        """
        classes = [name for name in self.own if self.above(name).intersection(KINDS)]
        fields = {name: self.fields(name) for name in classes}
        for one, other in (
            combinations(classes, 2) if not of else ((of, name) for name in classes if name != of)
        ):
            names = fields[one].keys() & fields[other].keys()
            if len(names) < LEAST:
                continue
            for base in self.above(one) & self.above(other):
                names -= set(self.fields(base))  # which stand there once
            smaller = min(len(fields[one]), len(fields[other]))
            alike = {name for name in names if fields[one][name] == fields[other][name]}
            if len(names) >= LEAST and (len(names) == smaller or len(alike) >= max(LEAST, SHARE * smaller)):
                yield frozenset((one, other)), sorted(names)


@cache
def mirrors() -> dict[frozenset[str], list[str]]:
    return dict(Fields(sources()).mirrors())


def argued() -> set[frozenset[str]]:
    return {frozenset(pair) for pairs in ARGUED.values() for pair in pairs}


def test_no_two_classes_say_the_same() -> None:
    assert {tuple(sorted(pair)): names for pair, names in mirrors().items() if pair not in argued()} == {}


def test_what_is_argued_is_there() -> None:
    assert argued() - mirrors().keys() == set()


PLANTED = {
    "as it is": "class Row(Struct):\n    phase: Phase\n    own: tuple[Moment, ...]\n    resident: Moment\n",
    "described": (
        "class Row(Struct, frozen=True):\n    name: Annotated[str, Meta(description='d')]\n"
        "    code: 'str'\n    summary: str\n    since: str\n    more: int\n"
    ),
    "with other types": "class Row(NamedTuple):\n    phase: str\n    own: Any\n    resident: int | None\n",
    "below a base": (
        "class _Base(msgspec.Struct):\n    phase: Phase\n    own: tuple[Moment, ...]\n"
        "class Row(_Base):\n    resident: Moment\n"
    ),
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_mirror_is_found(text: str) -> None:
    pairs = Fields([*sources(), *classes_in("planted.py", text)]).mirrors("Row")
    assert any("Row" in pair and pair & {"PhaseEstimate", "Rule"} for pair, _ in pairs)


def test_what_extends_a_class_is_no_mirror_of_it() -> None:
    text = "class Row(PhaseEstimate):\n    seconds: float\n"
    pairs = Fields([*sources(), *classes_in("planted.py", text)]).mirrors("Row")
    assert not any("Row" in pair for pair, _ in pairs)
