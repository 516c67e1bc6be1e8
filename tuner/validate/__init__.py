"""Runs the pieces that decide memory and speed on this machine's GPU, and compares them with the prediction.

The parent process imports no torch: what runs on the device is in the modules named ``worker`` of each room,
in processes of their own. Nothing is imported before it is used.
"""
