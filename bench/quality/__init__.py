"""Measures how well detectors tell failing runs from healthy ones; `make quality` runs it."""
