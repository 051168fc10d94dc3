//! What is particular to the built-in kinds: one module per kind or family, behind [`Rules`].

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, LazyLock, OnceLock},
};

use jiff::Timestamp;
use serde_json::Value;
pub(crate) use steersman_api::strategy::Hook;
use steersman_api::strategy::Strategy;
use steersman_patch::{
    StrategicError,
    apply::{TypeId, Types},
    strategic_merge_patch, strategic_remains,
};

use crate::check::{Complain as _, Errors, Read as _};

use crate::{
    admission,
    allocator::Allocators,
    apiextensions, apps, autoscaling, batch, check, claim, config, convert, endpoints, event, facts,
    fields::FieldError,
    group_version::split_api_version,
    internal, metadata,
    names::NameRule,
    namespace, networking, object, pod, policy, print, quota, rbac,
    schema::{self, Schema},
    service, signing,
    status::ApiResult,
    storage,
    table::{Cell, Column},
    webhooks,
};

/// What a kind adds to the common behaviour. Every method does nothing by default.
///
/// Status isolation, generations, metadata and conversion are handled before these are called.
pub(crate) trait Rules: Send + Sync {
    /// Fills in defaults.
    fn default(&self, _version: &str, _object: &mut Value) {}

    /// Prepares a new object.
    fn prepare_create(&self, _hook: Hook<'_>, _object: &mut Value) -> ApiResult<()> {
        Ok(())
    }

    /// Prepares a new version of `old`.
    fn prepare_update(&self, _hook: Hook<'_>, _object: &mut Value, _old: &Value) -> ApiResult<()> {
        Ok(())
    }

    /// Judges a new object, metadata aside.
    fn validate(&self, _object: &Value, _errors: &mut Errors) {}

    /// Judges a change, metadata included where the real server looks at it a second time.
    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        self.validate(change.object, errors);
    }

    /// What is odd about a new object, or about a new version of an old one.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Whether a change counts as a new generation.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        !object::same_except(object, old, &["status"])
    }

    /// Whether defaults of an object show only when it is read: the first update writes them, though nothing else changes.
    fn settles_late(&self, _object: &Value) -> bool {
        false
    }

    /// Gives back what a preparation took.
    fn release(&self, _allocators: &Allocators, _object: &Value) {}

    /// Cells of one row, in the order of the kind's columns; `None` leaves it to the common ones.
    fn cells(&self, _object: &Value, _now: Timestamp) -> Option<Vec<Cell>> {
        None
    }
}

/// A change that is being judged.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) subresource: Option<&'a str>,
    rule: NameRule,
    finalizers: bool,
    emptied: &'a [String],
}

impl Change<'_> {
    /// Judges how metadata changed, as most kinds do once more after the generic code.
    pub(crate) fn metadata(&self, errors: &mut Errors) {
        self.plain_metadata(errors);
        if self.finalizers {
            metadata::known_finalizers(self.object, errors);
        }
    }

    /// Judges how metadata changed, except for names of finalizers.
    pub(crate) fn plain_metadata(&self, errors: &mut Errors) {
        errors.extend(metadata::validate_update(self.object, self.old));
    }

    /// Judges the metadata as if the object were new, which some kinds do on a change as well.
    pub(crate) fn whole_metadata(&self, errors: &mut Errors) {
        let namespaced = !object::namespace(self.object).is_empty();
        errors.extend(metadata::validate(self.object, self.rule, namespaced));
        metadata::known_finalizers(self.object, errors);
    }

    /// What changed at a place from one value of an inner type to another.
    pub(crate) fn diff(&self, at: &str, kind: &str, old: &Value, new: &Value) -> String {
        internal::diff(kind, old, new, at, self.emptied)
    }

    /// The new value at a place as an inner type.
    pub(crate) fn show(&self, at: &str, kind: &str, new: &Value) -> String {
        internal::show_with(kind, new, at, self.emptied)
    }

    /// Whether the status alone is written.
    pub(crate) fn is_status(&self) -> bool {
        self.subresource == Some("status")
    }

    /// Complains about fields of the object that changed.
    pub(crate) fn immutable(&self, fields: &[&str], errors: &mut Errors) {
        for field in fields {
            if self.object.at(field) != self.old.at(field) {
                errors.invalid(*field, self.object.shown(field), check::IMMUTABLE);
            }
        }
    }
}

/// A kind without anything particular.
struct Plain;

impl Rules for Plain {}

