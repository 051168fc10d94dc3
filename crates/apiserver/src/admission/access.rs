//! The CEL `authorizer` of admission, backed by the server's own authorizer.

use std::sync::Arc;

use steersman_cel::{AccessCheck, AccessDecision, Authorizer, Value as Cel};

use super::{attempt::Attempt, expression::Access};
use crate::{
    auth::{self, Attributes, User},
    core::Core,
};

impl Access {
    /// Creates the variables for the user and the resource of a write.
    pub(super) fn new(attempt: &Attempt<'_>) -> Self {
        let call = attempt.call;
        let asker: Arc<dyn Authorizer> =
            Arc::new(RequestAuthorizer { core: Arc::clone(&call.core), user: call.user.clone() });
        let check = AccessCheck {
            group: call.resource.group.as_str().into(),
            resource: call.resource.plural.as_str().into(),
            subresource: call.subresource_name().into(),
            namespace: attempt.namespace().into(),
            name: attempt.name().into(),
            ..AccessCheck::default()
        };
        Self {
            authorizer: Cel::authorizer(Arc::clone(&asker)),
            request_resource: Cel::resource_check(asker, check),
        }
    }
}

/// Decides authorization checks of expressions, by default for the request's user.
#[derive(Debug)]
struct RequestAuthorizer {
    core: Arc<Core>,
    user: User,
}

impl Authorizer for RequestAuthorizer {
    fn authorize(&self, check: &AccessCheck) -> AccessDecision {
        let account = check.account.as_ref().map(|(namespace, name)| User::service_account(namespace, name));
        let user = account.as_ref().unwrap_or(&self.user);
        let attributes = Attributes {
            verb: &check.verb,
            group: &check.group,
            version: if check.path.is_some() { "" } else { "*" },
            resource: &check.resource,
            subresource: &check.subresource,
            namespace: &check.namespace,
            name: &check.name,
            path: check.path.as_deref().unwrap_or_default(),
        };
        let (allowed, reason) = auth::explain(&self.core, user, &attributes);
        AccessDecision { allowed, reason, error: None }
    }
}
