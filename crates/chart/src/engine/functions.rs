//! Functions that depend on the current render: `include`, `tpl`, `required`, `fail` and `lookup`.

use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;
use steersman_gotemplate::{Call, CallError, Funcs, ParseError, Str, Type, Value};

use super::{Host, MARK_END, MARK_START, without_no_value};
use crate::functions::{TEXT, map_memory};
use crate::gofmt;
use crate::values::Data;

/// Maximum number of times that a template may be nested in its own includes.
const MAX_RECURSION: usize = 1000;
/// Maximum nesting of includes and `tpl` calls. Helm has no limit and fails when its stack overflows.
const MAX_DEPTH: usize = 20_000;
/// Name that Helm gives to the template set, and to templates of `tpl`.
pub(crate) const SET_NAME: &str = "gotpl";

/// Returns all functions that Helm provides.
pub(crate) fn functions() -> Arc<Funcs<Host>> {
    static FUNCTIONS: LazyLock<Arc<Funcs<Host>>> = LazyLock::new(|| {
        let mut funcs = Funcs::new();
        crate::functions::register(&mut funcs);
        funcs.insert("include", &[Type::String, Type::Any], None, include);
        funcs.insert("tpl", &[Type::String, Type::Any], None, tpl);
        funcs.insert("required", &[Type::String, Type::Any], None, required);
        funcs.insert("fail", &[Type::String], None, fail);
        funcs.insert("lookup", &[Type::String; 4], None, lookup);
        Arc::new(funcs)
    });
    Arc::clone(&FUNCTIONS)
}

fn include(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let (name, data) = text_and_data(call.args)?;
    let count = call.host.including.entry(name.clone()).or_default();
    if *count > MAX_RECURSION {
        return Err(CallError::new(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )));
    }
    *count += 1;
    let mut out = Vec::new();
    let outcome = nested(call, |call| call.set.execute(call.host, &name.to_str_lossy(), data, &mut out));
    if let Some(count) = call.host.including.get_mut(&name) {
        *count -= 1;
    }
    outcome??;
    Ok(Value::string(out))
}

fn tpl(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let (text, data) = text_and_data(call.args)?;
    call.budget.charge_memory(text.len())?;
    if memchr::memmem::find(&text, b"{{").is_none() {
        // Nothing to execute, as in most values that charts pass to `tpl`.
        return Ok(Value::string(without_no_value(text.to_vec())));
    }
    let before = call.budget.memory();
    let parse = |text: &Str| {
        let parsed = call.set.compile(SET_NAME, text)?;
        Ok((parsed, call.budget.memory().saturating_sub(before)))
    };
    let parsed = call.host.texts.get(&text, parse).map_err(|error: ParseError| match error.exceeded {
        Some(limit) => limit.into(),
        None => CallError::new(format!("cannot parse template {}: {error}", quoted(&text))),
    })?;
    let mut set = call.set.clone();
    set.add(&parsed);
    let mut out = Vec::new();
    let outcome = nested(call, |call| set.execute(call.host, SET_NAME, data, &mut out))?;
    outcome.map_err(|mut error| {
        error.message =
            format!("error during tpl function execution for {}: {}", quoted(&text), error.message);
        error
    })?;
    Ok(Value::string(without_no_value(out)))
}

/// Quotes a string as Go does, shortened to a readable length.
fn quoted(text: &Str) -> String {
    const MAX_QUOTED: usize = 64 << 10;
    match text.get(..MAX_QUOTED) {
        Some(start) => format!("{}...", gofmt::quote(&start.into())),
        None => gofmt::quote(text),
    }
}

/// Runs a nested execution of templates, within the depth limit.
fn nested<T>(call: &mut Call<'_, Host>, run: impl FnOnce(&mut Call<'_, Host>) -> T) -> Result<T, CallError> {
    if call.host.depth >= MAX_DEPTH {
        return Err(CallError::new(format!("include and tpl calls exceed the maximum depth of {MAX_DEPTH}")));
    }
    call.host.depth += 1;
    let outcome = run(call);
    call.host.depth -= 1;
    Ok(outcome)
}

fn required(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let (message, value) = text_and_data(call.args)?;
    let is_missing = match &value {
        Value::Nil => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if !is_missing {
        return Ok(value);
    }
    if call.host.lint {
        call.budget.charge_memory(message.len())?;
        call.host.log.push(format!("[INFO] Missing required value: {message}"));
        return Ok(Value::string(""));
    }
    Err(marked(&message))
}

fn fail(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let message = text(call.args)?;
    if call.host.lint {
        call.budget.charge_memory(message.len())?;
        call.host.log.push(format!("[INFO] Fail: {message}"));
        return Ok(Value::string(""));
    }
    Err(marked(&message))
}

fn lookup(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let argument = |index: usize| match call.args.get(index) {
        Some(Value::String(text)) => text.to_str_lossy().into_owned(),
        _ => String::new(),
    };
    if call.host.lint {
        return Ok(Value::map::<Str>([]));
    }
    let found = call
        .host
        .environment
        .lookup(&argument(0), &argument(1), &argument(2), &argument(3))
        .map_err(CallError::new)?;
    Ok(match found {
        Some(object) => {
            call.budget.charge_memory(json_memory(&object))?;
            Data::unstructured(object).to_value()
        }
        None => Value::map::<Str>([]),
    })
}

/// Returns the memory of an object as a template value.
fn json_memory(json: &Json) -> usize {
    match json {
        Json::String(text) => TEXT + text.len(),
        Json::Array(items) => items.iter().map(|item| size_of::<Value>() + json_memory(item)).sum(),
        Json::Object(entries) => {
            let inside = entries.iter().map(|(key, value)| TEXT + key.len() + json_memory(value));
            map_memory(entries.len()) + inside.sum::<usize>()
        }
        _ => 0,
    }
}

fn marked(message: &Str) -> CallError {
    CallError::new(format!("{MARK_START}{message}{MARK_END}"))
}

fn text(args: &[Value]) -> Result<Str, CallError> {
    match args.first() {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(CallError::new("the first argument is not a string")),
    }
}

fn text_and_data(args: &[Value]) -> Result<(Str, Value), CallError> {
    Ok((text(args)?, args.get(1).cloned().unwrap_or(Value::Nil)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_looked_up_takes_memory() {
        assert_eq!(json_memory(&json!(1)) + json_memory(&json!(null)) + json_memory(&json!(true)), 0);
        assert_eq!(json_memory(&json!("abc")), TEXT + 3);
        assert_eq!(json_memory(&json!([])), 0);
        assert_eq!(json_memory(&json!([1, "abc"])), 2 * size_of::<Value>() + TEXT + 3);
        assert_eq!(json_memory(&json!({})), map_memory(0));
        assert_eq!(json_memory(&json!({"k": "abc", "key": 1})), map_memory(2) + 3 * TEXT + 1 + 3 + 3);
    }
}
