{{- define "holdfast.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "holdfast.scheme" -}}
{{- $admin := .Values.config.admin | default dict -}}
{{- .Values.probes.scheme | default (ternary "HTTPS" "HTTP" (not (empty $admin.tls))) -}}
{{- end -}}

{{/*
The values of config have priority over those of the chart, except where others depend on them.
*/}}
{{- define "holdfast.config" -}}
{{- if hasKey .Values.config "shutdown_grace" -}}
{{- fail "config.shutdown_grace: set shutdownGraceSeconds instead, so that a pod gets the same time" -}}
{{- end -}}
{{- $listen := "0.0.0.0:8080" -}}
{{- $found := dig "listen" $listen (.Values.config.admin | default dict) | toString -}}
{{- if ne $found $listen -}}
{{- fail (printf "config.admin.listen: found %q, expected %q: the probes and the Service use this address" $found $listen) -}}
{{- end -}}
{{- $database := dict "url_file" "/run/secrets/holdfast/database-url" -}}
{{- $given := .Values.config.database | default dict -}}
{{- if or (hasKey $given "url") (hasKey $given "url_file") -}}
{{- $database = dict -}}
{{- end -}}
{{- $own := dict
    "database" $database
    "replica" (dict "name" "${POD_NAME}")
    "shutdown_grace" (printf "%ds" (int .Values.shutdownGraceSeconds))
    "admin" (dict "listen" $listen) -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) -}}
{{- end -}}
