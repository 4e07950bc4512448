"""How well KL detectors tell failing runs from healthy ones; `make quality` runs it."""
