-- Work that outlives its process. Every write to a run carries its fence; one that is older than the row's fails.

CREATE TABLE runs (
  id          TEXT PRIMARY KEY,
  kind        TEXT NOT NULL,
  session     TEXT NOT NULL,
  goal        TEXT NOT NULL,
  state       TEXT NOT NULL,
  body        BLOB NOT NULL, -- JSON
  reason      TEXT NOT NULL,
  created_ms  INTEGER NOT NULL,
  updated_ms  INTEGER NOT NULL,
  owner       TEXT NOT NULL, -- '': nobody works on it
  fence       INTEGER NOT NULL,
  lease_ms    INTEGER NOT NULL -- until when the owner's word holds
) WITHOUT ROWID;

CREATE INDEX runs_newest ON runs (created_ms DESC, id DESC);
CREATE INDEX runs_of_session ON runs (session);

CREATE TABLE steps (
  run          TEXT NOT NULL,
  number       INTEGER NOT NULL,
  call         TEXT NOT NULL,
  tool         TEXT NOT NULL,
  effect       TEXT NOT NULL,
  state        TEXT NOT NULL,
  key          TEXT NOT NULL,
  digest       TEXT NOT NULL,
  arguments    BLOB NOT NULL, -- JSON
  witness      TEXT NOT NULL,
  status       TEXT NOT NULL,
  outcome      TEXT NOT NULL,
  started_ms   INTEGER NOT NULL,
  finished_ms  INTEGER NOT NULL,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
