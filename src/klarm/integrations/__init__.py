"""Hooks for frameworks: one file per framework. Each imports only its own framework."""