fn rules(group: &str, plural: &str) -> &'static dyn Rules {
    match (group, plural) {
        ("", "namespaces") => &namespace::Namespace,
        ("", "services") => &service::Service,
        ("", "secrets") => &config::Secret,
        ("", "configmaps") => &config::ConfigMap,
        ("", "nodes") => &policy::Node,
        ("", "pods") => &pod::Pod,
        ("", "podtemplates") => &apps::PodTemplate,
        ("", "replicationcontrollers") => &apps::ReplicationController,
        ("", "endpoints") => &endpoints::Endpoints,
        ("", "events") => &event::Event { core: true },
        ("events.k8s.io", "events") => &event::Event { core: false },
        ("", "limitranges") => &quota::LimitRange,
        ("", "resourcequotas") => &quota::ResourceQuota,
        ("", "persistentvolumes") => &storage::Volume,
        ("", "persistentvolumeclaims") => &claim::Claim,
        ("", "serviceaccounts") => &policy::ServiceAccount,
        ("apps", "deployments") => &apps::Deployment,
        ("apps", "replicasets") => &apps::ReplicaSet,
        ("apps", "statefulsets") => &apps::StatefulSet,
        ("apps", "daemonsets") => &apps::DaemonSet,
        ("apps", "controllerrevisions") => &apps::ControllerRevision,
        ("batch", "jobs") => &batch::Job,
        ("batch", "cronjobs") => &batch::CronJob,
        ("rbac.authorization.k8s.io", "roles") => &rbac::Role { namespaced: true },
        ("rbac.authorization.k8s.io", "clusterroles") => &rbac::Role { namespaced: false },
        ("rbac.authorization.k8s.io", "rolebindings") => &rbac::Binding { namespaced: true },
        ("rbac.authorization.k8s.io", "clusterrolebindings") => &rbac::Binding { namespaced: false },
        ("networking.k8s.io", "ingresses") => &networking::Ingress,
        ("networking.k8s.io", "ingressclasses") => &networking::IngressClass,
        ("networking.k8s.io", "networkpolicies") => &networking::NetworkPolicy,
        ("networking.k8s.io", "ipaddresses") => &networking::IpAddress,
        ("networking.k8s.io", "servicecidrs") => &networking::ServiceCidr,
        ("policy", "poddisruptionbudgets") => &policy::DisruptionBudget,
        ("autoscaling", "horizontalpodautoscalers") => &autoscaling::Autoscaler,
        ("discovery.k8s.io", "endpointslices") => &endpoints::EndpointSlice,
        ("scheduling.k8s.io", "priorityclasses") => &policy::PriorityClass,
        ("node.k8s.io", "runtimeclasses") => &policy::RuntimeClass,
        ("coordination.k8s.io", "leases") => &policy::Lease,
        ("storage.k8s.io", "storageclasses") => &storage::StorageClass,
        ("storage.k8s.io", "csidrivers") => &policy::CsiDriver,
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => &webhooks::Webhooks,
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => &webhooks::MutatingWebhooks,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &admission::ValidatingPolicy,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            &admission::ValidatingBinding
        }
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => &admission::MutatingPolicy,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => &admission::MutatingBinding,
        ("certificates.k8s.io", "certificatesigningrequests") => &signing::SigningRequest,
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            &apiextensions::custom_resource_definition::DefinitionRules
        }
        _ => &Plain,
    }
}

/// The strategy of a built-in resource.
pub(crate) struct Builtin {
    group: String,
    plural: String,
    kind: String,
    rules: &'static dyn Rules,
    versions: OnceLock<Vec<Known>>,
}

impl Builtin {
    pub(crate) fn new(group: &str, plural: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            rules: rules(group, plural),
            versions: OnceLock::new(),
        }
    }

    fn known(&self, version: &str) -> Option<&Known> {
        let versions = self.versions.get_or_init(|| versions(&self.group, &self.kind));
        versions.iter().find(|k| k.version == version)
    }

    fn key(&self) -> (&str, &str) {
        (&self.group, &self.plural)
    }
}

/// What is known of a kind in one version.
struct Known {
    version: String,
    name: &'static str,
    schema: Arc<Schema>,
}

/// The versions of a kind, from the OpenAPI definitions.
fn versions(group: &str, kind: &str) -> Vec<Known> {
    type Index = HashMap<(&'static str, &'static str), Vec<(&'static str, &'static str)>>;
    static INDEX: LazyLock<Index> = LazyLock::new(|| {
        let mut index = Index::new();
        for (name, schema) in schema::definitions() {
            for gvk in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let text = |key: &str| gvk[key].as_str().unwrap_or_default();
                index.entry((text("group"), text("kind"))).or_default().push((text("version"), name));
            }
        }
        index
    });
    let found = INDEX.get(&(group, kind)).into_iter().flatten();
    found
        .filter_map(|(version, name)| {
            Some(Known { version: (*version).to_owned(), name, schema: schema::definition(name)? })
        })
        .collect()
}

/// The types by which fields are owned.
static TYPES: LazyLock<Types> = LazyLock::new(|| Types::from_components(schema::definitions()));

/// The type of a kind by its name in the OpenAPI definitions.
pub fn types(name: &str) -> Option<(&'static Types, TypeId)> {
    Some((&TYPES, TYPES.named(name)?))
}

impl Strategy for Builtin {
    fn schema(&self, version: &str) -> Option<Arc<Schema>> {
        Some(Arc::clone(&self.known(version)?.schema))
    }

    fn stored_schema(&self, version: &str) -> Option<Arc<Schema>> {
        if self.key() == ("events.k8s.io", "events") {
            return schema::definition("io.k8s.api.core.v1.Event");
        }
        self.schema(version)
    }

