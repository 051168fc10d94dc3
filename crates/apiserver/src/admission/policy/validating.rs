//! ValidatingAdmissionPolicies: expressions that refuse writes.

use http::StatusCode;
use serde_json::Value;
use steersman_cel::Value as Cel;

use super::{Action, Denial, Invocation, invocations, items, namespace, text};
use crate::{
    admission::{
        Operation,
        expression::{Compiler, Expression, Gives, LIMIT, Scope},
        passage::Passage,
    },
    call::Call,
    status::{ApiError, ApiResult, Cause},
};

/// What a policy has against writes.
#[derive(Debug)]
pub(super) struct Validating(Vec<Validation>);

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

impl Action for Validating {
    const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
    const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
    const COMPOSES: bool = false;

    fn new(spec: &Value, compiler: &Compiler) -> Self {
        let compile =
            |value: &Value, gives: Gives| Expression::new(value, |text| compiler.expression(text, gives));
        let validation = |validation: &Value| Validation {
            expression: compile(&validation["expression"], Gives::Bool),
            message: text(&validation["message"]).trim().to_owned(),
            message_expression: validation["messageExpression"]
                .as_str()
                .filter(|text| !text.trim().is_empty())
                .map(|_| compile(&validation["messageExpression"], Gives::Text)),
            reason: text(&validation["reason"]),
        };
        Self(items(&spec["validations"]).map(validation).collect())
    }
}

/// Lets policies refuse an object, which is in the version of the request and null for a deletion. Gives their warnings.
pub(crate) async fn validate(
    call: &Call,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let hooks = call.core.policies.validating.current(call);
    if hooks.is_empty() {
        return Ok(());
    }
    let passage = Passage { call, operation, old, changes: false };
    let mut refusal = None;
    for invocation in invocations(&passage, &hooks, object).await? {
        let denials = match invocation {
            Ok(invocation) => invocation.judge(&passage, object).await?,
            Err(denial) => {
                refusal = refusal.or_else(|| Some(refuse(&passage, object, &denial)));
                continue;
            }
        };
        for denial in denials {
            let Some(binding) = denial.binding else { continue };
            if binding.denies {
                refusal = refusal.or_else(|| Some(refuse(&passage, object, &denial)));
            }
            if binding.warns {
                warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    denial.policy, binding.name, denial.message
                ));
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

fn refuse(passage: &Passage<'_>, object: &Value, denial: &Denial<'_>) -> ApiError {
    let (code, reason) = match denial.reason.as_str() {
        "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
        "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
    };
    let with = denial.binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
    let message =
        format!("ValidatingAdmissionPolicy '{}'{with} denied request: {}", denial.policy, denial.message);
    let mut error = passage.forbid(object, &message);
    error.code = code;
    error.reason = reason;
    error.causes.push(Cause { reason: String::new(), message, field: String::new() });
    error
}

impl<'a> Invocation<'a, Validating> {
    /// What the policy has against a write.
    async fn judge(&self, passage: &Passage<'_>, object: &Value) -> ApiResult<Vec<Denial<'a>>> {
        let object = passage.converted(&self.resource, Some(object)).await?;
        let mut scope = self.scope(passage, &object).await?;
        match self.holds(&mut scope) {
            Ok(true) => {}
            Ok(false) => return Ok(Vec::new()),
            Err(denial) => return Ok(vec![denial]),
        }
        scope.namespace = namespace(passage);
        scope.budget = LIMIT;
        let mut denials = Vec::new();
        for validation in &self.policy.action.0 {
            match scope.run(&validation.expression) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    denials.push(self.denial(validation.message(&mut scope), validation.reason.clone()));
                }
                Err(_) if self.policy.ignores_failure => {}
                Err(why) => denials.push(self.denial(why, String::new())),
            }
        }
        Ok(denials)
    }
}

impl Validation {
    fn message(&self, scope: &mut Scope<'_>) -> String {
        let told = self.message_expression.as_ref().and_then(|expression| scope.run(expression).ok());
        if let Some(Cel::String(told)) = told {
            let told = told.trim();
            // What is no line of text, or too long, is no message.
            if !told.is_empty() && !told.contains('\n') && told.len() <= 5 * 1024 {
                return told.to_owned();
            }
        }
        if self.message.is_empty() {
            return format!("failed expression: {}", self.expression.text.trim());
        }
        self.message.clone()
    }
}
