"""Analyses recorded runs with the code that watches live runs."""
