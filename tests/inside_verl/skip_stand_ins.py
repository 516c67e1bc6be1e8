"""A verl of a hundred lines for the skip: its batches, its training worker and its legacy actor.

They call one another as verl's do, and divide losses as verl's do; ``test_skip.py`` has the real ones.
"""

import threading
from typing import Any

import torch

TENSORDICT = """
import torch


class NonTensorData:
    shape = ()

    def __init__(self, data):
        self.data = data


class TensorDict(dict):
    def __init__(self, source, batch_size):
        super().__init__(source)
        self.batch_size = self.shape = torch.Size(batch_size)

    def __len__(self):
        return self.shape[0]
"""

TENSORDICT_UTILS = """
import torch
from tensordict import NonTensorData, TensorDict


def get(data, key, default=None):
    value = dict.get(data, key, default)
    return value.data if isinstance(value, NonTensorData) else value


def pop(data, key, default=None):
    value = get(data, key, default)
    data.pop(key, None)
    return value


def assign_non_tensor(data, **values):
    data.update({key: NonTensorData(value) for key, value in values.items()})


def nested(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def index_select_tensor_dict(data, indices):
    chosen = {}
    for key, value in data.items():
        if isinstance(value, NonTensorData):
            chosen[key] = value
        elif value.is_nested:
            rows = value.unbind()
            chosen[key] = nested([rows[index] for index in indices])
        else:
            chosen[key] = value[indices]
    return TensorDict(chosen, batch_size=[len(indices)])


def concat_tensordict(parts):
    joined = {}
    for key, value in parts[0].items():
        if value.is_nested:
            joined[key] = nested([row for part in parts for row in part[key].unbind()])
        else:
            joined[key] = torch.cat([part[key] for part in parts])
    return TensorDict(joined, batch_size=[sum(part.shape[0] for part in parts)])
"""

CORE = """
def agg_loss(loss_mat, loss_mask, loss_agg_mode, tokens=None, sequences=None, ranks=1):
    mask = loss_mask.bool()
    sums = (loss_mat * mask).sum(dim=1)
    if loss_agg_mode == "token-mean":
        return sums.sum() / (mask.sum() if tokens is None else tokens) * ranks
    if loss_agg_mode == "seq-mean-token-mean":
        sums = sums / mask.sum(dim=1)
    return sums.sum() / (len(mask) if sequences is None else sequences) * ranks
"""

ENGINE_WORKERS = """
import torch
from verl.trainer.ppo.core_algos import agg_loss
from verl.utils import tensordict_utils as tu


def ppo_loss(config, model_output, data, dp_group=None):
    losses = -data["advantages"] * model_output["log_probs"]
    divisors = tu.get(data, "batch_num_tokens"), tu.get(data, "global_batch_size"), tu.get(data, "dp_size")
    return agg_loss(losses, data["response_mask"], config.loss_agg_mode, *divisors), {}


class TrainingWorker:
    def set_loss_fn(self, loss_fn):
        self.loss_fn = loss_fn

    def train_mini_batch(self, data):
        size = tu.pop(data, key="mini_batch_size") // self.engine.get_data_parallel_size()
        outputs = []
        for start in range(0, data.shape[0], size):
            part = tu.index_select_tensor_dict(data, torch.arange(start, start + size))
            lengths = part["input_ids"].offsets().diff().tolist()
            tu.assign_non_tensor(part, global_token_num=self.engine.gather(lengths))
            outputs.append(tu.get(self.train_batch(part), "metrics"))
        metrics = {key: [output[key] for output in outputs] for key in outputs[0]}
        output = tu.TensorDict({}, batch_size=[])
        tu.assign_non_tensor(output, metrics=metrics)
        return output

    def train_batch(self, data):
        self.engine.train_batch(data, self.loss_fn)
        output = tu.TensorDict({}, batch_size=[])
        tu.assign_non_tensor(output, metrics={"run": sum(tu.get(data, "global_token_num"))})
        return output
"""

DP_ACTOR = """
from verl.trainer.ppo.core_algos import agg_loss


def prepare_dynamic_batch(data, max_token_len):
    order = sorted(range(len(data)), key=lambda row: int(data.batch["attention_mask"][row].sum()))
    count = min(len(order), max(1, -(-int(data.batch["attention_mask"].sum()) // max_token_len)))
    indices = [order[start::count] for start in range(count)]
    return [data[rows] for rows in indices], indices


class DataParallelPPOActor:
    def update_policy(self, data):
        settings = self.config
        data = data.select(batch_keys=["input", "attention_mask", "response_mask", "advantages"])
        most = settings.ppo_max_token_len_per_gpu
        for mini_batch in data.split(settings.ppo_mini_batch_size):
            for part in prepare_dynamic_batch(mini_batch, max_token_len=most)[0]:
                losses = -part.batch["advantages"] * self.forward(part.batch["input"])
                loss = agg_loss(losses, part.batch["response_mask"], settings.loss_agg_mode)
                (loss * len(part) / settings.ppo_mini_batch_size).backward()
            self.step()
        return {}
"""

SOURCES = {
    "verl.utils.tensordict_utils": TENSORDICT_UTILS,
    "verl.trainer.ppo.core_algos": CORE,
    "verl.workers.engine_workers": ENGINE_WORKERS,
    "verl.workers.actor.dp_actor": DP_ACTOR,
}


class DataProto:
    """verl's batch of padded tensors."""

    def __init__(self, batch: dict[str, torch.Tensor], meta_info: dict[str, Any]) -> None:
        self.batch = batch
        self.non_tensor_batch: dict[str, Any] = {}
        self.meta_info = meta_info

    @classmethod
    def from_dict(cls, tensors: Any, _arrays: Any, meta_info: dict[str, Any]) -> "DataProto":
        return cls(tensors, meta_info)

    def __len__(self) -> int:
        return len(self.batch["response_mask"])

    def __getitem__(self, rows: Any) -> "DataProto":
        return DataProto({key: value[rows] for key, value in self.batch.items()}, self.meta_info)

    def select(self, batch_keys: list[str]) -> "DataProto":
        return DataProto({key: self.batch[key] for key in batch_keys}, self.meta_info)

    def split(self, size: int) -> list["DataProto"]:
        return [self[start : start + size] for start in range(0, len(self), size)]


class Threads:
    """``torch.distributed`` among the threads of a process: each is a rank."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.local = threading.local()
        self.barrier = threading.Barrier(ranks, timeout=20)
        self.values: list[Any] = [None] * ranks

    def is_initialized(self) -> bool:
        return True

    def get_world_size(self, _group: Any = None) -> int:
        return self.ranks

    def get_rank(self, _group: Any = None) -> int:
        rank: int = self.local.rank
        return rank

    def all_gather_object(self, values: list[Any], value: Any, _group: Any = None) -> None:
        self.values[self.local.rank] = value
        self.barrier.wait()
        values[:] = self.values
        self.barrier.wait()

    def run(self, work: Any) -> list[Any]:
        """What the work returns on each rank."""
        results: list[Any] = [None] * self.ranks

        def on(rank: int) -> None:
            self.local.rank = rank
            try:
                results[rank] = work(rank)
            except BaseException as error:
                results[rank] = error
                self.barrier.abort()

        threads = [threading.Thread(target=on, args=(rank,)) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, threading.BrokenBarrierError):
                raise result
        return results
