//! `.Files`: the chart's files that are neither templates nor charts nor values.

use std::collections::BTreeMap;

use base64::Engine as _;
use steersman_gotemplate::{Map, MapType, Method, Str, Type, Value};

use super::glob::Glob;
use super::objects::{NO_ARGUMENTS, ONE_STRING, text};
use crate::chart::File;
use crate::metadata::base_name;
use crate::values::Data;
use crate::yaml;

/// `engine.files`: a `map[string][]byte` with methods.
const FILES: &MapType = &MapType {
    name: "engine.files",
    elem: Type::Bytes,
    methods: &[
        Method {
            name: "Get",
            signature: ONE_STRING,
            call: |files, args| Ok(Value::String(get(files, args))),
        },
        Method {
            name: "GetBytes",
            signature: ONE_STRING,
            call: |files, args| Ok(Value::Bytes(get(files, args))),
        },
        Method { name: "Glob", signature: ONE_STRING, call: |files, args| Ok(glob(files, &text(args))) },
        Method {
            name: "AsConfig",
            signature: NO_ARGUMENTS,
            call: |files, _| Ok(as_yaml(files, |content| Data::String(content.clone()))),
        },
        Method {
            name: "AsSecrets",
            signature: NO_ARGUMENTS,
            call: |files, _| {
                let encode = |content: &Str| base64::engine::general_purpose::STANDARD.encode(content);
                Ok(as_yaml(files, |content| Data::String(encode(content).into())))
            },
        },
        Method { name: "Lines", signature: ONE_STRING, call: |files, args| Ok(lines(&get(files, args))) },
    ],
};

/// `.Files` of a chart; of files with the same name the last one stays.
pub(super) fn files(files: &[File]) -> Value {
    let entries = files.iter().map(|file| (file.name.as_str().into(), Value::Bytes(file.data.clone())));
    Value::Map(Map::with_type(FILES, entries.collect()))
}

fn get(files: &Map, args: &[Value]) -> Str {
    let Some(Value::String(name)) = args.first() else { return Str::default() };
    match files.get(name) {
        Some(Value::Bytes(content)) => content,
        _ => Str::default(),
    }
}

fn glob(files: &Map, pattern: &str) -> Value {
    // A pattern that does not parse stands for all files.
    let glob = Glob::parse(pattern);
    let matches = |name: &Str| glob.as_ref().is_none_or(|glob| glob.matches(&name.to_str_lossy()));
    let entries = files
        .borrow()
        .iter()
        .filter(|(name, _)| matches(name))
        .map(|(name, content)| (name.clone(), content.clone()))
        .collect();
    Value::Map(Map::with_type(FILES, entries))
}

/// The files by their base names as YAML; of those with the same one the last stays.
fn as_yaml(files: &Map, value: impl Fn(&Str) -> Data) -> Value {
    let mut by_name = BTreeMap::new();
    for (name, content) in files.borrow().iter() {
        if let Value::Bytes(content) = content {
            by_name.insert(Str::from(base_name(&name.to_str_lossy())), value(content));
        }
    }
    let yaml = yaml::to_string(&Data::Table(by_name));
    Value::string(yaml.strip_suffix('\n').unwrap_or(&yaml))
}

fn lines(content: &Str) -> Value {
    if content.is_empty() {
        return Value::strings(std::iter::empty::<Str>());
    }
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    Value::strings(content.split(|byte| *byte == b'\n'))
}
