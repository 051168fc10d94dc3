//! Renders a chart for a cluster: with its capabilities and `lookup`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};
use steersman_chart::{
    Capabilities, Chart, Environment, Error as ChartError, Interrupt, Limits, RenderOptions, Rendered,
    System, Values,
};

use crate::confinement::Confinement;
use crate::error::{Error, Result, code};
use crate::kinds::Kinds;

/// Maximum number of renders that request further objects.
const MAX_ROUNDS: usize = 16;

/// Limits of rendering a chart, so that no chart or values hold up anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderLimits {
    /// Cost and memory of all templates together. [`Limits::default`] by default.
    pub limits: Limits,
    /// Timeout of rendering all templates once. One minute by default.
    pub timeout: Duration,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self { limits: Limits::default(), timeout: Duration::from_secs(60) }
    }
}

/// Arguments of `lookup`: API version, kind, namespace and name.
type LookupKey = (String, String, String, String);
type LookupResults = HashMap<LookupKey, LookupResult>;

/// Result of a `lookup`.
#[derive(Clone)]
enum LookupResult {
    Found(Value),
    NotFound,
    /// The template fails with this message.
    Refused(String),
}

/// A chart to render, and how.
pub(crate) struct Request {
    pub(crate) chart: Chart,
    pub(crate) values: Values,
    pub(crate) options: RenderOptions,
    /// Timeout of one render.
    pub(crate) timeout: Duration,
    /// Whether `lookup` queries the cluster.
    pub(crate) lookup: bool,
    /// Whether `getHostByName` queries DNS.
    pub(crate) enable_dns: bool,
}

/// A rendered chart, and whether it used randomness or the clock.
pub(crate) struct RenderOutput {
    pub(crate) rendered: Rendered,
    pub(crate) random: bool,
}

/// Renders a chart. Templates cannot wait for the cluster: objects that `lookup` lacks are fetched, and the render
/// starts again. `confined` restricts the lookups of a confined release.
pub(crate) async fn render(
    request: Request,
    client: &kube::Client,
    kinds: &Kinds,
    confined: Option<(&Confinement, &str)>,
) -> Result<RenderOutput> {
    let request = Arc::new(request);
    let mut answers = LookupResults::new();
    for _ in 0..MAX_ROUNDS {
        let Attempt { result, unknown, random, back } = attempt(&request, answers).await?;
        answers = back;
        if unknown.is_empty() {
            return Ok(RenderOutput { rendered: result?, random });
        }
        for lookup_key in unknown {
            let answer = fetch(&lookup_key, client, kinds, confined).await?;
            answers.insert(lookup_key, answer);
        }
    }
    Err(Error::Manifest(format!("lookups of templates did not converge after {MAX_ROUNDS} rounds")))
}

struct Attempt {
    result: Result<Rendered, ChartError>,
    unknown: Vec<LookupKey>,
    random: bool,
    back: LookupResults,
}

/// Renders on a separate thread. A template that computes for seconds must not keep a lease from being renewed.
async fn attempt(request: &Arc<Request>, answers: LookupResults) -> Result<Attempt> {
    let interrupt = Interrupt::new();
    // Dropping this future interrupts the render.
    let _abandoned = InterruptOnDrop(interrupt.clone());
    let options = RenderOptions { interrupt: interrupt.clone(), ..request.options.clone() };
    let shared = Arc::clone(request);
    let mut work = tokio::task::spawn_blocking(move || render_once(&shared, &options, answers));
    let done = match tokio::time::timeout(request.timeout, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            interrupt.raise(format!("exceeded the time limit of {:?}", request.timeout));
            work.await
        }
    };
    done.or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(Error::Manifest("rendering was cancelled".into())),
    })
}

struct InterruptOnDrop(Interrupt);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.raise("rendering was cancelled");
    }
}

fn render_once(request: &Request, options: &RenderOptions, answers: LookupResults) -> Attempt {
    let shared = Rc::new(Shared { answers, unknown: RefCell::default(), random: Cell::new(false) });
    let environment = LookupEnvironment {
        system: System { enable_dns: request.enable_dns },
        lookup: request.lookup,
        shared: Rc::clone(&shared),
    };
    let result = request.chart.render(&request.values, options, environment);
    // The environment was dropped with the render.
    let shared = Rc::try_unwrap(shared).unwrap_or_else(|shared| Shared {
        answers: shared.answers.clone(),
        unknown: RefCell::new(shared.unknown.borrow().clone()),
        random: Cell::new(shared.random.get()),
    });
    Attempt {
        result,
        unknown: shared.unknown.into_inner(),
        random: shared.random.get(),
        back: shared.answers,
    }
}

