"""Passes of an engine that shards with FSDP1 or FSDP2."""

SYMBOLS = {
    "U": "parameters of the unit whose gradient is reduced",
    "U_a": "parameters of the unit that worked before",
    "U_b": "parameters of the unit below, which is gathered ahead",
    "U_e": "parameters of the FSDP unit with the embedding",
    "U_g": "parameters of a layer that have their gradient",
    "U_k": "parameters whose gradients are not reduced yet",
    "U_l": "parameters of the unit that works",
    "U_v": "parameters of the embedding",
    "U_w": "parameters that are whole where the forward pass frees nothing",
    "n_g": "gradients of the embedding at once",
}
