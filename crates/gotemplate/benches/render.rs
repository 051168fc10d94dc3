//! Benchmarks parsing and execution: a loop over 1000 items that includes two templates for each item.
//!
//! `cargo bench -p steersman-gotemplate` prints the best of many rounds, the figure least disturbed by other load.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steersman_gotemplate::{CallError, Funcs, MissingKey, Set, Type, Value};

const TEXT: &[u8] = br#"
{{- define "labels" }}
app.kubernetes.io/name: {{ .name }}
{{- range $k, $v := .labels }}
{{ $k }}: {{ $v | upper }}
{{- end }}
{{- end }}
{{- define "image" }}{{ printf "%s:%s" .repo .tag }}{{ end }}
{{- $root := . }}
{{- range $i, $item := .Values.items }}
---
name: {{ $root.Release.Name }}-{{ $item.name }}
index: {{ $i }}
{{- if and $item.enabled (ne $item.name "item5") }}
labels: {{- include "labels" . }}
image: {{ include "image" $root.Values.image }}
{{- else }}
disabled: {{ not $item.enabled }}
{{- end }}
port: {{ $item.port }}
{{- with .missing }}{{ . }}{{ end }}
{{- end }}
"#;

fn funcs() -> Funcs<()> {
    let mut funcs = Funcs::new();
    funcs.insert("upper", &[Type::String], None, |call| match call.args {
        [Value::String(text)] => Ok(Value::string(text.to_ascii_uppercase())),
        _ => Err(CallError::new("not a string")),
    });
    funcs.insert("include", &[Type::String, Type::Any], None, |call| match call.args {
        [Value::String(name), data] => {
            let mut out = Vec::new();
            call.set.execute(call.host, &name.to_str_lossy(), data.clone(), &mut out)?;
            Ok(Value::string(out))
        }
        _ => Err(CallError::new("not a name")),
    });
    funcs
}

fn data() -> Value {
    let item = |i: i32| {
        Value::map([
            ("name", Value::string(format!("item{i}"))),
            ("port", Value::float(f64::from(8000 + i))),
            ("enabled", Value::Bool(i % 3 != 0)),
            ("labels", Value::map([("app", Value::string("web")), ("tier", Value::string("front"))])),
        ])
    };
    let image = Value::map([("repo", Value::string("registry/x")), ("tag", Value::string("1.2.3"))]);
    let values = Value::map([("items", Value::list((0..1000).map(item).collect())), ("image", image)]);
    Value::map([("Values", values), ("Release", Value::map([("Name", Value::string("rel"))]))])
}

/// Returns the shortest time of `rounds` runs.
fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..rounds).map(time).min().unwrap_or_default()
}

fn main() {
    let mut set = Set::new(Arc::new(funcs())).missing_key(MissingKey::Zero);
    let parse = best(1000, || {
        black_box(set.compile("bench", TEXT).expect("parses"));
    });
    set.parse("bench", TEXT).expect("parses");
    let data = data();
    let mut bytes = 0;
    let execute = best(200, || {
        let mut out = Vec::new();
        set.execute(&mut (), "bench", data.clone(), &mut out).expect("executes");
        bytes = out.len();
    });
    println!("parse   {parse:>10.1?}  ({} bytes)", TEXT.len());
    println!("execute {execute:>10.1?}  (1000 items, {bytes} bytes)");
}
