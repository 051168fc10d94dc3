module github.com/steersman-dev/steersman/oracles/kubernetes/controlplane

go 1.26.0
