#!/bin/sh
# A proxy under Compose calls itself as operators do: proxy-2 for the container popmq-proxy-2. From inside, only
# Docker's DNS knows the container's name, by its address. COMPOSE_PROJECT_NAME: popmq.
set -u
for address in $(hostname -i); do
    name=$(getent -s hosts:dns hosts "$address" | head -n 1 | sed -E 's/^[^ ]+ +([^. ]+).*/\1/')
    case $name in
    "$COMPOSE_PROJECT_NAME"-proxy-[0-9]*)
        export POPMQ_PROXY_NAME="${name#"$COMPOSE_PROJECT_NAME"-}"
        break
        ;;
    esac
done
exec popmq proxy
