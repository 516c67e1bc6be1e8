"""Reads launch scripts of the shell without running them.

A script is parsed with tree-sitter's grammar of bash and evaluated on values alone: assignments, parameter
expansions, arithmetic, conditions, loops, functions and files that it sources. No command is started and
no file but the script and those that it sources is opened. What only a run could tell is an unknown with
the place it came from.
"""
