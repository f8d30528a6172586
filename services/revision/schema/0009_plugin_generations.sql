-- The largest generation that any plugin was ever given, in microseconds since 1970: removing a plugin does not forget
-- it, and a clock that goes back does not repeat it.
CREATE SEQUENCE gateway.plugin_generations AS bigint MINVALUE 0 START 0;
