{{ define "parent.name" }}{{ .Release.Name }}-parent{{ end }}
