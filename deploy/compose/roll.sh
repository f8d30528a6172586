#!/bin/sh
# Replaces every process of one service by a new one, of the image and the settings as they are now: first as many new
# ones are started beside the old, and once they are ready, the old are told to stop. So a client moves once, and to a
# process that stays. Where the new ones do not become ready, they are taken away again and the old go on.
#   deploy/compose/roll.sh gateway|reader|revision      from the folder of docker-compose.yml
set -eu

service=${1:?'name a service: gateway, reader or revision'}
old=$(docker compose ps --quiet "$service")
[ -n "$old" ] || { echo "no process of $service runs; docker compose up -d starts it" >&2; exit 1; }
count=$(echo "$old" | wc -l)

all=$(docker compose ps --all --quiet "$service")
if ! docker compose up --detach --no-deps --no-recreate --wait --scale "$service=$((count * 2))" "$service"; then
  new=$(docker compose ps --all --quiet "$service" | grep -vxF "$all") || true
  echo "the new processes of $service did not become ready; the old go on. The last that each new one said:" >&2
  for process in $new; do docker logs --tail 3 "$process" >&2; done
  echo "$new" | xargs -r docker rm --force > /dev/null
  exit 1
fi
# They stop together: the load balancer sends what comes to the new ones alone.
echo "$old" | xargs docker stop > /dev/null
echo "$old" | xargs docker rm > /dev/null
docker compose up --detach --no-deps --no-recreate --scale "$service=$count" "$service"
