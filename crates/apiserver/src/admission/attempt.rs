//! One write as webhooks and policies see it.

use std::sync::Arc;

use serde_json::Value;
use steersman_patch::apply::{TypeId, Types};

use steersman_api::{
    object,
    schema::{self, Decoder},
    status::{ApiError, ApiResult, Reason},
};

use super::{
    AdmissionRequest, Operation,
    constraints::{Constraints, Subject},
    webhook,
};
use crate::{
    call::Call,
    catalog::{Resource, Subresource, Verb},
    convert,
    scale::{scale_of, take_scale},
};

/// A write to one object that is being admitted.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) call: &'a Call,
    pub(crate) operation: Operation,
    /// The object's name, which admission may change if the object is new.
    pub(crate) name: &'a str,
    /// Whether the server has generated the name, which only validating plugins get to see.
    pub(crate) hides_name: bool,
    /// The stored object, for updates and deletions, in the version of the request.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> Attempt<'a> {
    /// The write as plugins see it.
    pub(super) fn request(&self) -> AdmissionRequest<'a> {
        let call = self.call;
        AdmissionRequest {
            user: &call.user,
            operation: self.operation,
            resource: &call.resource,
            subresource: call.subresource_name(),
            namespace: call.scope(),
            name: self.name,
            old: self.old,
            dry_run: call.write.dry_run,
            options: &call.write.object,
        }
    }
}

/// An object as a mutating plugin sees it.
pub(super) struct View {
    /// The resource as which it is seen.
    pub(super) resource: Arc<Resource>,
    /// The object in that resource's version, or the `Scale` of it.
    pub(super) object: Value,
    /// Fields that the plugin does not see.
    hidden: Vec<(String, Value)>,
}

