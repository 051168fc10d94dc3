//! APIService.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _,
    names::{self, NameRule},
    object,
    status::{ApiResult, quote},
    strategy::Hook,
    table::Cell,
};

use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ApiService,
    names: NameRule::PathSegment,
    has_status: true,
    allows_unconditional_update: false,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[Column::NAME, Column::string("Service"), Column::string("Available"), Column::AGE],
    cell,
    ..Kind::new("apiregistration.k8s.io", "apiservices")
};

struct ApiService;

impl Rules for ApiService {
    fn default(&self, _: &str, object: &mut Value) {
        if let Some(service) =
            check::child(object::ensure(object), "spec").and_then(|spec| check::child(spec, "service"))
        {
            check::default(service, "port", 443);
        }
    }

    /// Sets the Available condition of local APIServices, which are always available.
    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        if object.path(&["spec", "service"]).is_null() {
            let condition = json!({
                "type": "Available",
                "status": "True",
                "lastTransitionTime": hook.environment.now_string(),
                "reason": "Local",
                "message": "Local APIServices are always available",
            });
            object::child(object, "status").insert("conditions".into(), json!([condition]));
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        let (group, version) = (spec.str("group"), spec.str("version"));
        check_name(object::name(object), &format!("{version}.{group}"), errors);
        if group.is_empty() && version != "v1" {
            let why = "only v1 may have an empty group and it better be legacy kube";
            errors.required(at.field("group"), why);
        }
        if !group.is_empty() {
            errors.all(&at.field("group"), group, names::subdomain(group));
        }
        errors.all(&at.field("version"), version, names::label_1035(version));
        for (field, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
            let priority = spec.int(field);
            if !(1..=limit).contains(&priority) {
                let why = format!("must be positive and less than {limit}");
                errors.invalid(at.field(field), priority, why);
            }
        }
        let bundle = spec.str("caBundle");
        let insecure = spec.flag("insecureSkipTLSVerify");
        let Some(service) = spec.opt("service") else {
            if !bundle.is_empty() {
                let shown = format!("{} bytes", bundle.trim_end_matches('=').len() * 3 / 4);
                errors.invalid(at.field("caBundle"), shown, "local APIServices may not have a caBundle");
            }
            if insecure {
                let why = "local APIServices may not have insecureSkipTLSVerify";
                errors.invalid(at.field("insecureSkipTLSVerify"), true, why);
            }
            return;
        };
        let place = at.field("service");
        for field in ["namespace", "name"] {
            if service.str(field).is_empty() {
                errors.required(place.field(field), "");
            }
        }
        let port = service.int("port");
        let faults = check::port_number(port);
        if !faults.is_empty() {
            errors.invalid(place.field("port"), port, format!("port is not valid: {}", faults.join(", ")));
        }
        if insecure && !bundle.is_empty() {
            let why = "may not be true if caBundle is present";
            errors.invalid(at.field("insecureSkipTLSVerify"), true, why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.plain_metadata(errors);
        if change.subresource != Some("status") {
            return self.validate(change.object, errors);
        }
        let list = FieldPath::root("status");
        let list = list.field("conditions");
        for (index, condition) in change.object.at("status").list("conditions").iter().enumerate() {
            let status = condition.str("status");
            if !STATUSES.contains(&status) {
                errors.unsupported(list.index(index).field("status"), status, &STATUSES);
            }
        }
    }
}

/// Valid values of a condition's status.
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Validates that the name is `version.group`. An invalid name has been reported already.
fn check_name(name: &str, expected: &str, errors: &mut Errors) {
    if name.is_empty() || name == expected || !names::check(NameRule::PathSegment, name, false).is_empty() {
        return;
    }
    let why = format!("must be `spec.version+\".\"+spec.group`: {}", quote(expected));
    errors.invalid("metadata.name", name, why);
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let text = match column {
        "Service" => match object.path(&["spec", "service"]) {
            Value::Null => "Local".to_owned(),
            service => format!("{}/{}", service.str("namespace"), service.str("name")),
        },
        "Available" => available(object),
        _ => return None,
    };
    Some(Cell::from(text))
}

/// Formats the Available condition, with its reason unless it is true.
fn available(object: &Value) -> String {
    let mut conditions = object.at("status").list("conditions").iter();
    let Some(condition) = conditions.find(|condition| condition.str("type") == "Available") else {
        return "Unknown".to_owned();
    };
    match (condition.str("status"), condition.str("reason")) {
        (status, reason) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        (status, _) => status.to_owned(),
    }
}
