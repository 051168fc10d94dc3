//! Renders a chart with many combinations of values, to find the kinds that it can create.

use serde_json::{Map, Value, json};
use steersman_chart::{Chart, Release, RenderOptions, Rendered, Seeded, Values};

use super::stub;

/// The name of the rendered release: unlikely to be part of any other name.
pub(super) const RELEASE: &str = "rel-zqx";
pub(super) const NAMESPACE: &str = "ns-zqx";

/// Limit on the total bytes of templates rendered, from which the number of renders follows.
///
/// Work is counted instead of timed, so that a chart's role is the same on every machine. The two constants below bound
/// the number of renders.
const MAX_BYTES: usize = 8 << 20;
const MIN_RENDERS: usize = 24;
const MAX_RENDERS: usize = 200;
/// Maximum depth of values that are explored.
const MAX_DEPTH: usize = 16;

type Path = Vec<String>;

/// Renders a chart with its own values and with its boolean values toggled, together and individually.
///
/// The schema's `enum` values are tried as well, all within the bounds above. `see` is called with each successful render.
/// If nothing renders, the error is that of the chart's own values.
pub(super) fn explore(chart: &Chart, see: &mut dyn FnMut(&Rendered)) -> Result<(), steersman_chart::Error> {
    let values = all_values(chart, 0);
    let mut switches = Vec::new();
    booleans(&values, &mut Vec::new(), &mut switches);
    for path in conditions(chart) {
        if !switches.contains(&path) {
            switches.push(path);
        }
    }
    // Outer switches first: inner ones only have an effect while they are on.
    switches.sort_by_key(Vec::len);
    let schema = chart.schema().and_then(|text| serde_json::from_slice(text).ok()).unwrap_or(Value::Null);
    let mut choices = Vec::new();
    enums(&schema, &schema, &mut Vec::new(), &mut choices);

    let left = (MAX_BYTES / template_bytes(chart).max(1)).clamp(MIN_RENDERS, MAX_RENDERS);
    let stubbed = stub::stubbed(chart);
    let quick = stubbed.as_ref().unwrap_or(chart);
    let mut explorer = Explorer { chart: quick, left, see, rendered: 0, first_error: None };
    let none = json!({});
    if !explorer.render(&none) && stubbed.is_some() {
        // A chart that parses its generated keys needs real ones.
        explorer.chart = chart;
        explorer.left = MIN_RENDERS.min(left);
        explorer.render(&none);
    }
    let on = explorer.turn(none.clone(), &switches, true);
    let off = explorer.turn(none.clone(), &switches, false);
    for (path, choice) in &choices {
        for base in [&none, &on] {
            explorer.render(&with(base, path, choice));
        }
    }
    for path in &switches {
        let default = values.pointer(&pointer(path)).and_then(Value::as_bool).unwrap_or(false);
        explorer.render(&with(&none, path, &json!(!default)));
        explorer.render(&with(&on, path, &json!(false)));
        explorer.render(&with(&off, path, &json!(true)));
    }
    match explorer.first_error {
        Some(error) if explorer.rendered == 0 => Err(error),
        _ => Ok(()),
    }
}

struct Explorer<'a> {
    chart: &'a Chart,
    /// The number of renders left.
    left: usize,
    rendered: usize,
    see: &'a mut dyn FnMut(&Rendered),
    first_error: Option<steersman_chart::Error>,
}

