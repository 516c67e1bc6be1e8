"""A rollout as it was found to be, with the figures of all its blocks where fewer were allocated."""

from dataclasses import dataclass, replace

from tuner.validate.rollout.plan import PlannedRollout
from tuner.validate.rollout.settings import RolloutFigures


@dataclass(frozen=True, kw_only=True)
class MeasuredRollout:
    """A rollout as planned and as it was found to be on one GPU."""

    planned: PlannedRollout
    figures: RolloutFigures
    others_bytes: int  # of the GPU, when the run began

    @property
    def says_nothing(self) -> bool:
        """Whether not even the fewer blocks were there that others, or a limit, were thought to leave."""
        return self.planned.scaled and bool(self.figures.missing or not self.planned.run_blocks)

    @property
    def allocated_share(self) -> float:
        """The share of all that is predicted at the peak, without the context, that could be allocated."""
        planned, figures = self.planned, self.figures
        cache = replace(planned.wanted, blocks=planned.run_blocks)
        sizes = {
            **dict(planned.residents),
            "engine_weights": planned.predicted.weight_bytes,
            "kv_cache": cache.layers * cache.layer_bytes,
            "engine_activations": planned.predicted.activation_bytes,
        }
        if not figures.missing:
            return 1.0
        names = list(sizes)
        there = sum(sizes[name] for name in names[: names.index(figures.missing)])
        if figures.missing == "kv_cache":
            there += figures.cache_layers * cache.layer_bytes
        return there / sum(sizes.values())

    @property
    def blocks(self) -> int:
        """Whole blocks that were there; where fewer were tried, as many as the engine would make."""
        planned, figures = self.planned, self.figures
        if figures.cache_layers < planned.wanted.layers:
            return min(planned.wanted.blocks, figures.cache_bytes // planned.wanted.block_bytes)
        return planned.wanted.blocks

    @property
    def sequences(self) -> int:
        """How many sequences of full length one replica runs at once."""
        return self.planned.sequences(self.blocks)

    @property
    def cache_bytes(self) -> float:
        """What the allocator gave for the cache, or would give for all of it."""
        planned = self.planned
        if not planned.scaled or not planned.run_blocks:
            return self.figures.cache_bytes
        return self.figures.cache_bytes * planned.wanted.blocks / planned.run_blocks

    @property
    def peak_bytes(self) -> float | None:
        """Used on the GPU with all that is predicted; None where not all was there."""
        if self.figures.used_bytes is None or self.says_nothing:
            return None
        return self.figures.used_bytes - self.others_bytes + self.cache_bytes - self.figures.cache_bytes
