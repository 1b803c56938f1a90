#!/bin/sh
# A proxy under Compose calls itself as operators do: proxy-2 for the container popmq-proxy-2. From inside, the
# container's name is known by its address alone. COMPOSE_PROJECT_NAME: popmq.
set -u
own=" $(hostname -i) "
for number in $(seq 64); do
    address=$(getent ahostsv4 "$COMPOSE_PROJECT_NAME-proxy-$number" | head -n 1 | cut -d ' ' -f 1)
    case $own in
    *" ${address:-none} "*)
        export POPMQ_PROXY_NAME="proxy-$number"
        break
        ;;
    esac
done
exec popmq proxy
