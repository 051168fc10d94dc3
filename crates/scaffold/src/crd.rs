//! Definitions of kinds that are not generated from the project's code.

use serde_json::{Value, json};

use crate::project::Resource;
use crate::schema::open_object;

/// Returns the definition of a kind, with a schema for its spec and printer columns.
pub(crate) fn definition(resource: &Resource, namespaced: bool, spec: Value, columns: Value) -> Value {
    let Resource { group, version, kind, plural, .. } = resource;
    let singular = kind.to_ascii_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular },
            "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": columns,
                "schema": { "openAPIV3Schema": {
                    "description": format!("{kind} is the Schema for the {plural} API"),
                    "type": "object",
                    "properties": {
                        "apiVersion": {
                            "description": "Version of the schema of this representation of an object.",
                            "type": "string",
                        },
                        "kind": { "description": "Kind of the object.", "type": "string" },
                        "metadata": { "type": "object" },
                        "spec": spec,
                        "status": open_object("Observed state: conditions, and what the operator last did."),
                    },
                } },
            }],
        },
    })
}
