{{ define "h" }}
image: {{ .Values.image.repository }}
{{ end }}