//! Release names from templates, as for `--name-template`.

use std::sync::Arc;

use steersman_gotemplate::{Budget, Exceeded, Limits, Set, Value};

use super::{Host, MARK_END, MARK_START, functions};
use crate::environment::Environment;
use crate::error::{Error, TemplateError};

/// Name that Helm gives to this template.
const NAME: &str = "name-template";

/// Renders a release name from a template, within the default limits.
///
/// The template can call functions but has no data.
///
/// ```
/// use steersman_chart::{System, template_name};
///
/// let name = template_name("{{ \"WEB\" | lower }}-1", System::default())?;
/// assert_eq!(name, "web-1");
/// # Ok::<(), steersman_chart::Error>(())
/// ```
pub fn template_name(text: &str, environment: impl Environment + 'static) -> Result<String, Error> {
    let failed = |message: String, exceeded: Option<Exceeded>| {
        Error::Template(Box::new(TemplateError { message, diagnostic: None, exceeded }))
    };
    let budget = Arc::new(Budget::new(Limits::default()));
    let mut set = Set::new(functions()).named(NAME).within(budget);
    set.parse(NAME, text.as_bytes()).map_err(|error| failed(error.to_string(), error.exceeded))?;
    let mut host = Host::new(Box::new(environment), false, Arc::default());
    let mut out = Vec::new();
    set.execute(&mut host, NAME, Value::Nil, &mut out).map_err(|error| {
        // Helm searches only a chart's errors for the markers.
        failed(error.message.replace(MARK_START, "").replace(MARK_END, ""), error.exceeded)
    })?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}
