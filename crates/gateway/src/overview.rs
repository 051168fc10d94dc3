//! The health of all instances at a glance.

use futures::{StreamExt as _, stream};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::{
    answer::{self, Body},
    audit,
    health::{Health, State},
    instances,
    problem::Result,
    request::RequestContext,
    tree,
};

/// The number of concurrent lists.
const AT_ONCE: usize = 8;
/// The maximum number of failing objects that are named.
const NAMED: usize = 50;
const CHANGES: usize = 20;

/// `GET /v1/overview`.
pub(crate) async fn get(ctx: &RequestContext) -> Result<Response<Body>> {
    ctx.query.allow(&[])?;
    let catalog = ctx.shared.kinds.now().await?;
    let kinds: Vec<_> = catalog.iter().filter(|kind| kind.custom && kind.has_verb("list")).cloned().collect();
    let lists = stream::iter(kinds).map(|kind| async move {
        let objects = instances::all(&ctx.caller.cluster, &kind.path(None, None), "").await;
        (kind, objects)
    });
    // `buffered` keeps the order of the kinds.
    let lists: Vec<_> = lists.buffered(AT_ONCE).collect().await;
    let (mut shown, mut failing) = (Vec::new(), Vec::new());
    for (kind, objects) in lists {
        let name = kind.name();
        match objects {
            Ok((objects, _)) => {
                let mut counts: Map<String, Value> =
                    State::ALL.iter().map(|state| (state.word().to_owned(), 0.into())).collect();
                for object in &objects {
                    let health = Health::of(object, kind.custom);
                    let count = counts.get(health.state.word()).and_then(Value::as_u64).unwrap_or_default();
                    counts.insert(health.state.word().to_owned(), (count + 1).into());
                    if health.state == State::Failing && failing.len() < NAMED {
                        failing.push(json!({"ref": tree::reference(Some(&kind), object), "health": health.document()}));
                    }
                }
                shown.push(json!({
                    "name": name, "kind": kind.kind, "total": objects.len(), "health": counts, "denied": null,
                }));
            }
            Err(problem) => shown.push(json!({
                "name": name, "kind": kind.kind, "total": null, "health": {}, "denied": problem.document(&ctx.id)["detail"],
            })),
        }
    }
    let changes = audit::recent(ctx, CHANGES).await?;
    Ok(answer::json(StatusCode::OK, &json!({"kinds": shown, "failing": failing, "changes": changes})))
}
