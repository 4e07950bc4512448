"""Where frameworks hand over what they log: one file a framework."""
