"""Trains the models by which policies choose arms; `remuda train` collects data and calls it.

Needs the extra `train` (`pip install remuda[train]`).
"""
