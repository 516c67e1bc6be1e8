"""Seconds of warm training passes over real models by depth, stage by stage: what the time model is judged by."""
