"""Which keys of a configuration the code of a copy of the trainer reads.

A key in the copy's YAML alone decides nothing: some code has to name it, take its section as a whole, or read
another key whose value is this one.
"""

import re
from functools import cached_property

from tuner.inputs.tree import Tree, dotted, leaves
from tuner.trainers.verl.entry_points import program_started
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.trainer_code.package import TrainerCode

_OWN_TRAINER = "/trainer/fsdp_sft_trainer.py"
_REFERENCE = re.compile(r"[\w.]+")


class ReadKeys:
    """The keys that are read, of one configuration.

    Args:
        code: the copy.
        tree: the configuration, interpolations kept.
        program: the module or file that is started; empty where nobody says. Fine-tuning's own trainer reads
            the keys of its model itself, in one file, whatever the workers of the other trainers read.
    """

    def __init__(self, code: TrainerCode, tree: Tree, program: str = "") -> None:
        self._code = code
        self._program = _OWN_TRAINER if program_started(program, None) is Program.SFT else ""
        self._tree = tree
        self._asked: dict[str, bool] = {}

    def __contains__(self, key: str) -> bool:
        """Whether some code reads a key; one that is asked for meanwhile reads nothing."""
        if key not in self._asked:
            self._asked[key] = False
            self._asked[key] = self._is_read(key)
        return self._asked[key]

    def _is_read(self, key: str) -> bool:
        *sections, word = key.split(".")
        if sections[:1] == ["model"] and self._program and self._code.has_file(self._program):
            return self._code.names_key(word, file=self._program)
        if self._code.names_key(word):
            return True
        handed_on = (name for name in sections if name.startswith("override_") or name.endswith("_kwargs"))
        if any(
            map(self._code.names_key, handed_on)
        ):  # to an engine, whose keys stand in no code of the trainer
            return True
        if any(other in self for other in self._references.get(word, ())):
            return True
        return any(map(self._code.takes_whole, reversed(sections[1:])))  # the whole of all is only printed

    @cached_property
    def _references(self) -> dict[str, list[str]]:
        """The keys whose values are made of others, by the last words of those."""
        references: dict[str, list[str]] = {}
        for path, value in leaves(self._tree):
            if isinstance(value, str) and "${" in value:
                for reference in _REFERENCE.findall(value):
                    references.setdefault(reference.rpartition(".")[2], []).append(dotted(path))
        return references
