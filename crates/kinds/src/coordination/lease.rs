//! Lease.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{names, object, status::ApiResult, strategy::Hook, table::Cell};

use crate::{
    cells::text,
    check::{Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &Lease,
    allows_unconditional_update: false,
    allows_create_on_update: true,
    checks_finalizers: false,
    columns: &[Column::NAME, Column::string("Holder"), Column::AGE],
    cell,
    ..Kind::new("coordination.k8s.io", "leases")
};

struct Lease;

/// Fields of the feature CoordinatedLeaderElection, which is disabled.
const COORDINATED: [&str; 2] = ["strategy", "preferredHolder"];

impl Rules for Lease {
    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let spec = object::child(object, "spec");
        COORDINATED.iter().for_each(|field| drop(spec.remove(*field)));
        Ok(())
    }

    fn prepare_update(&self, _: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        let spec = object::child(object, "spec");
        for field in COORDINATED.into_iter().filter(|field| old.at("spec").opt(field).is_none()) {
            spec.remove(field);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        if let Some(seconds) = spec.opt_int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            errors.invalid(at.field("leaseDurationSeconds"), seconds, "must be greater than 0");
        }
        if let Some(count) = spec.opt_int("leaseTransitions") {
            errors.not_negative(at.field("leaseTransitions"), count);
        }
        let strategy = spec.opt_str("strategy");
        if let Some(strategy) = strategy {
            let place = at.field("strategy");
            if !strategy.contains('/') {
                if strategy != "OldestEmulationVersion" {
                    errors.unsupported(place.field("strategy"), strategy, &["OldestEmulationVersion"]);
                }
            } else {
                errors.all(&place.field("strategy"), strategy, names::qualified(strategy));
            }
        }
        if !spec.str("preferredHolder").is_empty() && strategy.unwrap_or_default().is_empty() {
            let why = "may only be specified if `strategy` is defined";
            errors.forbidden(at.field("preferredHolder"), why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.plain_metadata(errors);
        self.validate(change.object, errors);
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "Holder").then(|| text(object, &["spec", "holderIdentity"]))
}
