#!/bin/sh
# Redis with a password that stands in no command line, and without anything on disk: nothing in it must survive.
#   redis.sh serve     runs the server
#   redis.sh answers   succeeds when it answers
# The password is that of KANDEV_REDIS_PASSWORD, or of the file that KANDEV_REDIS_PASSWORD_FILE names.
set -eu

password=${KANDEV_REDIS_PASSWORD:-}
if [ -n "${KANDEV_REDIS_PASSWORD_FILE:-}" ]; then
  password=$(cat "$KANDEV_REDIS_PASSWORD_FILE")
fi
[ -n "$password" ] || { echo 'set KANDEV_REDIS_PASSWORD, or KANDEV_REDIS_PASSWORD_FILE' >&2; exit 1; }

case $1 in
  serve)
    umask 077
    quoted=$(printf '%s' "$password" | sed 's/[\\"]/\\&/g')
    {
      printf 'requirepass "%s"\n' "$quoted"
      printf '%s\n' 'bind * -::*' 'port 6379' 'dir /data' 'save ""' 'appendonly no' \
        'maxmemory 512mb' 'maxmemory-policy noeviction' 'tcp-keepalive 30' 'loglevel notice'
    } > /run/redis/redis.conf
    exec redis-server /run/redis/redis.conf
    ;;
  answers)
    [ "$(REDISCLI_AUTH=$password redis-cli ping)" = PONG ]
    ;;
  *)
    echo 'redis.sh serve | answers' >&2
    exit 2
    ;;
esac
