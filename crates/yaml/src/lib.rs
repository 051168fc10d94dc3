//! YAML and JSON as sigs.k8s.io/yaml reads and writes them.
