//! ServiceCIDR.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::table::Cell;

use crate::{
    cells::{list, plain},
    check::{Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    ip,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ServiceCidr,
    has_status: true,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[Column::NAME, Column::string("CIDRs"), Column::AGE],
    cell,
    ..Kind::new("networking.k8s.io", "servicecidrs")
};

struct ServiceCidr;

impl Rules for ServiceCidr {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let at = FieldPath::root("spec");
        let at = at.field("cidrs");
        let cidrs = object.at("spec").strs("cidrs");
        if cidrs.is_empty() {
            return errors.required(at, "at least one CIDR required");
        }
        if cidrs.len() > 2 {
            let shown = format!("{{\"CIDRs\":{}}}", object.path(&["spec", "cidrs"]));
            return errors.invalid_shown(at, shown, "may only hold up to 2 values");
        }
        for (index, text) in cidrs.iter().enumerate() {
            ip::legacy_cidr(at.index(index), text, errors);
        }
        let family = |text: &str| ip::parse_cidr(text).map(|(address, _)| address.is_ipv4());
        if let [first, second] = cidrs.as_slice()
            && family(first).is_some()
            && family(first) == family(second)
        {
            let why =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.invalid(at, object.path(&["spec", "cidrs"]).clone(), why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return;
        }
        let at = FieldPath::root("spec");
        let at = at.field("cidrs");
        let (new, old) = (change.object.at("spec").strs("cidrs"), change.old.at("spec").strs("cidrs"));
        if new.len() == old.len() || (old.len() == 1 && new.len() == 2) {
            for (index, (now, then)) in new.iter().zip(&old).enumerate() {
                if now != then {
                    errors.invalid(at.index(index), *now, IMMUTABLE);
                }
            }
            if new.len() > old.len() {
                self.validate(change.object, errors);
            }
        } else {
            errors.invalid(at, change.object.path(&["spec", "cidrs"]).clone(), IMMUTABLE);
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let cidrs = || list(object, &["spec", "cidrs"]).iter().map(plain).collect::<Vec<_>>().join(",");
    (column == "CIDRs").then(|| cidrs().into())
}
