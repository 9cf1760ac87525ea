pragma user_version = 0;
BEGIN TRANSACTION;
CREATE TABLE cursors (hook text primary key, number integer not null);
INSERT INTO "cursors" VALUES('http://127.0.0.1:1/',8);
COMMIT;
