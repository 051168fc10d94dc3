//! One request on its way through the server.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _,
    fields::FieldError,
    http::{FieldValidation, Include, Options, Output},
    schema::Decoder,
    status::{ApiError, ApiResult},
    store::Entry,
    strategy::Hook,
};

use crate::{
    admission::{AdmissionRequest, Operation},
    auth::{Attributes, User},
    catalog::{Resource, api_version, internal_package, split_api_version},
    convert,
    core::Core,
};

/// One request to a resource: what it is about, who asks, how to answer.
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: Option<String>,
    pub(crate) user: User,
    pub(crate) options: Options,
    pub(crate) output: Output,
    /// Names the manager of writes that do not name one themselves.
    pub(crate) user_agent: String,
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// What a decoder found odd about the body's fields, to be judged once its kind is known.
    pub(crate) complaints: Vec<String>,
    /// Whether the server chose the object's name.
    pub(crate) named_here: bool,
    /// Whether the object is one of many that the request is about.
    pub(crate) of_many: bool,
    /// Places of lists (with `[]` behind them) and maps that were sent empty; a decoder remembers them for the length of a
    /// request.
    pub(crate) emptied: Vec<String>,
    /// Whether the body holds options instead of an object.
    pub(crate) reads_options: bool,
    /// Whether admission has been asked already, about what was sent to a subresource such as `eviction`.
    pub(crate) admitted: bool,
    /// Warnings for the client, sent as headers.
    pub(crate) warnings: Vec<String>,
    /// The request's options as an object, for admission.
    pub(crate) options_object: Value,
}

impl Call {
    /// A request that the server makes of itself.
    pub(crate) fn internal(core: Arc<Core>, resource: Arc<Resource>, namespace: &str) -> Self {
        Self {
            core,
            resource,
            namespace: namespace.into(),
            name: String::new(),
            subresource: None,
            user: User::admin(),
            options: Options::default(),
            output: Output::Object,
            user_agent: "kube-apiserver".into(),
            dry_run: false,
            field_validation: FieldValidation::Ignore,
            complaints: Vec::new(),
            named_here: false,
            of_many: false,
            emptied: Vec::new(),
            reads_options: false,
            admitted: false,
            warnings: Vec::new(),
            options_object: Value::Null,
        }
    }

    /// The object's key in the store.
    pub(crate) fn key(&self) -> String {
        steersman_api::object::key(self.scope(), &self.name)
    }

    /// The namespace that objects of this resource are keyed by: empty for those without namespaces.
    pub(crate) fn scope(&self) -> &str {
        if self.resource.namespaced { &self.namespace } else { "" }
    }

    /// The object as readers see it: without what is not durable yet.
    pub(crate) fn seen(&self) -> ApiResult<Arc<Entry>> {
        self.core
            .store
            .read(&self.resource.storage, &self.key())
            .ok_or_else(|| ApiError::not_found(&self.resource, &self.name))
    }

    /// The stored object, as the latest write left it.
    pub(crate) fn stored(&self) -> ApiResult<Arc<Entry>> {
        self.core
            .store
            .get(&self.resource.storage, &self.key())
            .ok_or_else(|| ApiError::not_found(&self.resource, &self.name))
    }

    /// What the authorizer is asked for another verb than the request's own.
    pub(crate) fn attributes<'a>(&'a self, verb: &'a str) -> Attributes<'a> {
        Attributes {
            verb,
            group: &self.resource.group,
            version: &self.resource.version,
            resource: &self.resource.plural,
            subresource: self.subresource_name(),
            namespace: self.scope(),
            name: &self.name,
            path: "",
        }
    }

