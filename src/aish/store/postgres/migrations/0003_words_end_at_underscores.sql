-- `snake_case` is two words, as it always was in SQLite's index.
UPDATE facts SET words = array_to_tsvector(ARRAY(
  SELECT DISTINCT part FROM unnest(tsvector_to_array(words)) AS word, regexp_split_to_table(word, '_+') AS part WHERE part <> ''
)) WHERE EXISTS (SELECT 1 FROM unnest(tsvector_to_array(words)) AS word WHERE word LIKE '%\_%');
