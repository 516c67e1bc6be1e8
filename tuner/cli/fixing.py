"""``tuner check --fix`` and ``--diff``: mends inputs, and says what was done and what was left.

Without these options it finds out what ``--fix`` would do, so that findings can be marked.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tuner.cli.fix_options import FixOptions
from tuner.files import STANDARD_INPUT, is_there, read_bytes
from tuner.inputs.several import Input
from tuner.inputs.yaml_file import MAX_BYTES
from tuner.language import _, ngettext
from tuner.render.terminal import plain, silence, write
from tuner.render.words import pasteable
from tuner.review.checked import Checked, Line
from tuner.review.fixes.mending import Drafted, Left, Mended, mend, refused
from tuner.review.fixes.patch import patch
from tuner.review.fixes.tried import tried
from tuner.review.fixes.writing import write_over
from tuner.review.kept import Kept
from tuner.review.review import Review
from tuner.review.totals import Fixable

MOST_TRIED = 48  # fixes: to try them takes a second or two

Judge = Callable[[Input, bytes | None], Drafted]
"""What is found in an input, with other bytes in place of its file's where some are given."""

Unknown = Callable[[Checked], Sequence[Line]]
"""The findings that no baseline has: those that it has are accepted, and stay as they are."""


class Done(Struct, frozen=True, kw_only=True):
    """What mending one input did, or would do; nothing where the input cannot be used."""

    source: str
    before: bytes = b""
    after: bytes = b""
    fixed: tuple[Line, ...] = ()  # in the order in which they were mended
    left: tuple[Left, ...] = ()  # with overrides, and not mended


class Mending(Struct, frozen=True, kw_only=True):
    """All inputs after mending, or as they would be."""

    checked: Kept[Checked]  # what is found in each input: after mending where files were written
    done: Kept[Done]
    diff: bool  # nothing was written

    def show_diff(self) -> bool:
        """Print what would be mended as one unified diff; whether anything would be."""
        changed = False
        for done in self.done:
            if done.before == done.after:
                continue
            changed = True
            text = patch(Path(done.source), done.before, done.after)
            if text is not None:
                _write_bytes(text)
                continue
            hidden = _("{file}: not shown, since a secret stands beside the change")
            write(sys.stderr, hidden.format(file=plain(done.source)))
        self.tell()
        return changed

    def tell(self) -> None:
        """Say what was mended, and what was not and why, with the overrides to paste instead."""
        count = 0
        for done in self.done:  # the file that is written, which may rest on the one with the finding
            for line in done.fixed:
                text = (
                    _("would fix {finding}: {overrides}") if self.diff else _("fixed {finding}: {overrides}")
                )
                write(sys.stderr, text.format(finding=_finding(done.source, line), overrides=_pasted(line)))
                count += 1
        for left in (item for done in self.done for item in done.left):
            text = _("not fixed {finding}: {reason}; to paste: {overrides}").format(
                finding=_finding(left.line.location.source, left.line),
                reason=plain(left.reason),
                overrides=_pasted(left.line),
            )
            write(sys.stderr, text)
        if self.diff:
            total = ngettext("{count} finding would be fixed", "{count} findings would be fixed", count)
        else:
            total = ngettext("{count} finding fixed", "{count} findings fixed", count)
        write(sys.stderr, total.format(count=count))


def mended(inputs: Sequence[Input], judge: Judge, options: FixOptions, *, unknown: Unknown) -> Mending:
    """Mend each input, or find out what would be mended; what cannot be used is left as it is.

    Raises:
        InputError: a file cannot be written, or a baseline cannot be read.
    """
    named = Counter(map(_real, inputs))
    mending = Mending(checked=Kept(Checked, len(inputs)), done=Kept(Done, len(inputs)), diff=options.diff)
    for place, given in enumerate(inputs):
        checked, done = _one(given, judge, options, unknown, alone=named[_real(given)] == 1)
        mending.checked.put(place, checked)
        mending.done.put(place, done)
    return mending


def with_tried_fixes(review: Review, inputs: Sequence[Input], judge: Judge, *, unknown: Unknown) -> Review:
    """The review with what would become of each safe fix, unless there are too many to try.

    Raises:
        InputError: a baseline cannot be read.
    """
    if not 0 < review.totals.fixable[Fixable.UNTRIED] <= MOST_TRIED:
        return review
    named = Counter(map(_real, inputs))

    def with_tried(given: Input, checked: Checked) -> Checked:
        if not any(line.fix is not None and line.fix.safe for line in checked.lines):
            return checked
        outcome = _outcome(given, judge, unknown, unsafe=False, alone=named[_real(given)] == 1)[1]
        return tried(checked, outcome.checked)

    return replace(
        review, inputs=Kept.of(Checked, map(with_tried, inputs, review.inputs), len(review.inputs))
    )


def _real(given: Input) -> str:
    is_file = not given.pasted and given.config != STANDARD_INPUT and is_there(given.config, Path.is_file)
    return str(Path(given.config).resolve()) if is_file else given.config


def _one(
    given: Input, judge: Judge, options: FixOptions, unknown: Unknown, *, alone: bool
) -> tuple[Checked, Done]:
    found, outcome = _outcome(given, judge, unknown, unsafe=options.unsafe_fixes, alone=alone)
    checked = found if options.diff else outcome.checked
    done = Done(
        source=checked.source,
        before=outcome.before,
        after=outcome.after,
        fixed=outcome.fixed,
        left=outcome.left,
    )
    if outcome.after != outcome.before and not options.diff:
        write_over(Path(given.config), before=outcome.before, after=outcome.after)
    return checked, done


def _outcome(
    given: Input, judge: Judge, unknown: Unknown, *, unsafe: bool, alone: bool
) -> tuple[Checked, Mended]:
    """What is found in an input, and what mending it comes to before anything is written."""
    found = judge(given, None).proved
    lines = () if found.problem is not None else unknown(found)
    if not alone or all(line.fix is None for line in lines):
        reason = "" if alone else _("the file is named twice")
        left = tuple(Left(line=line, reason=reason or line.no_fix) for line in lines if line.overrides)
        checked = refused(found, left, unsafe=unsafe)
        return found, Mended(before=b"", after=b"", fixed=(), left=left, checked=checked)
    data = read_bytes(Path(given.config), most=MAX_BYTES)
    return found, mend(data, lambda content: judge(given, content), unsafe=unsafe, candidates=unknown)


def _write_bytes(data: bytes) -> None:
    """A diff may hold bytes that the terminal's encoding has no characters for."""
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        silence(sys.stdout)


def _finding(file: str, line: Line) -> str:
    """A finding by a file: its line is another one after each fix."""
    return f"{plain(file)}: {line.code} {line.finding.rule.name}"


def _pasted(line: Line) -> str:
    return " ".join(pasteable(override) for override in line.overrides)