    fn types(&self, version: &str) -> Option<(&Types, TypeId)> {
        Some((&TYPES, TYPES.named(self.known(version)?.name)?))
    }

    fn reset_fields(&self, subresource: &str) -> &'static [&'static [&'static str]] {
        facts::reset_fields(self.key(), subresource)
    }

    fn strategic_remains(&self, version: &str, object: &Value, patch: &Value) -> Value {
        match self.known(version) {
            Some(known) => strategic_remains(object, patch, schema::definitions(), known.name),
            None => patch.clone(),
        }
    }

    fn strategic(
        &self,
        version: &str,
        object: &Value,
        patch: &Value,
    ) -> Option<Result<Value, StrategicError>> {
        let name = self.known(version)?.name;
        Some(strategic_merge_patch(object, patch, schema::definitions(), name))
    }

    fn typed(&self) -> bool {
        true
    }

    fn default(&self, version: &str, object: &mut Value) {
        self.rules.default(version, object);
    }

    fn convert(&self, object: Value, from: &str, to: &str) -> ApiResult<Value> {
        if from == to {
            return Ok(object);
        }
        let (group, version) = split_api_version(to);
        let mut object = convert::convert(object, split_api_version(from), (group, version), to);
        // What is written when empty differs between versions.
        let schema = if group == self.group { self.schema(version) } else { self.stored_schema(version) };
        if let Some(schema) = schema {
            schema.encode(&mut object);
        }
        Ok(object)
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        if facts::resets_status(self.key())
            && let Some(root) = object.as_object_mut()
        {
            root.remove("status");
        }
        self.rules.prepare_create(hook, object)
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        match hook.subresource {
            Some("status" | "approval") => {
                // Only the status moves; metadata has been dealt with before.
                let mut root = object::copy_without(old, &["metadata", "status"]);
                let mut written = std::mem::take(object::ensure(object));
                root.insert("metadata".into(), written.remove("metadata").unwrap_or_default());
                root.extend(written.remove("status").map(|status| ("status".into(), status)));
                *object = Value::Object(root);
            }
            // Choosing a node is noted in the status.
            Some("binding") => {}
            _ if facts::has_status(self.key()) => object::carry(old, object, "status"),
            _ => {}
        }
        self.rules.prepare_update(hook, object, old)
    }

    fn validate_create(&self, _: Hook<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.rules.validate(object, &mut errors);
        errors
    }

    fn validate_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let change = Change {
            object,
            old,
            subresource: hook.subresource,
            rule: self.name_rule(),
            finalizers: self.checks_finalizers(),
            emptied: hook.emptied,
        };
        self.rules.validate_update(change, &mut errors);
        errors
    }

    fn checks_finalizers(&self) -> bool {
        facts::checks_finalizers(self.key())
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        self.rules.warnings(object, old)
    }

    fn deprecation(&self) -> Option<&'static str> {
        facts::deprecation(self.key())
    }

    fn settles_late(&self, object: &Value) -> bool {
        self.rules.settles_late(object)
    }

    fn release(&self, allocators: &Allocators, object: &Value) {
        self.rules.release(allocators, object);
    }

    fn name_rule(&self) -> NameRule {
        facts::name_rule(self.key())
    }

    fn has_generation(&self) -> bool {
        facts::has_generation(self.key())
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        self.rules.is_new_generation(object, old)
    }

    fn notices_empty(&self) -> bool {
        self.key() == ("networking.k8s.io", "networkpolicies")
    }

    fn allows_unconditional_update(&self) -> bool {
        facts::allows_unconditional_update(self.key())
    }

    fn allows_create_on_update(&self) -> bool {
        facts::allows_create_on_update(self.key())
    }

    fn grace_seconds(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        (self.key() == ("", "pods")).then(|| pod::grace_seconds(object, asked))
    }

    fn selectable(&self, object: &Value) -> Vec<(Cow<'static, str>, String)> {
        let fields = facts::selectable(self.key());
        fields.iter().map(|(name, path)| (Cow::Borrowed(*name), facts::value(object, path))).collect()
    }

    fn selectable_names(&self, _: &str) -> Vec<String> {
        let renamed = facts::renamed(self.key());
        if !renamed.is_empty() {
            return renamed.iter().map(|(name, _)| (*name).to_owned()).collect();
        }
        facts::selectable(self.key()).iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn selected_as(&self, name: &str) -> Option<&'static str> {
        facts::renamed(self.key()).iter().find(|(new, _)| *new == name).map(|(_, old)| *old)
    }

    fn columns(&self, version: &str) -> Vec<Column> {
        facts::columns(&self.group, version, &self.plural)
    }

    fn cells(&self, version: &str, object: &Value, now: Timestamp) -> Vec<Cell> {
        if let Some(cells) = self.rules.cells(object, now) {
            return cells;
        }
        self.columns(version)
            .iter()
            .map(|column| {
                let known = print::cell(self.key(), &column.name, object, now);
                known.unwrap_or_else(|| "<none>".into())
            })
            .collect()
    }
}