impl Attempt<'_> {
    /// Whether plugins see a `Scale` in place of the object.
    fn is_scale(&self) -> bool {
        self.call.subresource_name() == "scale"
    }

    /// The name that plugins see, if any.
    pub(super) fn name(&self) -> &str {
        let unknown = self.hides_name || self.call.verb == Verb::DeleteCollection;
        if unknown { "" } else { self.name }
    }

    /// The namespace that plugins see; a namespace is in itself.
    pub(super) fn namespace(&self) -> &str {
        if *self.call.resource.storage == *"namespaces" { self.name } else { self.call.scope() }
    }

    /// The resource as which a plugin wants this write, if at all.
    pub(super) fn matches(
        &self,
        constraints: &Constraints,
        object: &Value,
    ) -> ApiResult<Option<Arc<Resource>>> {
        let subject = self.subject(object);
        // Rules come first: they exclude most plugins and need nothing but the request.
        let Some(resource) = constraints.wants(&subject, &self.call.core.catalog()) else { return Ok(None) };
        let in_namespace = self.in_namespace(constraints, &subject);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let selected = constraints.selects_object(&subject).map_err(ApiError::internal);
        if matches!(selected, Ok(false)) {
            return Ok(None);
        }
        in_namespace?;
        selected?;
        Ok(Some(resource))
    }

    /// Whether a plugin may want this write, judged by the request alone.
    pub(super) fn concerns(&self, constraints: &Constraints) -> bool {
        constraints.wants(&self.subject(&Value::Null), &self.call.core.catalog()).is_some()
    }

    fn subject<'s>(&'s self, object: &'s Value) -> Subject<'s> {
        Subject {
            operation: self.operation,
            resource: &self.call.resource,
            subresource: self.call.subresource_name(),
            namespace: self.namespace(),
            object: (!object.is_null()).then_some(object),
            old: self.old,
            name: self.name(),
        }
    }

    /// The request as expressions see it.
    pub(super) fn about(&self, resource: &Resource) -> Value {
        let mut about = webhook::request(self, resource, "", &Value::Null, &Value::Null);
        for field in ["object", "oldObject"] {
            object::ensure(&mut about).remove(field);
        }
        about
    }

    /// Whether a namespace selector takes the write.
    fn in_namespace(&self, constraints: &Constraints, subject: &Subject<'_>) -> ApiResult<bool> {
        let is_namespace = subject.resource.plural == "namespaces";
        if subject.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = constraints.namespace_selector().map_err(ApiError::internal)?;
        let Some(selector) = selector else { return Ok(true) };
        let writes = matches!(self.operation, Operation::Create | Operation::Update);
        if let Some(object) =
            subject.object.filter(|_| is_namespace && subject.subresource.is_empty() && writes)
        {
            return Ok(selector.selects(object));
        }
        match self.call.core.store.get("namespaces", subject.namespace) {
            Some(entry) => Ok(selector.matches(entry.labels())),
            None => {
                let name = steersman_api::status::quote(subject.namespace);
                let message = format!("namespaces {name} not found");
                Err(ApiError::new(http::StatusCode::NOT_FOUND, Reason::NotFound, message).about(
                    "",
                    "namespaces",
                    subject.namespace,
                ))
            }
        }
    }

    /// An object in the version in which a plugin wants it.
    pub(super) async fn converted(&self, resource: &Resource, object: Option<&Value>) -> ApiResult<Value> {
        let Some(object) = object.filter(|object| !object.is_null()) else { return Ok(Value::Null) };
        if self.is_scale() {
            return Ok(scale_of(&self.call.resource, object));
        }
        if self.is_part() {
            return Ok(object.clone());
        }
        convert::one(resource, object.clone(), &resource.api_version()).await
    }

    /// The subresource, if what is sent to it is of a kind of its own and not of the resource's: it has versions of its own.
    fn part(&self) -> Option<&Subresource> {
        let part = self.call.subresource.as_deref().and_then(|name| self.call.resource.subresource(name))?;
        (part.kind != self.call.resource.kind && !self.is_scale()).then_some(part)
    }

    /// Whether plugins see what is sent to a subresource in place of an object of the resource.
    pub(super) fn is_part(&self) -> bool {
        self.part().is_some()
    }

    /// The OpenAPI name of the type of a part.
    fn part_type(&self) -> Option<&'static str> {
        let part = self.part()?;
        schema::definition_name(&part.group, &part.version, &part.kind)
    }

    /// Takes out of a new object what the real server fills in only after it has been changed.
    fn hide_system_fields(&self, object: &mut Value) -> Vec<(String, Value)> {
        if self.operation != Operation::Create || !object.is_object() {
            return Vec::new();
        }
        let metadata = object::metadata(object);
        let name = self.hides_name.then_some("name");
        let fields = ["uid", "creationTimestamp"].into_iter().chain(name);
        fields.filter_map(|field| Some((field.to_owned(), metadata.remove(field)?))).collect()
    }

    /// The object as a mutating plugin sees it.
    pub(super) async fn view(&self, resource: Arc<Resource>, object: &Value) -> ApiResult<View> {
        let mut object = self.converted(&resource, Some(object)).await?;
        let hidden = self.hide_system_fields(&mut object);
        Ok(View { resource, object, hidden })
    }

    /// Takes over the changes of a view.
    pub(super) async fn adopt(&self, view: View, object: &mut Value) -> ApiResult<()> {
        let View { resource, object: mut changed, hidden } = view;
        if self.is_scale() {
            take_scale(&self.call.resource, object, &changed);
            return Ok(());
        }
        for (field, value) in hidden {
            // A plugin may have named the object.
            object::metadata(&mut changed).entry(field).or_insert(value);
        }
        if self.is_part() {
            *object = changed;
            return Ok(());
        }
        *object = convert::one(&resource, changed, &self.call.resource.api_version()).await?;
        Ok(())
    }

    /// Decodes a changed view as its type and fills in defaults. Returns warnings about fields that
    /// the type does not know, which are dropped.
    ///
    /// # Errors
    /// Those of the decoder.
    pub(super) fn shape(
        &self,
        resource: &Resource,
        object: &mut Value,
        decoder: Decoder,
    ) -> Result<Vec<String>, String> {
        object::normalise_numbers(object);
        if self.is_scale() {
            return Ok(Vec::new());
        }
        let strategy = &resource.strategy;
        let schema = if self.is_part() {
            self.part_type().and_then(schema::definition)
        } else {
            strategy.schema(&resource.version).filter(|_| strategy.typed())
        };
        let mut unknown = Vec::new();
        if let Some(schema) = &schema {
            unknown = schema.decode(object, decoder)?.unknown;
        }
        if !self.is_part() {
            strategy.default(&resource.version, object);
        }
        if let Some(schema) = &schema {
            schema.encode(object);
        }
        Ok(unknown)
    }

    /// The types by which a view is merged; the real server knows none of a `Scale` here.
    pub(super) fn types<'r>(&self, resource: &'r Resource) -> Option<(&'r Types, TypeId)> {
        match self.part_type() {
            Some(name) => steersman_kinds::types(name),
            None if self.is_scale() || self.is_part() => None,
            None => resource.strategy.types(&resource.version),
        }
    }

    /// The refusal of a write, for which the name that the server gives it counts only once it is given.
    pub(super) fn forbid(&self, object: &Value, why: &str) -> ApiError {
        let call = self.call;
        let name = match self.name() {
            "" if self.hides_name => object::meta_text(object, "generateName"),
            "" => "Unknown",
            name => name,
        };
        ApiError::forbidden(&call.resource.group, &call.resource.plural, name, why)
    }
}
