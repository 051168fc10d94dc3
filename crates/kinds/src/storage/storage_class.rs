//! StorageClass.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{fields::FieldError, names, object, table::Cell};

use crate::{
    cells::{class_name, flag, text, text_or},
    check::{self, Errors, FieldErrors, FieldPath, Read},
    core::pod,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &StorageClass,
    columns: &[
        Column::NAME,
        Column::string("Provisioner"),
        Column::string("ReclaimPolicy"),
        Column::string("VolumeBindingMode"),
        Column::string("AllowVolumeExpansion"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("storage.k8s.io", "storageclasses")
};

struct StorageClass;

impl Rules for StorageClass {
    fn default(&self, _: &str, object: &mut Value) {
        let root = object::ensure(object);
        check::default(root, "reclaimPolicy", "Delete");
        check::default(root, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        match object.str("provisioner") {
            "" => errors.required("provisioner", ""),
            name => {
                let name = name.to_lowercase();
                errors.all(&FieldPath::root("provisioner"), &name, names::qualified(&name));
            }
        }
        parameters(object, errors);
        for (field, words) in [
            ("reclaimPolicy", &["Delete", "Retain"][..]),
            ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"][..]),
        ] {
            let given = object.opt_str(field);
            match given {
                None if field == "volumeBindingMode" => errors.required(field, ""),
                Some(word)
                    if !words.contains(&word) && (!word.is_empty() || field == "volumeBindingMode") =>
                {
                    errors.unsupported(field, word, words);
                }
                _ => {}
            }
        }
        topologies(object.list("allowedTopologies"), errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
        change.metadata(errors);
        change.immutable(&["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"], errors);
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, term) in object.list("allowedTopologies").iter().enumerate() {
            for (entry, expression) in term.list("matchLabelExpressions").iter().enumerate() {
                let key = expression.str("key");
                if let Some(why) = pod::deprecated_label(key) {
                    warnings.push(format!(
                        "allowedTopologies[{index}].matchLabelExpressions[{entry}].key: {key} is {why}"
                    ));
                }
            }
        }
        warnings
    }
}

fn parameters(object: &Value, errors: &mut Errors) {
    let at = FieldPath::root("parameters");
    if object.pairs("parameters").count() > 512 {
        return errors.push(FieldError::too_long(at, 512));
    }
    let mut size = 0;
    for (key, value) in object.pairs("parameters") {
        if key.is_empty() {
            errors.invalid(at, key, "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > 256 * 1024 {
        errors.push(FieldError::too_long(at, 256 * 1024));
    }
}

/// Maximum number of errors about duplicate terms. kube-apiserver reports every pair, without a limit.
const MOST_REPEATED: usize = 10_000;

fn topologies(terms: &[Value], errors: &mut Errors) {
    let at = FieldPath::root("allowedTopologies");
    let mut seen: HashMap<BTreeMap<&str, Vec<&str>>, usize> = HashMap::new();
    let mut told = 0;
    for (index, term) in terms.iter().enumerate() {
        let here = at.index(index);
        let list = here.field("matchLabelExpressions");
        let mut expressions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (index, expression) in term.list("matchLabelExpressions").iter().enumerate() {
            let at = list.index(index);
            let place = at.field("values");
            let mut values = BTreeSet::new();
            if expression.list("values").is_empty() {
                errors.required(place, "");
            }
            for (index, value) in expression.strs("values").into_iter().enumerate() {
                if !values.insert(value) {
                    errors.duplicate(place.index(index), value);
                }
            }
            let key = expression.str("key");
            errors.all(&at.field("key"), key, names::qualified(key));
            if expressions.insert(key, values.into_iter().collect()).is_some() {
                errors.duplicate(at.field("key"), key);
            }
        }
        // kube-apiserver starts with as many empty terms as there are terms. An empty term duplicates each of them.
        let empty = if expressions.is_empty() { terms.len() } else { 0 };
        let same = seen.entry(expressions).or_default();
        let repeated = (empty + *same).min(MOST_REPEATED - told);
        (0..repeated).for_each(|_| errors.duplicate(list, ""));
        told += repeated;
        *same += 1;
    }
}

const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "Name" => class_name(object, &DEFAULT_CLASS),
        "Provisioner" => text(object, &["provisioner"]),
        "ReclaimPolicy" => text_or(object, &["reclaimPolicy"], "Delete"),
        "VolumeBindingMode" => text_or(object, &["volumeBindingMode"], "Immediate"),
        "AllowVolumeExpansion" => flag(object, &["allowVolumeExpansion"], false),
        _ => return None,
    })
}
