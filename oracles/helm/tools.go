//go:build tools

package main

// The real program is built from the same module, so that both always agree on their versions.
import _ "helm.sh/helm/v3/cmd/helm"
