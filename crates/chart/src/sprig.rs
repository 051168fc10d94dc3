//! Templates outside charts: Go templates with sprig's functions, but not Helm's own.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;
use steersman_gotemplate::{Call, CallError, Funcs, Kind, Map, Object, Set, Type, Value};

use crate::environment::Environment;
use crate::functions;
use crate::values::Data;

/// Returns the value of an environment variable, for `env` and `expandenv`.
pub type Variable = Box<dyn Fn(&str) -> Option<String>>;

/// Functions that Helm adds to sprig.
const HELM_ONLY: [&str; 7] =
    ["toYaml", "toYamlPretty", "fromYaml", "fromYamlArray", "fromJsonArray", "toToml", "fromToml"];

struct Host {
    environment: Box<dyn Environment>,
    variable: Variable,
    /// Maps that a map or a list was put into.
    changed: Vec<Map>,
}

impl functions::Host for Host {
    fn environment(&mut self) -> &mut dyn Environment {
        &mut *self.environment
    }

    fn changed(&mut self, map: &Map) {
        self.changed.push(map.clone());
    }
}

impl Drop for Host {
    /// Empties every map that may contain itself, since a cycle would never be freed.
    fn drop(&mut self) {
        for map in self.changed.drain(..) {
            let entries = std::mem::take(&mut *map.borrow_mut());
            drop(entries);
        }
    }
}

/// Executes a template on a struct with these fields.
///
/// Numbers in them are floats, as Go's `encoding/json` decodes them.
///
/// ```
/// use serde_json::json;
/// use steersman_chart::{System, sprig};
///
/// let fields = vec![("Name", json!("web"))];
/// let (environment, variable) = (Box::new(System::default()), Box::new(|_: &str| None));
/// let text = sprig::render("t", b"{{ .Name | upper }}", "main.Data", fields, environment, variable).unwrap();
/// assert_eq!(text, b"WEB");
/// ```
///
/// # Errors
/// If the template does not parse or its execution fails, with Go's message.
pub fn render(
    name: &str,
    text: &[u8],
    type_name: &'static str,
    fields: Vec<(&'static str, Json)>,
    environment: Box<dyn Environment>,
    variable: Variable,
) -> Result<Vec<u8>, String> {
    let mut set = Set::new(functions()).named(name);
    set.parse(name, text).map_err(|error| error.to_string())?;
    let fields = fields.into_iter().map(|(name, json)| (name, Data::from(json).to_value())).collect();
    let data = Value::Object(std::rc::Rc::new(Struct { type_name, fields }));
    let mut host = Host { environment, variable, changed: Vec::new() };
    let mut out = Vec::new();
    set.execute(&mut host, name, data, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

fn functions() -> Arc<Funcs<Host>> {
    static FUNCTIONS: LazyLock<Arc<Funcs<Host>>> = LazyLock::new(|| {
        let mut funcs = Funcs::new();
        functions::register(&mut funcs);
        for name in HELM_ONLY {
            funcs.remove(name);
        }
        funcs.insert("fromJson", &[Type::String], None, from_json);
        funcs.insert("env", &[Type::String], None, env);
        funcs.insert("expandenv", &[Type::String], None, expand_env);
        Arc::new(funcs)
    });
    Arc::clone(&FUNCTIONS)
}

fn argument(call: &Call<'_, Host>) -> String {
    match call.args.first() {
        Some(Value::String(text)) => text.to_str_lossy().into_owned(),
        _ => String::new(),
    }
}

/// sprig returns nil for invalid JSON.
fn from_json(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let json: Option<Json> = serde_json::from_str(&argument(call)).ok();
    Ok(json.map_or(Value::Nil, |json| Data::from(json).to_value()))
}

fn env(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let value = (call.host.variable)(&argument(call));
    Ok(Value::string(value.unwrap_or_default()))
}

/// Expands `$NAME` and `${NAME}`.
fn expand_env(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let text = argument(call);
    let mut expanded = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let braced = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let length = after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let (name, behind) = braced.unwrap_or_else(|| after.split_at(length));
        if name.is_empty() {
            expanded.push('$');
        } else {
            expanded.push_str(&(call.host.variable)(name).unwrap_or_default());
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(Value::string(expanded))
}

fn printed(value: &Value) -> String {
    steersman_gotemplate::fmt::format_value(value)
        .map(|text| text.to_str_lossy().into_owned())
        .unwrap_or_default()
}

/// A Go struct, by the names of its fields.
struct Struct {
    type_name: &'static str,
    fields: Vec<(&'static str, Value)>,
}

impl Object for Struct {
    fn type_name(&self) -> &str {
        self.type_name
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone())
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        Some(self.fields.clone())
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        Some(self.fields.clone())
    }

    fn display(&self) -> String {
        let values: Vec<String> = self.fields.iter().map(|(_, value)| printed(value)).collect();
        format!("{{{}}}", values.join(" "))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
