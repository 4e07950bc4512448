"""A disk that is full from some moment on."""

# Puts /dev/full, which takes no byte, behind the journals that this process has open.
FILL_UP = (
    "import os; "
    "[os.dup2(os.open('/dev/full', os.O_WRONLY), int(file)) for file in os.listdir('/proc/self/fd')"
    " if os.path.realpath('/proc/self/fd/' + file).endswith('journal.jsonl')]"
)
