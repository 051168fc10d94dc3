//! ValidatingAdmissionPolicy: expressions that reject writes.

use http::StatusCode;
use serde_json::Value;
use steersman_cel::Value as Cel;

use steersman_api::status::{ApiError, ApiResult, Cause, Reason};

use super::{
    Denial, Invocation, invocations, namespace,
    stored::{Validating, Validation},
};
use crate::admission::{
    attempt::Attempt,
    expression::{Access, Budget, LIMIT, OUT_OF_BUDGET},
};

/// Runs the policies on an object in the version of the request, null for a deletion. Returns warnings.
pub(crate) async fn validate(
    attempt: Attempt<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let call = attempt.call;
    let hooks = call.core.policies.validating.current(call);
    if hooks.is_empty() {
        return Ok(());
    }
    let mut refusal = None;
    for invocation in invocations(&attempt, &hooks, object).await? {
        let denials = match invocation {
            Ok(invocation) => invocation.judge(&attempt, object).await?,
            Err(denial) => {
                refusal = refusal.or_else(|| Some(refuse(&attempt, object, &denial)));
                continue;
            }
        };
        for denial in denials {
            let Some(binding) = denial.binding else { continue };
            if binding.denies {
                refusal = refusal.or_else(|| Some(refuse(&attempt, object, &denial)));
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

fn refuse(attempt: &Attempt<'_>, object: &Value, denial: &Denial<'_>) -> ApiError {
    let (code, reason) = match denial.reason.as_str() {
        "Unauthorized" => (StatusCode::UNAUTHORIZED, Reason::Unauthorized),
        "Forbidden" => (StatusCode::FORBIDDEN, Reason::Forbidden),
        "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestEntityTooLarge),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid),
    };
    let with = denial.binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
    let message =
        format!("ValidatingAdmissionPolicy '{}'{with} denied request: {}", denial.policy, denial.message);
    let mut error = attempt.forbid(object, &message);
    error.code = code;
    error.reason = reason;
    error.causes.push(Cause { reason: String::new(), message, field: String::new() });
    error
}

impl<'a> Invocation<'a, Validating> {
    /// Returns the denials of one policy invocation.
    async fn judge(&self, attempt: &Attempt<'_>, object: &Value) -> ApiResult<Vec<Denial<'a>>> {
        let object = attempt.converted(&self.resource, Some(object)).await?;
        let mut scope = self.scope(attempt, &object).await?;
        match self.holds(&mut scope) {
            Ok(true) => {}
            Ok(false) => return Ok(Vec::new()),
            Err(denial) => return Ok(vec![denial]),
        }
        scope.namespace = namespace(attempt);
        scope.begin(Budget::new(LIMIT));
        let failure = |why: String| (!self.policy.ignores_failure).then(|| self.denial(why, String::new()));
        let validations = &self.policy.action.0;
        let mut results = Vec::with_capacity(validations.len());
        for validation in validations {
            let result = scope.run(&validation.expression);
            // An exhausted budget discards earlier results.
            if let Err(why) = &result
                && scope.is_spent()
            {
                return Ok(failure(why.clone()).into_iter().collect());
            }
            results.push(result);
        }
        if results.iter().all(|result| matches!(result, Ok(Cel::Bool(true)))) {
            return Ok(Vec::new());
        }
        // All messages share the remaining budget.
        scope.begin(scope.budget);
        scope.access = Access::none();
        let told = |validation: &Validation| Some(scope.run(validation.message_expression.as_ref()?));
        let messages: Vec<Option<Result<Cel, String>>> = validations.iter().map(told).collect();
        let mut denials = Vec::new();
        for ((validation, result), told) in validations.iter().zip(results).zip(&messages) {
            match (result, scope.is_spent()) {
                (Err(why), _) => denials.extend(failure(why)),
                (Ok(_), true) => {
                    denials.extend(failure(format!("failed messageExpression: {OUT_OF_BUDGET}")));
                }
                (Ok(Cel::Bool(true)), false) => {}
                (Ok(_), false) => {
                    let told = told.as_ref().and_then(|told| told.as_ref().ok());
                    denials.push(self.denial(validation.message(told), validation.reason.clone()));
                }
            }
        }
        Ok(denials)
    }
}

impl Validation {
    /// Returns the message of a denial, given the result of its message expression.
    fn message(&self, told: Option<&Cel>) -> String {
        if let Some(Cel::String(told)) = told {
            let told = told.trim();
            // Multi-line, empty and overly long results are ignored.
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
