"""The vision tower's share in the moments of a pass, which the decoder's engine has listed."""

from collections.abc import Sequence

from tuner.memory.batch.micro_batch import PassInput, moment
from tuner.memory.fsdp.order import TOWER_BACKWARD
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.process.terms import workspaces
from tuner.memory.vision.terms import TowerTerms, keeps_tower

#: Before the model's forward pass.
_BEFORE = ("weights_loaded", "root_gathered", "first_gather", "tower_gather")
#: Within it, where the model holds the tower's tokens.
_INSIDE = ("first_layer", "layer_gather", "layer_forward", "head_gather")
#: Within it as well, when the tower's tokens are gone.
_PROJECTION = "projection"
#: The last of the decoder's backward pass; FSDP1 lists the largest reduction of a layer behind it.
_LAST, _REDUCTION = "first_layer_backward", "layer_reduce"


def with_tower(moments: Sequence[Moment], micro_batch: PassInput, *, training: bool) -> tuple[Moment, ...]:
    """The moments of a pass with what the tower keeps meanwhile, and its own.

    It runs before the first layer and is differentiated after it, when the embedding's gradient is still to
    come. A tower that is trained keeps its activations for all that lies between. One that keeps
    nothing, as any in a pass without gradients, holds only the tokens that it made, while the model runs.
    """
    tower = micro_batch.model.tower
    if micro_batch.patches is None or tower is None:
        return tuple(moments)
    own = TowerTerms(micro_batch, tower)
    if training and keeps_tower(micro_batch.engine, tower):
        return _training_moments(moments, own)
    return (_forward(moments, own), *(_with_tower_input(at, own) for at in moments))


def _with_tower_input(at: Moment, own: TowerTerms) -> Moment:
    """A moment with what the model's forward pass holds of the tower: its input, and its tokens."""
    if at.name in _INSIDE:
        return _with_term(_with_term(at, own.patches), own.embeddings)
    return _with_term(at, own.patches) if at.name == _PROJECTION else at


def _training_moments(moments: Sequence[Moment], own: TowerTerms) -> tuple[Moment, ...]:
    """The moments of a training pass: what lies between the tower's two passes has what it kept."""
    last = max(place for place, at in enumerate(moments) if at.name == _LAST)
    completed: list[Moment] = []
    for place, at in enumerate(moments):
        between = at.name not in _BEFORE and (place <= last or at.name in (_REDUCTION, TOWER_BACKWARD))
        with_activations = _with_term(at, own.kept_activations) if between else at
        completed.append(
            _with_term(with_activations, own.backward) if at.name == TOWER_BACKWARD else with_activations
        )
    return tuple(completed)


def _forward(moments: Sequence[Moment], own: TowerTerms) -> Moment:
    """The tower at work before the first layer, beside the root unit, the batch and the embeddings."""
    around = ("unsharded_model", "root_unit", "batch", "hidden_states")
    terms: dict[str, Term] = {}
    for at in moments:
        terms |= {term.name: term for term in at.terms if term.name in around and term.name not in terms}
    return moment("tower_forward", workspaces(), *terms.values(), own.forward)


def _with_term(at: Moment, term: Term) -> Moment:
    return Moment(name=at.name, terms=(*at.terms, term))
