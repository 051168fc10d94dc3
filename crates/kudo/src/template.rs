//! KUDO's templates: with Sprig's functions, and an error for every missing key.

use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;
use steersman_chart::{Environment, FunctionHost};
use steersman_gotemplate::{
    Budget, Call, CallError, Funcs, Limits, Map, MapType, MissingKey, Set, Str, Type, Value,
};

/// Renders templates individually: a `define` is only visible in its own file.
pub struct Renderer {
    host: Host,
    limits: Limits,
}

impl std::fmt::Debug for Renderer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renderer").finish_non_exhaustive()
    }
}

impl Renderer {
    /// Creates a renderer that takes time and randomness from an environment.
    pub fn new(environment: impl Environment + 'static) -> Self {
        Self {
            host: Host { environment: Box::new(environment), changed: Vec::new() },
            limits: Limits::default(),
        }
    }

    /// Sets limits on cost, memory and depth of each template. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Renders a template. `variables` is an object with a key per variable.
    ///
    /// # Errors
    /// Fails with Go's message, which has the file's name and line.
    pub fn render(&mut self, name: &str, text: &str, variables: &Json) -> Result<String, String> {
        let mut set = Set::new(functions()).missing_key(MissingKey::Error);
        set = set.within(Arc::new(Budget::new(self.limits)));
        set.parse(name, text.as_bytes()).map_err(|error| error.message)?;
        let mut out = Vec::with_capacity(text.len());
        let result = set.execute(&mut self.host, name, to_value(variables), &mut out);
        self.host.release();
        result.map_err(|error| error.message)?;
        String::from_utf8(out).map_err(|_| format!("template: {name}: the output is not UTF-8"))
    }

    /// Validates a template's syntax.
    ///
    /// # Errors
    /// Fails with the line and Go's message.
    pub fn check(name: &str, text: &str) -> Result<(), (usize, String)> {
        let mut set = Set::<Host>::new(functions());
        set.parse(name, text.as_bytes()).map_err(|error| (error.line, error.message))
    }
}

pub(crate) struct Host {
    environment: Box<dyn Environment>,
    /// Maps that received maps or lists, and so may contain themselves.
    changed: Vec<Map>,
}

impl Host {
    /// Empties every map that may contain itself: such a reference cycle would leak.
    fn release(&mut self) {
        for map in self.changed.drain(..) {
            let entries = std::mem::take(&mut *map.borrow_mut());
            drop(entries);
        }
    }
}

impl FunctionHost for Host {
    fn environment(&mut self) -> &mut dyn Environment {
        &mut *self.environment
    }

    fn changed(&mut self, map: &Map) {
        self.changed.push(map.clone());
    }
}

fn functions() -> Arc<Funcs<Host>> {
    static FUNCTIONS: LazyLock<Arc<Funcs<Host>>> = LazyLock::new(|| {
        let mut funcs = Funcs::new();
        steersman_chart::register_functions(&mut funcs);
        funcs.insert("toYaml", &[Type::Any], None, to_yaml);
        Arc::new(funcs)
    });
    Arc::clone(&FUNCTIONS)
}

/// Unlike Helm's `toYaml`, it keeps the final newline, and fails where Helm's returns an empty
/// string.
fn to_yaml(call: &mut Call<'_, Host>) -> Result<Value, CallError> {
    let value = call.args.first().unwrap_or(&Value::Nil);
    let text = steersman_yaml::to_string_within(call.budget.remaining_memory(), &value.within(call.budget))
        .map_err(|error| CallError::new(error.to_string()))?;
    call.budget.charge_memory(text.len())?;
    Ok(Value::string(text))
}

fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(yes) => Value::Bool(*yes),
        Json::Number(number) => Value::float(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(to_value).collect()),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (Str::from(key.as_str()), to_value(value)));
            Value::Map(Map::with_type(MapType::ANY, entries.collect()))
        }
    }
}
