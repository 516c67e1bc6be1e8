"""The one place that chooses a trainer; it is verl, since no other is read."""

from tuner.trainers import verl
from tuner.trainers.protocol import Trainer

TRAINER: Trainer = verl
