#!/bin/sh
# With a file mounted at /etc/alertmanager/alertmanager.yml Alertmanager is configured by it alone. Else alerts
# are posted to POPMQ_ALERT_WEBHOOK; without that they are seen on Alertmanager's own page, and nobody is told.
set -eu
config=/etc/alertmanager/alertmanager.yml
if ! [ -e "$config" ]; then
    config=/tmp/alertmanager.yml
    cp /usr/local/share/alertmanager.yml "$config"
    printf 'receivers:\n  - name: operators\n' >> "$config"
    if [ -n "${POPMQ_ALERT_WEBHOOK:-}" ]; then
        quoted=$(printf '%s' "$POPMQ_ALERT_WEBHOOK" | sed "s/'/''/g")
        printf "    webhook_configs:\n      - {url: '%s', send_resolved: true}\n" "$quoted" >> "$config"
    fi
fi
exec prometheus-alertmanager --config.file="$config" --storage.path=/alertmanager --cluster.listen-address= "$@"
