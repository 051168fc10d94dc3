//! MutatingAdmissionPolicy: expressions that mutate writes.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_cel::{Object, Value as Cel};
use steersman_patch::{JsonPatchError, json_patch};

use steersman_api::{
    object,
    schema::Decoder,
    status::{ApiError, ApiResult, Cause, Reason},
};

use super::{
    Denial, Hook, Invocation, invocations, namespace,
    stored::{Mutating, Mutation},
};
use crate::admission::{
    attempt::{Attempt, View},
    expression::{Budget, Expression, LIMIT, Scope},
    reinvocation::Reinvocation,
    values::{cel, json as to_json},
};

/// The names of a policy, its binding and its parameter, with the parameter's namespace.
type Key = [String; 4];

/// The policies that may mutate a write.
pub(crate) struct Mutators<'a> {
    attempt: Attempt<'a>,
    hooks: Arc<[Hook<Mutating>]>,
    reinvocation: Reinvocation<Key>,
}

impl<'a> Mutators<'a> {
    pub(crate) fn new(attempt: Attempt<'a>) -> Self {
        Self {
            attempt,
            hooks: attempt.call.core.policies.mutating.current(attempt.call),
            reinvocation: Reinvocation::default(),
        }
    }

    /// Runs the policies on an object; in the second round, only those to be reinvoked.
    /// Returns whether other plugins have to be called again.
    pub(crate) async fn run(&mut self, object: &mut Value) -> ApiResult<bool> {
        // Deletions have no object to mutate.
        if self.hooks.is_empty() || object.is_null() {
            return Ok(false);
        }
        self.reinvocation.begin(object);
        let attempt = &self.attempt;
        let (mut denials, mut due) = (Vec::new(), Vec::new());
        for invocation in invocations(attempt, &self.hooks, object).await? {
            match invocation {
                Ok(invocation) => due.push(invocation),
                Err(denial) => denials.push(denial),
            }
        }
        let mut touched = false;
        for invocation in due {
            let view = attempt.view(Arc::clone(&invocation.resource), object).await?;
            let mut scope = invocation.scope(attempt, &view.object).await?;
            match invocation.holds(&mut scope) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(denial) => {
                    denials.push(Denial { reason: "Invalid".into(), ..denial });
                    continue;
                }
            }
            let key = invocation.key();
            if self.reinvocation.skips(&key) {
                continue;
            }
            scope.namespace = namespace(attempt);
            let before = view.object.clone();
            let (view, done) = invocation.change(attempt, view, &mut scope, &mut denials)?;
            touched |= done;
            if view.object != before {
                self.reinvocation.changed();
            }
            if invocation.policy.action.reinvocable {
                self.reinvocation.saw(key);
            }
            attempt.adopt(view, object).await?;
        }
        if touched {
            // Even the policies that changed something last are reinvoked: the real server counts every run as a
            // change.
            self.reinvocation.changed();
        }
        self.reinvocation.end(object);
        if denials.is_empty() { Ok(touched) } else { Err(refuse(attempt, object, denials)) }
    }
}

/// Combines all denials into one error.
fn refuse(attempt: &Attempt<'_>, object: &Value, denials: Vec<Denial<'_>>) -> ApiError {
    let mut error = attempt.forbid(object, "");
    error.message.clear();
    for denial in denials {
        let (policy, why) = (denial.policy, &denial.message);
        let message = match denial.binding {
            Some(binding) => {
                format!("policy '{policy}' with binding '{}' denied request: {why}", binding.name)
            }
            None => format!("policy {} denied request: {why}", steersman_api::status::quote(policy)),
        };
        if error.message.is_empty() {
            error.message.clone_from(&message);
            if denial.reason == "Invalid" {
                error.reason = Reason::Invalid;
            }
        }
        error.causes.push(Cause { reason: String::new(), message, field: String::new() });
    }
    error
}

/// The reasons a mutation fails.
enum Failure {
    /// The failure policy decides.
    Policy(String),
    /// The write is rejected regardless of the failure policy.
    Refusal(ApiError),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Policy(why)
    }
}

impl<'a> Invocation<'a, Mutating> {
    fn key(&self) -> Key {
        let parameter = &self.parameter;
        [&self.policy.name, &self.binding.name, object::namespace(parameter), object::name(parameter)]
            .map(str::to_owned)
    }

    /// Applies all mutations of the policy. Returns whether any of them could be applied.
    fn change(
        &self,
        attempt: &Attempt<'_>,
        mut view: View,
        scope: &mut Scope<'_>,
        denials: &mut Vec<Denial<'a>>,
    ) -> ApiResult<(View, bool)> {
        let mut done = false;
        for mutation in &self.policy.action.mutations {
            scope.object = cel(&view.object);
            scope.begin(Budget::new(LIMIT));
            match mutation.make(attempt, &view, scope) {
                Ok(changed) => {
                    view.object = changed;
                    done = true;
                }
                Err(Failure::Refusal(error)) => return Err(error),
                Err(Failure::Policy(_)) if self.policy.ignores_failure => {}
                Err(Failure::Policy(why)) => denials.push(self.denial(why, "Invalid".into())),
            }
        }
        Ok((view, done))
    }
}

