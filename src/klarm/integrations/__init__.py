"""Hooks for frameworks: one file per framework, with nothing that another one needs."""
