"""The tables of the index as named migrations, each of which runs once in its own transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

_Migration = Callable[[sqlite3.Connection], None]


def migrate(database: sqlite3.Connection) -> list[str]:
    """Apply the missing migrations to an index; return their names.

    Raises sqlite3.DatabaseError for an index of a later version of klarm, which is then rebuilt.
    """
    database.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY)")
    done = {name for (name,) in database.execute("SELECT name FROM migrations")}
    known = {migration.__name__ for migration in MIGRATIONS}
    if done - known:
        later = ", ".join(sorted(done - known))
        raise sqlite3.DatabaseError(f"written by a later version of klarm: {later}")
    applied = []
    for migration in MIGRATIONS:
        if migration.__name__ not in done:
            database.execute("BEGIN IMMEDIATE")
            try:
                migration(database)
                database.execute("INSERT INTO migrations VALUES (?)", (migration.__name__,))
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
            applied.append(migration.__name__)
    return applied


def create_runs(database: sqlite3.Connection) -> None:
    """Create the table of runs: a summary of each, and how far its journal was read."""
    database.execute(
        """
        CREATE TABLE runs (
            run INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,        -- in addresses
            folder BLOB NOT NULL UNIQUE,    -- below the folder that is served
            inode INTEGER NOT NULL DEFAULT 0,
            size INTEGER NOT NULL DEFAULT -1,
            modified INTEGER NOT NULL DEFAULT 0,
            fingerprint BLOB NOT NULL DEFAULT x'',
            fold BLOB,                      -- SavedFold
            damage BLOB,                    -- which lines do not count
            ordered INTEGER NOT NULL DEFAULT 3,  -- bits: steps rise, times rise
            rank INTEGER NOT NULL DEFAULT 9,     -- the worst first
            last_seen REAL NOT NULL DEFAULT 0,
            summary BLOB,                   -- JSON of the overview, without sparklines
            sparklines BLOB                 -- JSON
        )
        """
    )


def create_blocks(database: sqlite3.Connection) -> None:
    """Create the tables of steps: blocks of about a thousand, and the extremes of every block."""
    database.execute(
        """
        CREATE TABLE blocks (
            run INTEGER NOT NULL, first_row INTEGER NOT NULL, rows INTEGER NOT NULL,
            low_step INTEGER NOT NULL, high_step INTEGER NOT NULL,
            low_time REAL NOT NULL, high_time REAL NOT NULL,
            PRIMARY KEY (run, first_row)
        ) WITHOUT ROWID
        """
    )
    database.execute(
        """
        CREATE TABLE extremes (
            run INTEGER NOT NULL, metric INTEGER NOT NULL, first_row INTEGER NOT NULL,
            finite INTEGER NOT NULL, not_finite INTEGER NOT NULL, total REAL,
            low REAL, low_step INTEGER, low_time REAL,
            high REAL, high_step INTEGER, high_time REAL,
            PRIMARY KEY (run, metric, first_row)
        ) WITHOUT ROWID
        """
    )
    # Metric -1 holds the steps of a block, -2 their times.
    database.execute(
        "CREATE TABLE packs (run INTEGER NOT NULL, metric INTEGER NOT NULL, "
        "first_row INTEGER NOT NULL, data BLOB NOT NULL)"
    )
    database.execute("CREATE UNIQUE INDEX packs_place ON packs (run, metric, first_row)")
    database.execute(
        "CREATE TABLE metrics (run INTEGER NOT NULL, metric INTEGER NOT NULL, name TEXT NOT NULL, "
        "PRIMARY KEY (run, metric)) WITHOUT ROWID"
    )


def create_records(database: sqlite3.Connection) -> None:
    """Create the table of all records of a journal except steps, each with its line."""
    database.execute(
        """
        CREATE TABLE records (
            run INTEGER NOT NULL, number INTEGER NOT NULL,
            kind TEXT NOT NULL, step INTEGER NOT NULL, time REAL NOT NULL,
            counts INTEGER NOT NULL,        -- 0 if a rollback undid it
            detector TEXT NOT NULL DEFAULT '', severity TEXT NOT NULL DEFAULT '',
            incident TEXT NOT NULL DEFAULT '',
            line BLOB NOT NULL,
            PRIMARY KEY (run, number)
        )
        """
    )
    database.execute("CREATE INDEX records_by_kind ON records (run, kind, step)")
    database.execute("CREATE INDEX records_by_incident ON records (incident) WHERE incident != ''")


MIGRATIONS: tuple[_Migration, ...] = (create_runs, create_blocks, create_records)