impl Explorer<'_> {
    fn render(&mut self, values: &Value) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let mut options = RenderOptions {
            release: Release { name: RELEASE.into(), namespace: NAMESPACE.into(), ..Release::default() },
            skip_schema_validation: true,
            ..RenderOptions::default()
        };
        let values = Values::from_json(values.clone());
        let environment = || Seeded::new(1, std::time::SystemTime::UNIX_EPOCH);
        let mut rendered = self.chart.render(&values, &options, environment());
        if rendered.is_err() {
            // Values that users must provide are missing here: in lint mode, `required` and `fail` do not fail.
            options.lint = true;
            rendered = self.chart.render(&values, &options, environment());
        }
        match rendered {
            Ok(rendered) => {
                self.rendered += 1;
                (self.see)(&rendered);
                true
            }
            Err(error) => {
                self.first_error.get_or_insert(error);
                false
            }
        }
    }

    /// Sets as many switches as the chart renders with, bisecting sets with which it does not.
    fn turn(&mut self, base: Value, switches: &[Path], yes: bool) -> Value {
        let turned = switches.iter().fold(base.clone(), |base, path| with(&base, path, &json!(yes)));
        if switches.is_empty() || self.render(&turned) {
            return turned;
        }
        if switches.len() == 1 || self.left == 0 {
            return base;
        }
        let (outer, inner) = switches.split_at(switches.len() / 2);
        let base = self.turn(base, outer, yes);
        self.turn(base, inner, yes)
    }
}

fn template_bytes(chart: &Chart) -> usize {
    let own: usize = chart.templates().iter().map(|file| file.data.len()).sum();
    own + chart.subcharts().iter().map(template_bytes).sum::<usize>()
}

/// Returns a chart's values merged over those of all its subcharts, enabled or not.
fn all_values(chart: &Chart, depth: usize) -> Value {
    let mut values = Value::from(&chart.values());
    if depth > MAX_DEPTH {
        return values;
    }
    for subchart in chart.subcharts() {
        let inner = all_values(subchart, depth + 1);
        let dependencies = chart.metadata().dependencies.iter().flatten();
        let mut keys: Vec<String> = dependencies
            .filter(|dependency| dependency.name == subchart.name() && !dependency.alias.is_empty())
            .map(|dependency| dependency.alias.clone())
            .collect();
        if keys.is_empty() {
            keys.push(subchart.name().to_owned());
        }
        for key in keys {
            let Some(table) = values.as_object_mut() else { return values };
            let own = table.entry(key).or_insert_with(|| json!({}));
            fill(own, &inner, depth);
        }
    }
    values
}

/// Adds missing keys.
fn fill(values: &mut Value, more: &Value, depth: usize) {
    let (Some(values), Some(more)) = (values.as_object_mut(), more.as_object()) else { return };
    for (key, value) in more {
        match values.get_mut(key) {
            Some(own) if depth < MAX_DEPTH => fill(own, value, depth + 1),
            Some(_) => {}
            None => drop(values.insert(key.clone(), value.clone())),
        }
    }
}

fn booleans(values: &Value, path: &mut Path, found: &mut Vec<Path>) {
    match values {
        Value::Bool(_) => found.push(path.clone()),
        Value::Object(entries) if path.len() < MAX_DEPTH => {
            for (key, value) in entries {
                path.push(key.clone());
                booleans(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Returns the values in the `condition`s of subcharts.
fn conditions(chart: &Chart) -> Vec<Path> {
    let dependencies = chart.metadata().dependencies.iter().flatten();
    dependencies
        .flat_map(|dependency| dependency.condition.split(','))
        .map(str::trim)
        .filter(|condition| !condition.is_empty())
        .map(|condition| condition.split('.').map(str::to_owned).collect())
        .collect()
}

/// Collects the `enum` values of a schema's fields.
fn enums(root: &Value, schema: &Value, path: &mut Path, found: &mut Vec<(Path, Value)>) {
    let schema = match schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).unwrap_or(&Value::Null),
        None => schema,
    };
    if path.len() > MAX_DEPTH || found.len() > MAX_RENDERS {
        return;
    }
    let listed = schema.get("enum").and_then(Value::as_array);
    found.extend(listed.into_iter().flatten().map(|choice| (path.clone(), choice.clone())));
    for (key, field) in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        path.push(key.clone());
        enums(root, field, path, found);
        path.pop();
    }
}

fn pointer(path: &[String]) -> String {
    path.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Returns the values with the one at a path set.
fn with(values: &Value, path: &[String], value: &Value) -> Value {
    let mut values = values.clone();
    let mut at = &mut values;
    for key in path {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[key];
    }
    *at = value.clone();
    values
}
