{{ define "lib.hello" }}hello {{ .who }}{{ end }}
