"""What FSDP1, torch's ``FullyShardedDataParallel``, does differently from FSDP2."""

from tuner.memory.ledger.symbols import MEANINGS

SYMBOLS = {
    "U_l": MEANINGS["U_l"],
    "b_g": "bytes of a gradient's cast before it is reduced, 0 where there is none",
    "b_t": "bytes of a gradient's cast after it is reduced, 0 where there is none",
    "n_j": "tensors of a unit's size while its gradients are joined",
}
