"""Why a job ran out of memory, in words: where, for which tensor, beside what, and what makes room."""

from collections.abc import Iterator

from tuner.advise.allocation import TensorMatch as Candidate
from tuner.advise.allocation import fits_place
from tuner.advise.failure import ON_HOST, Failure, failed_of
from tuner.advise.needs import Measure
from tuner.advise.remedies import Remedy
from tuner.consultation.failure import ExplainedFailure
from tuner.dtypes import DType
from tuner.inputs.secrets import without_secrets
from tuner.language import N_, _
from tuner.out_of_memory.stack import Call
from tuner.render.allocation import named, notes
from tuner.render.document.marks import ARROW, Mark, user_text
from tuner.render.document.parts import AnswerDocument, Entry, Facts, Heading, Paragraph, Part, Paste
from tuner.render.failure_figures import card_words, causes, model_words
from tuner.render.failure_words import MEANINGS, WORK, said_of_kind, work_of
from tuner.render.input_notes import project_options
from tuner.render.numbers import change, step_change
from tuner.render.words import clauses, full_stop, listed, numerics, pasteable, sentence, titled, with_note
from tuner.units import MEGA

_LABEL = 9
_OTHERS = 3  # further tensors that are named
_REMEDIES = 4
_MORE_TOKENS = 4  # times the tokens of the likeliest tensor: what needs more is hardly it


def failure_document(explained: ExplainedFailure) -> AnswerDocument:
    """The whole explanation."""
    return AnswerDocument(
        sections=(
            (Heading(text=said_of_kind(explained.failure)), failure_facts(explained)),
            tuple(room_parts(explained.failure)),
        )
    )


def failure_facts(explained: ExplainedFailure) -> Facts:
    """Where memory ran out, for which tensor, beside what, and why."""
    rows = tuple((name, user_text(text)) for name, text in _rows(explained))
    return Facts(rows=rows, width=_LABEL)


def _rows(explained: ExplainedFailure) -> Iterator[tuple[str, str]]:
    failure = explained.failure
    if where := _where(failure):
        yield _("where"), where
    yield from _tensors(failure)
    if failure.card is not None:
        yield _("card"), card_words(failure.card)
    if model := model_words(failure):
        yield _("model"), model
    yield from ((_("cause"), text) for text in causes(failure))
    if meaning := _meaning(failure):
        yield _("means"), meaning
    if explained.keys and failure.error.kind not in ON_HOST:
        yield _("set by"), full_stop(listed(_settings(explained)))
    if explained.from_project:
        yield _("settings"), project_options(explained.from_project)
    if missing := _to_give(explained):
        yield _("to know"), missing


def _settings(explained: ExplainedFailure) -> Iterator[str]:
    """The keys that decide, with what they are set to."""
    for key, value in explained.deciding_settings.items():
        yield key if value is None else f"{key}={value}"


def _where(failure: Failure) -> str:
    place = failure.place
    if not (place.phases or place.before_steps or place.work):
        if failure.error.kind in ON_HOST:
            return ""
        return _("The error has no stack of calls that tells the phase.")
    phases = _(" or ").join(phase.value for phase in place.phases)
    when = _("before the first step") if place.before_steps else phases
    words = []
    if when:
        words.append(_called(when, place.phase_call))
    if place.work is not None:
        words.append(_called(_(WORK[place.work]), place.work_call))
    return full_stop(clauses(words))


def _called(text: str, call: Call | None) -> str:
    """A text with the call that says so."""
    if call is None:
        return text
    name = without_secrets(call.name)  # without its folders it is no path that may have a hash in it
    at = f", {name}:{call.line}" if call.file and call.line is not None else ""
    return with_note(text, f"{call.function}{at}")


# -- the tensor -----------------------------------------------------------------------------------


def _tensors(failure: Failure) -> Iterator[tuple[str, str]]:
    allocation, failed = failure.allocation, failed_of(failure.error)
    if allocation is None and failed is not None:
        text = _("{size} are {single:,} million entries in float32, or {half:,} million in bfloat16")
        entries = text.format(
            size=failed.text,
            single=round(failed.bytes / DType.FLOAT32.bytes / MEGA),
            half=round(failed.bytes / DType.BFLOAT16.bytes / MEGA),
        )
        yield _("tensor"), _("{entries}; logits have tokens x vocabulary entries.").format(entries=entries)
    if allocation is None:
        return
    if not allocation.candidates:
        yield _("tensor"), _("No tensor of this configuration has this size.")
        return
    first, *others = allocation.candidates
    words = [f"{named(first.match)} = {first.match.formula}"]
    words.append(_("made by {made_by}").format(made_by=first.match.tensor.made_by))
    text = full_stop(clauses(words))
    spread = notes(allocation.failed, Candidate(match=first.match))
    tokens = spread[:1] if first.match.tokens is not None else []
    if not fits_place(first.match.tensor, failure.place):
        tokens.append(_("The stack shows other work, so this is by its size alone."))
    yield _("tensor"), " ".join([text, *tokens])
    shown = [
        candidate
        for candidate in others
        if candidate.match.claimed or _as_likely(candidate, first) or _alone(candidate, failure)
        if fits_place(candidate.match.tensor, failure.place)
    ]
    for candidate in shown[:_OTHERS]:
        yield (
            _("or"),
            full_stop(
                clauses(
                    [f"{named(candidate.match)} = {candidate.match.formula}", _distinction(candidate, first)]
                )
            ),
        )


