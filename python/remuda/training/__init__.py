"""Trains what the policies of the agent pick by; `remuda train` collects the data and calls it.

Needs the extra `train` (`pip install remuda[train]`).
"""
