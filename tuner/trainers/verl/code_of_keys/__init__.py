"""The code of the trainer that a proposal stands on: functions by key, and what a copy has in their place.

A release says what a key does by what certain functions of it do. ``rows.py`` names them, ``digests.txt``
tells each of them in every release, and ``standing.py`` holds the functions of a copy, and of a project's own
classes in place of the trainer's, to that. Where they differ in what a proposal rests on, none is made.
"""
