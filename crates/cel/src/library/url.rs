//! URLs.

use std::sync::Arc;

use steersman_formats::Url;
use steersman_gostd::strconv::quote;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value};

const URL: Type = Type::Opaque("kubernetes.URL");

fn part(args: &[Value], read: fn(&Url) -> &str) -> Evaluated {
    match args {
        [Value::Url(url)] => Ok(Value::string(read(url))),
        _ => unfit(),
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, String};
    library.global("url", [String], URL, |args| match args {
        [Value::String(text)] => match Url::read(text) {
            Ok(url) => Ok(Value::Url(Arc::new(url))),
            Err(why) => Err(EvalError::from(format!(
                "URL parse error during conversion from string: parse {}: {why}",
                quote(&**text)
            ))),
        },
        _ => unfit(),
    });
    library.global("isURL", [String], Bool, |args| match args {
        [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_some())),
        _ => unfit(),
    });
    library.member("getScheme", [URL], String, |args| part(args, Url::scheme));
    library.member("getHost", [URL], String, |args| part(args, Url::host));
    library.member("getHostname", [URL], String, |args| part(args, Url::hostname));
    library.member("getPort", [URL], String, |args| part(args, Url::port));
    library.member("getEscapedPath", [URL], String, |args| part(args, Url::path));
    library.member("getQuery", [URL], Type::map(String, Type::list(String)), |args| match args {
        [Value::Url(url)] => {
            let mut out: Vec<(Value, Vec<Value>)> = Vec::new();
            for (key, value) in url.query() {
                let value = Value::string(value.as_str());
                match out.iter_mut().find(|(k, _)| matches!(k, Value::String(k) if **k == **key)) {
                    Some((_, values)) => values.push(value),
                    None => out.push((Value::string(key.as_str()), vec![value])),
                }
            }
            Ok(Value::map(out.into_iter().map(|(k, v)| (k, Value::list(v))).collect()))
        }
        _ => unfit(),
    });
}
