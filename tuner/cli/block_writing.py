"""``tuner advise --write``: the configuration with the block that is to be pasted, as a file."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tuner.consultation.result import Consultation
from tuner.errors import InputError, Location
from tuner.files import STANDARD_INPUT, is_there, read_bytes
from tuner.inputs.yaml_file import MAX_BYTES
from tuner.language import _, ngettext
from tuner.render.terminal import plain, write
from tuner.review.fixes.edits import CannotEditError, applied, changes, key_of
from tuner.review.fixes.plan import editable
from tuner.writing import write_new, write_over


def write_block(
    file: Path,
    answer: Consultation,
    words: Sequence[str],
    *,
    launch: int | None,
    ask: Callable[[bytes], Consultation],
) -> None:
    """Write a configuration with its block: over itself, or into a new file.

    Args:
        file: what is written.
        answer: the advice for the configuration.
        words: what followed it on the command line.
        launch: which launch of a script is meant, from 1.
        ask: the advice for the configuration with other bytes in place of its file's.

    Raises:
        InputError: the block cannot be written into the text, would not be read as intended, or the file
            cannot be written.
    """
    block = answer.advice.combination
    if block is None:
        write(sys.stderr, _("{file} is not written: there is no block to paste").format(file=plain(file)))
        return
    source = Path(answer.given.source)
    is_file = bool(answer.given.text) and str(source) != STANDARD_INPUT
    data = read_bytes(source, most=MAX_BYTES) if is_file else b""
    try:
        made = changes(block.overrides)
        if set(map(key_of, words)) & {change.path for change in made}:
            raise CannotEditError(_("a value comes from the command line"))
        after = applied(data, editable(answer.given, data, words, launch).edits(made))
        if ask(after).advice.workload != block.workload:
            raise CannotEditError(_("the file would not be read as intended"))
    except CannotEditError as error:
        raise InputError(
            _("the block cannot be written into it: {reason}").format(reason=error),
            location=Location(source=str(source)),
            hint=_("paste the overrides instead"),
        ) from None
    if is_there(file) and file.resolve() == source.resolve():
        write_over(file, before=data, after=after)
    else:
        write_new(file, after)
    count = len(block.overrides)
    sentence = ngettext(
        "{file} is written, with {count} override", "{file} is written, with {count} overrides", count
    )
    write(sys.stderr, sentence.format(file=plain(file), count=count))
