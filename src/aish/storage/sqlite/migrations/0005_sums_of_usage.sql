-- Old rows are summed up. 0: one call; else the sum of so many, all within one quarter of an hour.
ALTER TABLE usage ADD COLUMN calls INTEGER NOT NULL DEFAULT 0;

CREATE INDEX usage_summed ON usage (at_ms) WHERE calls > 0;
