//! Objects that are equal in every cluster: roles, bindings, priority levels and flow schemas.
//!
//! They are kept in stored form, with gaps for what differs between clusters, so that server start copies bytes and
//! parses nothing.

use std::sync::LazyLock;

use steersman_api::{
    environment::EnvironmentExt as _,
    store::{Draft, Template},
};

use crate::core::Core;

const DATA: &str = include_str!("../../data/objects.tsv");
/// Placeholder of the uid in the data file.
const UID: &str = "00000000-0000-0000-0000-000000000000";
/// Placeholder of the time in the data file.
const TIME: &str = "2000-01-01T00:00:00Z";

struct Object {
    storage: &'static str,
    key: &'static str,
    template: Template,
}

// The file is compiled into the program; a test parses it.
static OBJECTS: LazyLock<Vec<Object>> = LazyLock::new(|| DATA.lines().filter_map(object).collect());

fn object(line: &'static str) -> Option<Object> {
    let mut columns = line.splitn(4, '\t');
    let storage = columns.next()?;
    let key = columns.next()?;
    let labels = columns.next()?.split(',').filter_map(|label| label.split_once('='));
    let template = Template::new(columns.next()?, labels.collect(), &[UID, TIME])?;
    Some(Object { storage, key, template })
}

/// Creates missing objects.
pub(super) fn populate(core: &Core) {
    create(core, |_| true);
}

/// Recreates an object, if it is one of these.
pub(crate) fn recreate(core: &Core, storage: &str, key: &str) {
    create(core, |object| object.storage == storage && object.key == key);
}

fn create(core: &Core, is_wanted: impl Fn(&Object) -> bool) {
    let now = core.environment.now_string();
    for object in OBJECTS.iter().filter(|object| is_wanted(object)) {
        let draft: Draft = object.template.fill(&[&core.environment.uid(), &now]);
        // An existing one is left unchanged.
        let _ = core.store.create(object.storage, object.key, draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[test]
    fn every_line_is_an_object_at_rest() {
        let objects = &*OBJECTS;
        assert_eq!((objects.len(), DATA.lines().count()), (152, 152));
        let server = Server::default();
        for object in objects {
            let entry = server.store().get(object.storage, object.key).unwrap();
            let value = entry.value();
            let copy = Server::builder().bootstrap(false).build();
            let written = Draft::new(&value, Vec::new()).unwrap();
            let written = copy.store().create(object.storage, object.key, written).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&entry.bytes()),
                String::from_utf8_lossy(&written.bytes()),
                "{}",
                object.key
            );
            assert_eq!(value["metadata"]["resourceVersion"], entry.revision().to_string());
            assert_eq!(
                steersman_api::object::key(
                    steersman_api::object::namespace(&value),
                    steersman_api::object::name(&value)
                ),
                object.key
            );
            let labels: Vec<_> = value["metadata"]["labels"].as_object().into_iter().flatten().collect();
            assert!(labels.iter().all(|(k, v)| entry.labels().get(k) == v.as_str()));
            assert_eq!(labels.len(), entry.labels().iter().count());
            assert_ne!(value["metadata"]["uid"], UID);
            assert!(!String::from_utf8_lossy(&entry.bytes()).contains(TIME));
        }
    }
}
