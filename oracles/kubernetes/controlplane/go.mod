module steersman.dev/oracles/kubernetes/controlplane

go 1.26.0