impl Mutation {
    /// Returns the object with the mutation applied.
    fn make(&self, attempt: &Attempt<'_>, view: &View, scope: &mut Scope<'_>) -> Result<Value, Failure> {
        let changed = match self {
            Self::Apply(expression) => Self::apply(expression, attempt, view, scope)?,
            Self::Patch(expression) => Self::patch(expression, attempt, view, scope)?,
        };
        // On the real server, converting back fails for typed objects mutated in another version than the request's.
        let (seen, own) = (&view.resource, &attempt.call.resource);
        if seen.strategy.typed() && seen.api_version() != own.api_version() {
            let (from, to) =
                (format!("{}.{}", seen.version, seen.kind), format!("{}.{}", own.version, own.kind));
            return Err(Failure::Policy(format!("converting ({from}) to ({to}): unknown conversion")));
        }
        Ok(changed)
    }

    fn apply(
        expression: &Expression,
        attempt: &Attempt<'_>,
        view: &View,
        scope: &mut Scope<'_>,
    ) -> Result<Value, Failure> {
        let config = configuration(&scope.run(expression)?, &view.object)?;
        let merged = match attempt.types(&view.resource) {
            Some((types, ty)) => types.configure(ty, &view.object, &config),
            None => {
                let text = |field: &str| object::text(&config, &[field]).unwrap_or_default();
                let kind = format!("{}, Kind={}", text("apiVersion"), text("kind"));
                let why = "failed to convert patch object to typed object: no corresponding type";
                Err(format!("{why} for {kind}"))
            }
        };
        let mut changed = merged.map_err(|why| format!("error applying patch: {why}"))?;
        attempt.shape(&view.resource, &mut changed, Decoder::Conversion)?;
        Ok(changed)
    }

    fn patch(
        expression: &Expression,
        attempt: &Attempt<'_>,
        view: &View,
        scope: &mut Scope<'_>,
    ) -> Result<Value, Failure> {
        let steps = steps(&scope.run(expression)?)?;
        let mut changed = match json_patch(&view.object, steps.to_string().as_bytes()) {
            Ok(changed) => changed,
            // A failed test operation skips the patch without an error.
            Err(JsonPatchError::TestFailed(_)) => view.object.clone(),
            Err(why) => return Err(Failure::Policy(format!("JSON Patch: {why}"))),
        };
        let unknown = attempt
            .shape(&view.resource, &mut changed, Decoder::Json)
            .map_err(|why| Failure::Refusal(ApiError::internal(why)))?;
        if unknown.is_empty() {
            return Ok(changed);
        }
        let why = format!("strict decoding error: {}", unknown.join(", "));
        Err(Failure::Refusal(ApiError::internal(why)))
    }
}

/// Converts an expression's result to an apply configuration.
fn configuration(made: &Cel, object: &Value) -> Result<Value, String> {
    let Cel::Object(config) = made else {
        let found = made.type_name();
        return Err(format!("unsupported return type from ApplyConfiguration expression: {found}"));
    };
    check_names(config)?;
    let mut config = to_json(made)?;
    for field in ["apiVersion", "kind"] {
        object::carry(object, &mut config, field);
    }
    Ok(config)
}

/// Checks that nested objects have types named after their path.
fn check_names(object: &Object) -> Result<(), String> {
    let mut errors = Vec::new();
    find_misnamed(&Cel::Object(Arc::new(object.clone())), &object.name, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", errors.join("\n"))) }
}

fn find_misnamed(value: &Cel, expected: &str, errors: &mut Vec<String>) {
    match value {
        Cel::Object(object) => {
            if *object.name != *expected {
                errors.push(format!(
                    "unexpected type name {}, expected {}, which matches field name path from root Object type",
                    steersman_api::status::quote(&object.name),
                    steersman_api::status::quote(expected)
                ));
            }
            for (name, value) in &object.fields {
                find_misnamed(value, &format!("{expected}.{name}"), errors);
            }
        }
        Cel::List(items) => items.iter().for_each(|item| find_misnamed(item, expected, errors)),
        Cel::Map(entries) => entries.iter().for_each(|(_, value)| find_misnamed(value, expected, errors)),
        _ => {}
    }
}

/// Converts an expression's result to a JSON patch.
fn steps(made: &Cel) -> Result<Value, String> {
    let Cel::List(steps) = made else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".into());
    };
    steps.iter().map(step).collect()
}

fn step(made: &Cel) -> Result<Value, String> {
    let Cel::Object(made) = made else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".into());
    };
    let text = |field: &str| match made.field(field) {
        Some(Cel::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut step = Map::new();
    step.insert("op".into(), text("op").into());
    step.insert("path".into(), text("path").into());
    let from = text("from");
    if !from.is_empty() {
        step.insert("from".into(), from.into());
    }
    if let Some(value) = made.field("value") {
        if let Cel::Object(object) = value {
            check_names(object)?;
        }
        let mut value = to_json(value).map_err(|why| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
        })?;
        object::normalise_numbers(&mut value);
        step.insert("value".into(), value);
    }
    Ok(json!(step))
}
