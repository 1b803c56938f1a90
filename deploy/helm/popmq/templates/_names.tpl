{{- define "popmq.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* What selects the pods of a service: (dict "root" $ "service" "broker") */}}
{{- define "popmq.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .service }}
{{- end }}

{{/* Nothing of the chart: a pod is replaced when something changes for it. */}}
{{- define "popmq.podLabels" -}}
{{ include "popmq.selector" . }}
app.kubernetes.io/part-of: popmq
app.kubernetes.io/version: {{ include "popmq.tag" . | trunc 63 | quote }}
{{- end }}

{{- define "popmq.labels" -}}
{{ include "popmq.podLabels" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end }}

{{- define "popmq.tag" -}}
{{- $own := index .root.Values .service -}}
{{- $own.tag | default .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{- end }}

{{- define "popmq.linkSecret" -}}
{{- .Values.linkSecret.existingSecret | default (printf "%s-link" (include "popmq.name" .)) -}}
{{- end }}

{{/* The Secret of tls.enabled, mounted at /service-tls. */}}
{{- define "popmq.tlsSecret" -}}
{{- if or .Values.broker.linkTlsSecret .Values.proxy.linkTlsCaSecret -}}
{{- fail "tls.enabled secures the link, too: take away broker.linkTlsSecret and proxy.linkTlsCaSecret" -}}
{{- end -}}
{{- required "tls.enabled needs tls.existingSecret, a Secret with tls.crt, tls.key and ca.crt" .Values.tls.existingSecret -}}
{{- end }}

{{/* host:port of each nameserver, by its pod's own name */}}
{{- define "popmq.nameservers" -}}
{{- $name := include "popmq.name" . -}}
{{- $found := list -}}
{{- range $number := until (int .Values.nameserver.replicas) -}}
{{- $found = append $found (printf "%s-nameserver-%d.%s-nameservers.%s.svc:9876" $name $number $name $.Release.Namespace) -}}
{{- end -}}
{{- join "," $found -}}
{{- end }}
