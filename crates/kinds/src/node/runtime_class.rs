//! RuntimeClass.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{names, table::Cell};

use crate::{
    cells::text,
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    core::pod::affinity,
    kind::{Change, Column, Kind, Rules},
    resources,
};

pub(super) const KIND: Kind = Kind {
    rules: &RuntimeClass,
    allows_unconditional_update: false,
    allows_create_on_update: true,
    columns: &[Column::NAME, Column::string("Handler"), Column::AGE],
    cell,
    ..Kind::new("node.k8s.io", "runtimeclasses")
};

struct RuntimeClass;

impl Rules for RuntimeClass {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        match object.str("handler") {
            "" => errors.required("handler", ""),
            name => errors.all(&FieldPath::root("handler"), name, names::label(name)),
        }
        if let Some(overhead) = object.opt("overhead") {
            let limits = json!({ "limits": overhead.at("podFixed") });
            resources::requirements(
                FieldPath::root("overhead"),
                &limits,
                resources::container_name,
                &[],
                errors,
            );
        }
        if let Some(scheduling) = object.opt("scheduling") {
            let at = FieldPath::root("scheduling");
            check::labels(at.field("nodeSelector"), scheduling.pairs("nodeSelector"), errors);
            affinity::tolerations(at.field("tolerations"), scheduling.list("tolerations"), errors);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.object.str("handler") != change.old.str("handler") {
            errors.invalid("handler", change.object.str("handler"), IMMUTABLE);
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "Handler").then(|| text(object, &["handler"]))
}
