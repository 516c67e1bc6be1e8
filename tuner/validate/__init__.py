"""Runs the pieces that decide memory and speed on this machine's GPU, and compares them with the prediction.

Modules here are free of torch; what runs on the device is in :mod:`tuner.validate.workers`, in processes of
its own. Nothing is imported before it is used.
"""
