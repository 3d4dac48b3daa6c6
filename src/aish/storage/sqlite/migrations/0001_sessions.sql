-- Conversations. Later files add their own tables; a file that was released is never edited.

CREATE TABLE sessions (
  id          TEXT PRIMARY KEY,
  created_ms  INTEGER NOT NULL,
  updated_ms  INTEGER NOT NULL,
  title       TEXT NOT NULL,
  folded      TEXT NOT NULL, -- the title as search compares it
  model       TEXT NOT NULL,
  turns       INTEGER NOT NULL
);

CREATE INDEX sessions_newest ON sessions (updated_ms DESC, id DESC);

-- `folded` stands before the large columns so that a search does not read through them.
CREATE TABLE turns (
  id           TEXT PRIMARY KEY,
  session      TEXT NOT NULL,
  number       INTEGER NOT NULL,
  model        TEXT NOT NULL,
  started_ms   INTEGER NOT NULL,
  owner        TEXT NOT NULL, -- the process that runs it
  state        TEXT NOT NULL DEFAULT 'running', -- or the reason it ended
  finished_ms  INTEGER,
  usage        BLOB,
  folded       TEXT NOT NULL,
  input        BLOB NOT NULL, -- JSON
  messages     BLOB,          -- JSON
  UNIQUE (session, number)
);

-- Append-only. One row holds a run of newline-terminated JSON lines, exactly as they were given.
CREATE TABLE events (
  turn       TEXT NOT NULL,
  first_seq  INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL,
  body       BLOB NOT NULL
);

CREATE INDEX events_of_turn ON events (turn, first_seq);

-- A commit that writes nothing syncs nothing: a flush with nothing else to write counts here.
CREATE TABLE barrier (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  count  INTEGER NOT NULL
);

INSERT INTO barrier VALUES (1, 0);
