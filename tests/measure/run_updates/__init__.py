"""Warm updates of whole runs' sizes by verl's own engine, and what handing their weights over takes."""
