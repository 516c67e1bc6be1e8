"""MiniMax-M1 as its own repository spells its type; see ``minimax``."""

from tuner.architectures.types.minimax import ARCHITECTURE as MINIMAX

ARCHITECTURE = MINIMAX
