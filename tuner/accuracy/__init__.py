"""The memory model held against measured peaks."""

from tuner.accuracy.compare import ComparedFile, Comparison, Inside, Spread, Summary, compare, summarise
from tuner.accuracy.measured import MeasuredCase, MeasuredFile, read_measured
from tuner.accuracy.special import USUAL, special_settings
from tuner.accuracy.workload import workload_of

__all__ = [
    "USUAL",
    "ComparedFile",
    "Comparison",
    "Inside",
    "MeasuredCase",
    "MeasuredFile",
    "Spread",
    "Summary",
    "compare",
    "read_measured",
    "special_settings",
    "summarise",
    "workload_of",
]
