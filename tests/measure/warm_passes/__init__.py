"""Seconds of warm training passes over real models by depth: what the time model is judged by."""
