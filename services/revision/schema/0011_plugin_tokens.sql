-- What a plugin's own process proves itself with on Host RPC. id: the eight hexadecimal digits in the token's own text.
-- secret_hash: SHA-256 of the part behind them, which is stored nowhere.
CREATE TABLE gateway.plugin_tokens (
    plugin_id   text PRIMARY KEY REFERENCES gateway.plugins (id) ON DELETE CASCADE,
    id          text NOT NULL UNIQUE,
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
