{{/* What all pods share: (dict "root" $ "service" "broker") */}}
{{- define "popmq.pod" -}}
{{- $own := index .root.Values .service -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
automountServiceAccountToken: false
# Else Kubernetes sets variables such as POPMQ_PROXY_PORT from the names of Services, and they are not what they seem.
enableServiceLinks: false
# The first process reaps, as `init: true` of Compose does.
shareProcessNamespace: true
terminationGracePeriodSeconds: {{ $own.terminationGraceSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "popmq.selector" . | nindent 8 }}
{{- with $own.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What all containers share: (dict "root" $ "service" "broker" "probed" 5558) */}}
{{- define "popmq.container" -}}
{{- $own := index .root.Values .service -}}
name: {{ .service }}
image: "{{ .root.Values.image.repository }}:{{ include "popmq.tag" . }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [{{ .service }}]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{ toYaml $own.resources | nindent 2 }}
startupProbe:
  exec: {command: &probe [python, -m, popmq_cli.cluster.probe, "127.0.0.1:{{ .probed }}"{{ include "popmq.probeTls" . }}]}
  periodSeconds: 2
  timeoutSeconds: 10
  failureThreshold: {{ div $own.startupSeconds 2 }}
readinessProbe:
  exec: {command: *probe}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 2
livenessProbe:
  exec: {command: *probe}
  periodSeconds: 30
  timeoutSeconds: 10
  failureThreshold: 4
{{- end }}

{{/* What the probe needs where its port speaks TLS; a proxy's speaks both, unless it is told otherwise. */}}
{{- define "popmq.probeTls" -}}
{{- if eq .service "proxy" -}}
{{- if eq (toString .root.Values.proxy.env.POPMQ_PROXY_TLS_ONLY) "true" }}, --tls{{ end -}}
{{- else if .root.Values.tls.enabled -}}
, --tls-ca=/service-tls/ca.crt, --tls-cert=/service-tls/tls.crt, --tls-key=/service-tls/tls.key
{{- else if and (eq .service "broker") .root.Values.broker.linkTlsSecret -}}
, --tls
{{- end -}}
{{- end }}

{{/* Metrics over TLS, for who shows a certificate. */}}
{{- define "popmq.metricsTls" -}}
{{- if and .root.Values.tls.enabled .root.Values.tls.metrics }}
- {name: POPMQ_{{ upper .service }}_METRICS_TLS_CERT, value: /service-tls/tls.crt}
- {name: POPMQ_{{ upper .service }}_METRICS_TLS_KEY, value: /service-tls/tls.key}
- {name: POPMQ_{{ upper .service }}_METRICS_TLS_CLIENT_CA, value: /service-tls/ca.crt}
{{- end }}
{{- end }}

{{- define "popmq.tlsMount" -}}
{{- if .root.Values.tls.enabled }}
- {name: service-tls, mountPath: /service-tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "popmq.tlsVolume" -}}
{{- if .root.Values.tls.enabled }}
- {name: service-tls, secret: {secretName: {{ include "popmq.tlsSecret" .root }}, defaultMode: 0440}}
{{- end }}
{{- end }}

{{/* Variables of values.yaml; the chart's own may not be among them. */}}
{{- define "popmq.env" -}}
{{- $own := index .root.Values .service -}}
{{- range $name, $value := $own.env }}
{{- if not (hasPrefix (printf "POPMQ_%s_" (upper $.service)) $name) }}
{{- fail (printf "%s.env has %s, which is no variable of that service" $.service $name) }}
{{- end }}
- {name: {{ $name }}, value: {{ toString $value | quote }}}
{{- end }}
{{- end }}
