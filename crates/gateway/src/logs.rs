//! The logs of an instance's pods.

use futures::StreamExt as _;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    answer::{self, Body},
    kinds::{Kind, list, name_of, namespace_of},
    problem::{Problem, Result},
    request::RequestContext,
    stream, tree,
    upstream::encode,
};

const DEFAULT_TAIL: u64 = 200;
const LONGEST_TAIL: u64 = 100_000;
/// The maximum number of containers whose logs are read by one request.
const MOST: usize = 50;
const WAITING: usize = 64;

struct Source {
    pod: String,
    container: String,
    path: String,
}

/// `GET …/logs`.
pub(crate) async fn get(
    ctx: RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version", "pod", "container", "tail", "follow", "previous"])?;
    let sources = sources(&ctx, kind, namespace, name).await?;
    let follow = ctx.query.flag("follow")?;
    if !ctx.wants_stream() {
        return text(&ctx, sources, follow).await;
    }
    let place = ctx.shared.limits.stream(&ctx.caller.user.name)?;
    let place = std::sync::Arc::new(place);
    let (sender, receiver) = mpsc::channel(WAITING);
    for source in sources {
        let mut lines = ctx.caller.cluster.lines(&source.path, "*/*").await?;
        let (sender, place) = (sender.clone(), std::sync::Arc::clone(&place));
        let session_end = ctx.caller.session_end();
        tokio::spawn(async move {
            let _place = place;
            tokio::pin!(session_end);
            loop {
                let line = tokio::select! {
                    () = sender.closed() => return,
                    () = &mut session_end => return,
                    line = lines.next() => line,
                };
                let Some(Ok(line)) = line else { return };
                let text = String::from_utf8_lossy(&line).into_owned();
                let line = json!({"pod": source.pod, "container": source.container, "text": text});
                if sender.send(line).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(stream::lines(receiver))
}

/// Responds in plain text: one container's log verbatim, or several logs one after the other.
async fn text(ctx: &RequestContext, sources: Vec<Source>, follow: bool) -> Result<Response<Body>> {
    if follow && sources.len() > 1 {
        let detail = "follow: several containers can be followed with Accept: text/event-stream; name one by pod and container";
        return Err(Problem::bad_request(detail));
    }
    let prefix = sources.len() > 1;
    let mut chunks = Vec::new();
    for source in sources {
        let opened = ctx.caller.cluster.chunks(&source.path, "*/*").await?;
        let head =
            if prefix { format!("==> {}/{} <==\n", source.pod, source.container) } else { String::new() };
        let head = futures::stream::iter([bytes::Bytes::from(head)])
            .filter(|head| std::future::ready(!head.is_empty()));
        // A log that breaks off simply ends here: the response's status has been sent.
        let opened = opened
            .take_while(|chunk| std::future::ready(chunk.is_ok()))
            .filter_map(|chunk| std::future::ready(chunk.ok()));
        chunks.push(head.chain(opened).boxed());
    }
    Ok(answer::stream("text/plain; charset=utf-8", futures::stream::iter(chunks).flatten()))
}

async fn sources(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Vec<Source>> {
    let tail = ctx.query.number("tail", 0, LONGEST_TAIL)?.unwrap_or(DEFAULT_TAIL);
    let mut query = format!("?tailLines={tail}");
    for flag in ["follow", "previous"] {
        if ctx.query.flag(flag)? {
            query += &format!("&{flag}=true");
        }
    }
    let (pod, container) = (ctx.query.get("pod"), ctx.query.get("container"));
    let pods = tree::pods(ctx, kind, namespace, name).await?;
    let mut sources = Vec::new();
    for found in pods.iter().filter(|found| pod.is_none_or(|wanted| wanted == name_of(found))) {
        let containers = list(&found["spec"]["containers"]).iter().filter_map(|one| one["name"].as_str());
        for one in containers.filter(|one| container.is_none_or(|wanted| wanted == *one)) {
            let namespace = namespace_of(found).unwrap_or_default();
            let path =
                format!("/api/v1/namespaces/{}/pods/{}/log", encode(namespace), encode(name_of(found)));
            let path = format!("{path}{query}&container={}", encode(one));
            sources.push(Source { pod: name_of(found).to_owned(), container: one.to_owned(), path });
        }
    }
    match sources.len() {
        0 => {
            let names: Vec<Value> = pods.iter().map(|pod| name_of(pod).into()).collect();
            let detail = format!(
                "no such pod or container in the tree of {name}; available pods: {}",
                Value::from(names)
            );
            Err(Problem::not_found(detail))
        }
        many if many > MOST => {
            let detail = format!("{many} containers are too many: specify a pod");
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "TooMany", detail))
        }
        _ => Ok(sources),
    }
}
