{{ define "h" }}
  {{ required "a name is needed: set .Values.name" .Values.name }}
{{ end }}