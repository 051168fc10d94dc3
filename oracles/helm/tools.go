//go:build tools

package main

// The real helm is built from the same module, so that the versions of both always agree.
import _ "helm.sh/helm/v3/cmd/helm"
