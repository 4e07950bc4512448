"""Measures how fast `klarm serve` is: `make bench-page`."""
