"""One file a framework: the hook it calls, and nothing that another framework needs."""
