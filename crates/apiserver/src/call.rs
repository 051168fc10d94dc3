//! One request on its way through the server.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    admission::{AdmissionRequest, Operation},
    auth::User,
    catalog::Resource,
    environment::EnvironmentExt as _,
    http::{FieldValidation, Include, Options, Output},
    server::Core,
    status::{ApiError, ApiResult},
    store::Entry,
    strategy::Hook,
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
            warnings: Vec::new(),
            options_object: Value::Null,
        }
    }

    /// The object's key in the store.
    pub(crate) fn key(&self) -> String {
        crate::object::key(self.scope(), &self.name)
    }

    /// The namespace that objects of this resource are keyed by: empty for those without namespaces.
    pub(crate) fn scope(&self) -> &str {
        if self.resource.namespaced { &self.namespace } else { "" }
    }

    /// The stored object.
    pub(crate) fn stored(&self) -> ApiResult<Arc<Entry>> {
        self.core
            .store
            .get(&self.resource.storage, &self.key())
            .ok_or_else(|| ApiError::not_found(&self.resource, &self.name))
    }

    /// What strategies may know of this request.
    pub(crate) fn hook(&self) -> Hook<'_> {
        Hook { core: &self.core, subresource: self.subresource.as_deref(), dry_run: self.dry_run }
    }

    /// Rewrites a stored object into the version of the request.
    pub(crate) fn to_served(&self, stored: Value) -> ApiResult<Value> {
        self.resource.strategy.convert(
            stored,
            &self.resource.storage_api_version,
            &self.resource.api_version(),
        )
    }

    /// Rewrites an object of the request's version into the stored one.
    pub(crate) fn to_stored(&self, served: Value) -> ApiResult<Value> {
        self.resource.strategy.convert(
            served,
            &self.resource.api_version(),
            &self.resource.storage_api_version,
        )
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
                "invalid value for includeObject: {}",
                crate::status::quote(other)
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
        if !object.is_object() {
            return Err(ApiError::bad_request("the body is not an object"));
        }
        let expected = crate::catalog::api_version(group, version);
        let given_version = crate::object::text(object, &["apiVersion"]).unwrap_or_default().to_owned();
        let given_kind = crate::object::text(object, &["kind"]).unwrap_or_default().to_owned();
        if self.resource.custom && self.subresource.is_none() && given_kind.is_empty() {
            let text = object.to_string();
            return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{text}'")));
        }
        if !given_version.is_empty() && given_version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({expected})"
            )));
        }
        if !given_kind.is_empty() && given_kind != kind {
            return Err(ApiError::bad_request(format!(
                "{kind} in version {} cannot be handled as a {kind}: the kind in the data is {given_kind}",
                crate::status::quote(version)
            )));
        }
        let root = crate::object::ensure(object);
        root.insert("apiVersion".into(), expected.into());
        root.insert("kind".into(), kind.into());
        Ok(())
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
        options
    }
}
