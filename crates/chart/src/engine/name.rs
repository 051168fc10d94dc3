//! Names that are templates, as in `--name-template`.

use std::sync::Arc;

use steersman_gotemplate::{Set, Value};

use super::{Host, MARK_END, MARK_START, functions};
use crate::environment::Environment;
use crate::error::{Error, TemplateError};

/// The name that Helm gives to the template.
const NAME: &str = "name-template";

/// The name of a release from a template, which has functions but nothing to look at.
pub fn template_name(text: &str, environment: impl Environment + 'static) -> Result<String, Error> {
    let failed = |message: String| Error::Template(Box::new(TemplateError { message, diagnostic: None }));
    let mut set = Set::new(functions()).named(NAME);
    set.parse(NAME, text.as_bytes()).map_err(|error| failed(error.to_string()))?;
    let mut host = Host::new(Box::new(environment), false, Arc::default());
    let mut out = Vec::new();
    set.execute(&mut host, NAME, Value::Nil, &mut out).map_err(|error| {
        // Nobody looks for the marks here, so nobody must see them.
        failed(error.message.replace(MARK_START, "").replace(MARK_END, ""))
    })?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}
