"""Imported first by a server: from here on it ends with the process that started it."""

from tuner.lifetime import watch_starter

stop = watch_starter()
