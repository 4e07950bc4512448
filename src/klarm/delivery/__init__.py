"""Telling people of a run's events, beside the training: once a channel, whatever dies.

The journal is the outbox. What was sent is written to the deliveries next to it, and what is owed
is the one less the other. `outgoing` puts it together for a run.
"""