    /// What strategies may know of this request.
    pub(crate) fn hook(&self) -> Hook<'_> {
        Hook {
            environment: &*self.core.environment,
            allocators: &self.core.allocators,
            user: &self.user,
            version: &self.resource.version,
            subresource: self.subresource.as_deref(),
            dry_run: self.dry_run,
            emptied: &self.emptied,
        }
    }

    /// Rewrites a stored object into the version of the request.
    pub(crate) async fn to_served(&self, stored: Value) -> ApiResult<Value> {
        convert::one(&self.resource, stored, &self.resource.api_version()).await
    }

    /// Rewrites an object into the version in which it is to be stored.
    pub(crate) async fn to_stored(&self, object: Value) -> ApiResult<Value> {
        convert::one(&self.resource, object, &self.resource.storage_api_version).await
    }

    /// Rewrites an object of the request's version into that in which the kind's rules speak.
    pub(crate) fn to_validated_version(&self, served: Value) -> ApiResult<Value> {
        if self.resource.custom {
            return Ok(served);
        }
        convert::directly(&self.resource, served, &self.resource.storage_api_version)
    }

    /// Rewrites an object of the version in which the kind's rules speak into that of the request.
    pub(crate) fn validated_to_served(&self, ruled: Value) -> ApiResult<Value> {
        convert::directly(&self.resource, ruled, &self.resource.api_version())
    }

    /// Who is entered into managedFields.
    pub(crate) fn manager(&self) -> String {
        if !self.options.field_manager.is_empty() {
            return self.options.field_manager.clone();
        }
        let prefix = self.user_agent.split('/').next().unwrap_or_default();
        prefix.chars().filter(|c| !c.is_control()).take(128).collect()
    }

    /// What rows of a Table carry.
    pub(crate) fn include(&self) -> ApiResult<Include> {
        match self.options.include_object.as_str() {
            "" | "Metadata" => Ok(Include::Metadata),
            "None" => Ok(Include::None),
            "Object" => Ok(Include::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                steersman_api::status::quote(other)
            ))),
        }
    }

    /// Now, as objects carry it.
    pub(crate) fn now(&self) -> String {
        self.core.environment.now_string()
    }

    /// The subresource, or empty.
    pub(crate) fn subresource_name(&self) -> &str {
        self.subresource.as_deref().unwrap_or_default()
    }

    /// This request as admission sees it.
    pub(crate) fn admission<'a>(
        &'a self,
        operation: Operation,
        old: Option<&'a Value>,
    ) -> AdmissionRequest<'a> {
        AdmissionRequest {
            user: &self.user,
            operation,
            resource: &self.resource,
            subresource: self.subresource_name(),
            namespace: self.scope(),
            name: &self.name,
            old,
            dry_run: self.dry_run,
            options: &self.options_object,
        }
    }

    /// Refuses a body of another kind than the path's, and fills the kind in where it may be left out.
    pub(crate) fn check_kind(
        &self,
        object: &mut Value,
        group: &str,
        version: &str,
        kind: &str,
    ) -> ApiResult<()> {
        let expected = api_version(group, version);
        let given_version =
            steersman_api::object::text(object, &["apiVersion"]).unwrap_or_default().to_owned();
        let given_kind = steersman_api::object::text(object, &["kind"]).unwrap_or_default().to_owned();
        if self.resource.custom && self.subresource.as_deref() != Some("scale") {
            if given_version != expected {
                return Err(ApiError::bad_request(format!(
                    "the API version in the data ({given_version}) does not match the expected API version ({expected})"
                )));
            }
            if given_kind != kind {
                let error = FieldError::invalid("kind", given_kind.as_str(), format!("must be {kind}"));
                let name = steersman_api::object::name(object);
                return Err(ApiError::invalid_kind(group, &given_kind, name, vec![error]));
            }
        }
        // The older version of evictions is still read, though no longer served.
        let older_eviction = self.subresource_name() == "eviction" && given_version == "policy/v1beta1";
        let same_version = given_version.is_empty() || given_version == expected || older_eviction;
        let same_kind = given_kind.is_empty() || given_kind == kind;
        if !same_version || !same_kind {
            return Err(self.wrong_kind(object, &expected, kind, &given_version, &given_kind));
        }
        let root = steersman_api::object::ensure(object);
        root.insert("apiVersion".into(), expected.into());
        root.insert("kind".into(), kind.into());
        Ok(())
    }

    /// Refuses an object of another name than the path's; a whole object has to say which it is.
    pub(crate) fn check_name(&self, object: &Value) -> ApiResult<()> {
        let url = &self.name;
        Err(ApiError::bad_request(match steersman_api::object::name(object) {
            "" => format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            ),
            name if name != url => {
                format!("the name of the object ({name}) does not match the name on the URL ({url})")
            }
            _ => return Ok(()),
        }))
    }

    fn wrong_kind(
        &self,
        object: &Value,
        expected: &str,
        kind: &str,
        given_version: &str,
        given_kind: &str,
    ) -> ApiError {
        let given_version = if given_version.is_empty() { expected } else { given_version };
        let given_kind = if given_kind.is_empty() { kind } else { given_kind };
        let ((given_group, version), (group, _)) =
            (split_api_version(given_version), split_api_version(expected));
        let known = self.core.catalog().find_kind(given_group, version, given_kind).is_some();
        if self.resource.custom || (known && given_group == group && given_kind == kind) {
            return ApiError::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({expected})"
            ));
        }
        let why = self.wrong_conversion(object, given_version, given_kind, group, kind);
        ApiError::bad_request(format!(
            "{given_kind} in version {} cannot be handled as a {kind}: {why}",
            steersman_api::status::quote(version)
        ))
    }

    /// The options object of a write.
    pub(crate) fn write_options(&self, kind: &str) -> Value {
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if !self.options.field_manager.is_empty() {
            options["fieldManager"] = self.options.field_manager.as_str().into();
        }
        if !self.options.field_validation.is_empty() {
            options["fieldValidation"] = self.options.field_validation.as_str().into();
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if let Some(grace) = self.options.grace_period_seconds {
            options["gracePeriodSeconds"] = grace.into();
        }
        if let Some(policy) = &self.options.propagation_policy {
            options["propagationPolicy"] = policy.as_str().into();
        }
        if let Some(orphan) = self.options.orphan_dependents {
            options["orphanDependents"] = orphan.into();
        }
        options
    }

    /// Why a decoder can't read an object of one kind as another.
    pub(crate) fn wrong_conversion(
        &self,
        object: &Value,
        given_version: &str,
        given_kind: &str,
        group: &str,
        kind: &str,
    ) -> String {
        let (given_group, version) = split_api_version(given_version);
        let catalog = self.core.catalog();
        let Some(given) = catalog.find_kind(given_group, version, given_kind).filter(|r| !r.custom) else {
            return format!(
                "no kind \"{given_kind}\" is registered for version \"{given_version}\" in scheme \"pkg/runtime/scheme.go:111\""
            );
        };
        // It is read as what it says it is before anything else.
        if let Err(why) = given.strategy.decode(version, &mut object.clone(), Decoder::Json) {
            return why;
        }
        let package = internal_package(group);
        format!("converting ({version}.{given_kind}) to ({package}.{kind}): unknown conversion")
    }
}
