//! `.Files`: the chart's files other than templates, subcharts and values.

use std::collections::BTreeMap;

use base64::Engine as _;
use steersman_gotemplate::{Budget, CallError, Exceeded, Map, MapType, Method, Str, Type, Value};

use super::glob::Glob;
use super::objects::{NO_ARGUMENTS, ONE_STRING, text};
use crate::chart::File;
use crate::functions::{TEXT, map_memory};
use crate::metadata::base_name;
use crate::values::Data;

/// `engine.files`: a `map[string][]byte` with methods.
const FILES: &MapType = &MapType {
    name: "engine.files",
    elem: Type::Bytes,
    methods: &[
        Method {
            name: "Get",
            signature: ONE_STRING,
            call: |files, args, _| Ok(Value::String(get(files, args))),
        },
        Method {
            name: "GetBytes",
            signature: ONE_STRING,
            call: |files, args, _| Ok(Value::Bytes(get(files, args))),
        },
        Method {
            name: "Glob",
            signature: ONE_STRING,
            call: |files, args, budget| Ok(glob(budget, files, &text(args))?),
        },
        Method {
            name: "AsConfig",
            signature: NO_ARGUMENTS,
            call: |files, _, budget| as_yaml(budget, files, |content| Data::String(content.clone())),
        },
        Method {
            name: "AsSecrets",
            signature: NO_ARGUMENTS,
            call: |files, _, budget| {
                let encode = |content: &Str| base64::engine::general_purpose::STANDARD.encode(content);
                as_yaml(budget, files, |content| Data::String(encode(content).into()))
            },
        },
        Method {
            name: "Lines",
            signature: ONE_STRING,
            call: |files, args, budget| Ok(lines(budget, &get(files, args))?),
        },
    ],
};

/// Builds `.Files`; of files with the same name the last one wins.
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

fn glob(budget: &Budget, files: &Map, pattern: &str) -> Result<Value, Exceeded> {
    budget.charge_memory(map_memory(files.len()))?;
    budget.charge_cost(files.len() * (8 + pattern.len() / 8))?;
    // As in Helm, a malformed pattern matches all files.
    let glob = Glob::parse(pattern);
    let matches = |name: &Str| glob.as_ref().is_none_or(|glob| glob.matches(&name.to_str_lossy()));
    let entries = files
        .borrow()
        .iter()
        .filter(|(name, _)| matches(name))
        .map(|(name, content)| (name.clone(), content.clone()))
        .collect();
    Ok(Value::Map(Map::with_type(FILES, entries)))
}

/// Formats the files as YAML by base name; of several with the same one the last wins.
fn as_yaml(budget: &Budget, files: &Map, value: impl Fn(&Str) -> Data) -> Result<Value, CallError> {
    let sizes = files.borrow().values().fold(0, |sum: usize, content| match content {
        Value::Bytes(content) => sum.saturating_add(content.len()),
        _ => sum,
    });
    budget.ensure_memory(sizes)?;
    budget.charge_cost(sizes / 16)?;
    let mut by_name = BTreeMap::new();
    for (name, content) in files.borrow().iter() {
        if let Value::Bytes(content) = content {
            by_name.insert(Str::from(base_name(&name.to_str_lossy())), value(content));
        }
    }
    let yaml = steersman_yaml::to_string_within(budget.remaining_memory(), &Data::Table(by_name));
    if let Err(steersman_yaml::Error::TooLarge { .. }) = &yaml {
        budget.charge_memory(usize::MAX)?;
    }
    let yaml = yaml.unwrap_or_default();
    budget.charge_memory(yaml.len())?;
    Ok(Value::string(yaml.strip_suffix('\n').unwrap_or(&yaml)))
}

fn lines(budget: &Budget, content: &Str) -> Result<Value, Exceeded> {
    if content.is_empty() {
        return Ok(Value::strings(std::iter::empty::<Str>()));
    }
    let count = memchr::memchr_iter(b'\n', content).count() + 1;
    budget.charge_memory(content.len() + count * TEXT)?;
    budget.charge_elements(count)?;
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    Ok(Value::strings(content.split(|byte| *byte == b'\n')))
}