def _as_likely(candidate: Candidate, first: Candidate) -> bool:
    """Whether a tensor says as little as the likeliest one, and needs a number of tokens like it."""
    match, likeliest = candidate.match, first.match
    if match.confidence is not likeliest.confidence:
        return False
    return not match.tokens or not likeliest.tokens or match.tokens <= _MORE_TOKENS * likeliest.tokens


def _alone(candidate: Candidate, failure: Failure) -> bool:
    """Whether without a job a square of tokens comes into question beside logits of more than a sequence."""
    return failure.standing is None and candidate.match.tensor.quadratic


def _distinction(candidate: Candidate, first: Candidate) -> str:
    """The fact by which a tensor is told from the likeliest one."""
    tensor, likeliest = candidate.match.tensor, first.match.tensor
    phases = [phase.value for phase in tensor.phases if phase not in likeliest.phases]
    if phases and not set(tensor.phases) & set(likeliest.phases):
        return _("then the stack passes {phases}").format(phases=_(" or ").join(phases))
    tokens = candidate.match.tokens
    if tokens is not None and tokens != first.match.tokens:
        unit = _("sequence") if tensor.quadratic else _("micro-batch")
        return _("then the {unit} held {tokens:,} tokens").format(unit=unit, tokens=tokens)
    return _("then it was asked for by {made_by}").format(made_by=tensor.made_by)


def _meaning(failure: Failure) -> str:
    """What decides, and in which direction it must go."""
    meaning = MEANINGS.get(failure.error.kind)
    if meaning is None:
        work = work_of(failure)
        meaning = None if work is None else MEANINGS.get(work)
    return _(meaning) if meaning is not None else ""


# -- what makes room ------------------------------------------------------------------------------


def room_parts(failure: Failure) -> Iterator[Part]:
    """What makes room, priced; empty where nothing is known to."""
    if not failure.remedies:
        return
    yield Heading(text=_("What makes room, priced by the model"))
    need = failure.need
    if need is not None and not need.known:
        text = _("How much was missing is not known; what follows frees a tenth.")
        yield Paragraph(text=text, level=1)
    for remedy in failure.remedies[:_REMEDIES]:
        lines = tuple(map(pasteable, remedy.overrides))
        yield Entry(
            text=titled(remedy.rule.name, _price(remedy)),
            details=(Paste(lines=lines, level=3, mark=Mark.STRONG),),
        )
    more = [remedy.rule.name for remedy in failure.remedies[_REMEDIES:]]
    if more:
        yield Paragraph(text=_("Also: {names}.").format(names=listed(dict.fromkeys(more))), level=1)
    if need is not None and need.known and not any(remedy.enough for remedy in failure.remedies):
        text = _("None of them is enough alone; tuner advise puts them together.")
        yield Paragraph(text=text, level=1)


_MEASURES = {
    Measure.CACHE: N_("KV cache {change}"),
    Measure.ROOM: N_("cache beyond the longest sequence {change}"),
    Measure.HOST: N_("host memory of a node {change}"),
}


def _price(remedy: Remedy) -> str:
    changed = change(remedy.before_bytes, remedy.after_bytes)
    if remedy.phase is not None:
        words = [f"{remedy.phase.value} {changed}"]
    else:
        words = [_(_MEASURES[remedy.measure]).format(change=changed)]
    if remedy.enough:
        words.append(_("enough"))
    words.append(step_change(remedy.seconds_before, remedy.seconds_after, remedy.change))
    if remedy.yours:
        words.append(_("numerics: {numerics}").format(numerics=numerics(remedy.numerics)))
    return full_stop(clauses(words)).replace("->", ARROW)


def _to_give(explained: ExplainedFailure) -> str:
    """What is missing for a full explanation."""
    failure = explained.failure
    if explained.answer is not None:
        return ""
    wanted = [_("the job's script or configuration in front of --message")]
    if explained.model is None and failed_of(failure.error) is not None:
        wanted.append(_("or at least --model NAME, which tells the tensors of this size"))
    if not (failure.place.phases or failure.place.before_steps) and failure.error.kind not in ON_HOST:
        wanted.append(_("the traceback above the error, which tells the phase"))
    return sentence(_("give {wanted}").format(wanted=clauses(wanted)))
