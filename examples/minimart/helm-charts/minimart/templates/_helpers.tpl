{{- define "minimart.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "minimart.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "minimart.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "minimart.selectorLabels" -}}
app.kubernetes.io/name: {{ include "minimart.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "minimart.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "minimart.selectorLabels" . }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "minimart.page" -}}
<!doctype html>
<title>{{ .Values.shop.name | html }}</title>
<h1>{{ .Values.shop.name | html }}</h1>
<ul>
{{- range .Values.shop.items }}
  <li>{{ .name | html }}: {{ printf "%.2f" .price }} {{ $.Values.shop.currency | html }}</li>
{{- end }}
</ul>
{{ end }}

{{- define "minimart.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "minimart.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}
