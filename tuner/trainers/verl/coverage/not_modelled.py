"""What of a job the estimate leaves out, by the keys that ask for it.

A row leaves its table, or loses its patterns, once reading a workload looks at those keys.
"""

from tuner.trainers.omission import Omission
from tuner.trainers.verl.coverage.generation import GENERATION
from tuner.trainers.verl.coverage.models import MODELS
from tuner.trainers.verl.coverage.recipes import OF_RECIPES
from tuner.trainers.verl.coverage.running import RUNNING
from tuner.trainers.verl.coverage.training import TRAINING

NOT_MODELLED: tuple[Omission, ...] = (*OF_RECIPES, *MODELS, *TRAINING, *GENERATION, *RUNNING)