struct Shared {
    answers: LookupResults,
    unknown: RefCell<Vec<LookupKey>>,
    random: Cell<bool>,
}

/// The machine's clock and random source, and the objects fetched so far.
struct LookupEnvironment {
    system: System,
    lookup: bool,
    shared: Rc<Shared>,
}

impl Environment for LookupEnvironment {
    fn now(&mut self) -> SystemTime {
        self.shared.random.set(true);
        self.system.now()
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        self.shared.random.set(true);
        self.system.fill_random(bytes);
    }

    fn resolve_host(&mut self, name: &str) -> Vec<String> {
        self.system.resolve_host(name)
    }

    fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, String> {
        if !self.lookup {
            return Ok(None);
        }
        let lookup_key = (api_version.to_owned(), kind.to_owned(), namespace.to_owned(), name.to_owned());
        match self.shared.answers.get(&lookup_key) {
            Some(LookupResult::Found(object)) => Ok(Some(object.clone())),
            Some(LookupResult::NotFound) => Ok(None),
            Some(LookupResult::Refused(message)) => Err(message.clone()),
            None => {
                self.shared.unknown.borrow_mut().push(lookup_key);
                Ok(None)
            }
        }
    }
}

async fn fetch(
    lookup_key: &LookupKey,
    client: &kube::Client,
    kinds: &Kinds,
    confined: Option<(&Confinement, &str)>,
) -> Result<LookupResult> {
    let (api_version, kind, namespace, name) = lookup_key;
    let Some(found) = kinds.find_opt(api_version, kind).await? else {
        let message = format!("no matches for kind {kind:?} in version {api_version:?}");
        return Ok(LookupResult::Refused(message));
    };
    if let Some((confinement, own)) = confined
        && let Err(refused) = confinement.check_lookup(&found, namespace, own)
    {
        return Ok(LookupResult::Refused(refused));
    }
    let api: Api<DynamicObject> = if found.namespaced && !namespace.is_empty() {
        Api::namespaced_with(client.clone(), namespace, &found.resource)
    } else {
        Api::all_with(client.clone(), &found.resource)
    };
    let answer = if name.is_empty() {
        api.list(&ListParams::default()).await.map(|list| Some(listed(list.items, api_version, kind)))
    } else {
        api.get_opt(name).await.map(|object| object.map(|object| json!(object)))
    };
    Ok(match answer {
        Ok(Some(object)) => LookupResult::Found(object),
        Ok(None) => LookupResult::NotFound,
        Err(error) if code(&error) == Some(404) => LookupResult::NotFound,
        Err(error) => LookupResult::Refused(error.to_string()),
    })
}

/// Builds a list. Its items need `apiVersion` and `kind`, which the API server omits.
fn listed(items: Vec<DynamicObject>, api_version: &str, kind: &str) -> Value {
    let items: Vec<Value> = items
        .into_iter()
        .map(|item| {
            let mut item = json!(item);
            item["apiVersion"] = json!(api_version);
            item["kind"] = json!(kind);
            item
        })
        .collect();
    json!({ "apiVersion": api_version, "kind": format!("{kind}List"), "metadata": {}, "items": items })
}

/// Returns the render options for a release.
pub(crate) fn options(
    release: steersman_chart::Release,
    capabilities: Capabilities,
    settings: &crate::Options,
) -> RenderOptions {
    RenderOptions {
        release,
        capabilities,
        skip_schema_validation: settings.skip_schema_validation,
        fetch_schema: settings.fetch_schema.clone(),
        sub_notes: settings.sub_notes,
        limits: settings.render.limits,
        ..RenderOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use steersman_chart::File;

    use super::*;

    #[test]
    fn a_render_ends_when_nothing_waits_for_it() {
        let chart = Chart::from_files([
            File::new("Chart.yaml", "{apiVersion: v2, name: endless, version: 0.1.0}"),
            File::new("templates/a.yaml", "{{ range 9000000000000000000 }}{{ end }}"),
        ]);
        let limits = Limits { cost: usize::MAX, ..Limits::default() };
        let request = Arc::new(Request {
            chart: chart.unwrap(),
            values: Values::new(),
            options: RenderOptions { limits, ..RenderOptions::default() },
            timeout: Duration::from_secs(3600),
            lookup: false,
            enable_dns: false,
        });
        // With one render thread, a render that never ends would block those that follow it.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let next = runtime.block_on(async {
            let mut rendering = Box::pin(attempt(&request, LookupResults::new()));
            assert!(futures::poll!(&mut rendering).is_pending());
            drop(rendering);
            tokio::time::timeout(Duration::from_secs(60), tokio::task::spawn_blocking(|| ())).await
        });
        runtime.shutdown_background();
        assert!(next.is_ok(), "the render goes on");
    }
}
