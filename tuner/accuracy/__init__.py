"""The models of memory and time held against what was measured."""

from tuner.accuracy.compare import (
    ComparedFile,
    ErrorSpread,
    Inside,
    PassComparison,
    Summary,
    compare,
    summarise,
)
from tuner.accuracy.measured_files import MeasuredCase, MeasuredFile, read_measured
from tuner.accuracy.passes import pass_interval, pass_time, timed_passes
from tuner.accuracy.runs import MeasuredRun, RunsFile, UnreadLine, read_records
from tuner.accuracy.seconds import (
    LEAST_S,
    MeasurementOrigin,
    Ratios,
    RunRemark,
    Series,
    SettingPair,
    TimedFile,
    TimedPhase,
    UnpredictedRecord,
    Utilisation,
    ratios,
    series,
)
from tuner.accuracy.special import USUAL, special_settings
from tuner.accuracy.workload import FUSED_KERNELS, workload_of

__all__ = [
    "FUSED_KERNELS",
    "LEAST_S",
    "USUAL",
    "ComparedFile",
    "ErrorSpread",
    "Inside",
    "MeasuredCase",
    "MeasuredFile",
    "MeasuredRun",
    "MeasurementOrigin",
    "PassComparison",
    "Ratios",
    "RunRemark",
    "RunsFile",
    "Series",
    "SettingPair",
    "Summary",
    "TimedFile",
    "TimedPhase",
    "UnpredictedRecord",
    "UnreadLine",
    "Utilisation",
    "compare",
    "pass_interval",
    "pass_time",
    "ratios",
    "read_measured",
    "read_records",
    "series",
    "special_settings",
    "summarise",
    "timed_passes",
    "workload_of",
]
