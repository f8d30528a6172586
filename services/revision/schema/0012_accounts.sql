-- username_key: what tells one name from another, made by the gateway: Unicode's compatibility composition, without
-- case. The database's own lower() depends on its locale, so that two gateways' idea of one name could differ from it.
ALTER TABLE gateway.users ADD COLUMN username_key text;
UPDATE gateway.users SET username_key = lower(normalize(username, NFKC));
ALTER TABLE gateway.users ALTER COLUMN username_key SET NOT NULL;
CREATE UNIQUE INDEX users_username_key ON gateway.users (username_key);
DROP INDEX gateway.users_username;

-- failed: the password was compared and was another one. Until then an attempt is under way.
ALTER TABLE gateway.login_attempts ADD COLUMN failed boolean NOT NULL DEFAULT false;
