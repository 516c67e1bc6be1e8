"""Times warm updates of whole runs' sizes by verl 0.9.1's own engine; run it by hand, from the repository.

    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.run_updates CASE --output FILE

``CASE`` is 4b, 1.5b, 6l or moe. verl, tensordict and what they import have to be importable. One GPU alone
has all of the states and as many tokens as one of two. ``--dry-run`` shrinks model and sequences, for a
processor.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from measure.readings import hardware
from measure.run_updates.placing import placing
from measure.run_updates.step import CASES, Case, batch_of, sequences
from measure.verl_engine.engine import build_engine, loss_function
from measure.verl_engine.settings import EngineSettings, PassSettings
from measure.verl_engine.stand_ins import prepare_imports

from tuner.models import find_config
from tuner.models.shape import cut_config

_REPETITIONS = 3
_BUCKET = 2 << 30


class Measured:
    """An engine with the batch of a step, and seconds of what it does."""

    def __init__(self, case: Case, folder: Path, *, tiny: bool) -> None:
        values = dict(cut_config(find_config(case.model).values, case.layers))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(values))
        self.cuda = torch.cuda.is_available()
        strategy = {} if self.cuda else {"strategy": "fsdp2"}
        self.settings = EngineSettings(model=str(folder), **{**case.engine, **strategy})
        self.case, self.engine = case, build_engine(self.settings, tiny=tiny)
        self.own = sequences(dist.get_rank(), shorter=64 if tiny else 1)

    def seconds(self, work: Callable[[], object]) -> float:
        """Wall-clock seconds until the card is done as well; all ranks begin together."""
        dist.barrier()
        self.wait()
        begun = time.perf_counter()
        work()
        self.wait()
        return round(time.perf_counter() - begun, 4)

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def update(self) -> float:
        """Two mini-batches as the worker makes them."""
        from verl.utils import tensordict_utils as tu

        data = self._batch(calculate_entropy=False, **self.case.update)
        loss, config = loss_function(PassSettings(tokens=1), self.settings)

        def steps() -> None:
            for part in tu.make_iterator(data, mini_batch_size=len(self.own) // 2, epochs=1, seed=1):
                self.engine.train_batch(part, loss_function=partial(loss, config=config))

        with self.engine.train_mode():
            return self.seconds(steps)

    def log_prob(self) -> float:
        """One pass without gradients, with the entropy."""
        data = self._batch(calculate_entropy=True, return_model_output=True, **self.case.log_prob)
        with self.engine.eval_mode():
            return self.seconds(lambda: self.engine.infer_batch(data, loss_function=None))

    def hand_over(self) -> dict[str, float]:
        """The trainer's side of new weights, into a bucket that nobody reads."""
        taken = {"emptied_s": self.seconds(self._empty)}
        params: list[Any] = []
        taken["state_dict_s"] = self.seconds(lambda: params.append(self.engine.get_per_tensor_param()[0]))
        bucket = torch.empty(_BUCKET if self.cuda else 1 << 20, dtype=torch.uint8, device=self._device())
        count = 0

        def fill() -> None:
            nonlocal count
            offset = 0
            for _, weight in params[0]:
                count += 1
                offset = 0 if offset + weight.nbytes > len(bucket) else -(-offset // 4) * 4
                if weight.nbytes <= len(bucket):
                    place = bucket[offset : offset + weight.nbytes].view(dtype=weight.dtype)
                    place.view(weight.shape).copy_(weight.detach(), non_blocking=True)
                    offset += weight.nbytes

        taken["tensors_s"] = self.seconds(fill)
        return {**taken, "tensors": count}

    def remapped(self) -> tuple[float, float]:
        """What emptying the cache takes, and an update behind it, in expandable segments."""
        from verl.utils.device import set_expandable_segments

        set_expandable_segments(True)
        return self.seconds(self._empty), self.update()

    def _empty(self) -> None:
        if self.cuda:
            torch.cuda.empty_cache()

    def _device(self) -> torch.device:
        return torch.device("cuda", torch.cuda.current_device()) if self.cuda else torch.device("cpu")

    def _batch(self, **settings: Any) -> Any:
        return batch_of(self.own, self.engine.model_config.hf_config.vocab_size, **settings)


def main() -> None:
    """Builds one engine and writes what its updates and the way of its weights take."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="a tiny model, for a processor")
    arguments = parser.parse_args()
    prepare_imports()
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    folder = arguments.output.parent / f"{arguments.case}-{dist.get_rank()}"
    measured = Measured(CASES[arguments.case], folder, tiny=arguments.dry_run)
    measured.update()
    document: dict[str, Any] = {
        "case": arguments.case,
        "hardware": hardware(),
        "torch": torch.__version__,
        "ranks": dist.get_world_size(),
        "tokens": sum(map(sum, measured.own)),
        "update_s": [measured.update() for _ in range(_REPETITIONS)],
        "infer_s": [measured.log_prob() for _ in range(_REPETITIONS)][1:],
    }
    if cuda:
        emptied, updated = zip(*(measured.remapped() for _ in range(_REPETITIONS)), strict=True)
        document |= {"emptied_s": emptied, "remapped_s": updated}
    document["hand_over"] = [measured.hand_over() for _ in range(_REPETITIONS)]
    sizes = {} if cuda else {"layers": 1, "experts": 8, "hidden": 64}
    document["placing"] = placing(torch.device("cuda" if cuda else "cpu"), **sizes)
    if dist.get_rank() == 0:
        arguments.output.write_text(json.dumps(document, indent=1) + "\n")
    dist.barrier()
    os._exit(0)  # verl's stand-ins leave threads behind


if __name__ == "__main__":
    main()
