//! Lists: selectors, resourceVersion, pagination.

use std::sync::Arc;

use base64::{DecodeError, Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use steersman_api::{
    fields::FieldError,
    http::{Body, Output, json_response},
    selector::{FieldSelector, LabelSelector},
    status::{ApiError, ApiResult, Reason},
    store::{Entry, RevisionError, Snapshot},
};

use crate::{
    call::Call,
    convert,
    render::{self, ListMeta},
};

/// The selectors of a list or watch.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Filter {
    /// Parses the selectors of a request.
    pub(crate) fn of(call: &Call) -> ApiResult<Self> {
        let labels = LabelSelector::parse(&call.options.label_selector).map_err(ApiError::bad_request)?;
        let mut fields = FieldSelector::parse(&call.options.field_selector).map_err(ApiError::bad_request)?;
        if !fields.is_empty() {
            let known = call.resource.strategy.selectable_names(&call.resource.version);
            for field in fields.fields() {
                if field != "metadata.name"
                    && field != "metadata.namespace"
                    && !known.iter().any(|k| k == field)
                {
                    return Err(ApiError::bad_request(if known.is_empty() && !call.resource.custom {
                        format!(
                            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                            steersman_api::status::quote(field)
                        )
                    } else {
                        format!("field label not supported: {field}")
                    }));
                }
            }
            fields = fields.renamed(|name| call.resource.strategy.selected_as(name));
        }
        if !call.name.is_empty() {
            if let Some(other) = fields.exact_name()
                && other != call.name
            {
                return Err(ApiError::bad_request(
                    "both a name and a field selector with another name were given",
                ));
            }
            fields = fields.and_name(&call.name);
        }
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        self.labels.matches(entry.labels()) && self.fields.matches(entry)
    }
}

/// Returns the key prefix of the listed objects.
pub(crate) fn prefix(call: &Call) -> String {
    match call.scope() {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    }
}

struct Token {
    revision: Option<u64>,
    start: String,
}

impl Token {
    fn encode(&self) -> String {
        let revision = self.revision.map_or_else(|| json!(-1), |r| json!(r));
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start}).to_string())
    }

    fn decode(text: &str) -> ApiResult<Self> {
        let invalid = |why: &str| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|e| {
            let at = match e {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
            };
            invalid(&format!("illegal base64 data at input byte {at}"))
        })?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|e| invalid(&steersman_api::schema::syntax(&bytes, &e)))?;
        if value["v"] != "meta.k8s.io/v1" {
            let version = value["v"].as_str().unwrap_or_default();
            return Err(invalid(&format!("server does not recognize this encoded version {version}")));
        }
        let start = value["start"].as_str().filter(|s| !s.is_empty());
        let start = start.ok_or_else(|| invalid("encoded start key is empty"))?;
        Ok(Self { revision: value["rv"].as_u64(), start: start.to_owned() })
    }
}

/// Validates the resourceVersion parameters and returns the requested revision.
pub(crate) fn check_resource_version(call: &Call, get: bool) -> ApiResult<Option<u64>> {
    let text = call.options.resource_version.as_str();
    let revision = match text {
        "" => None,
        text => Some(text.parse::<u64>().map_err(|_| {
            let digits = text.bytes().all(|c| c.is_ascii_digit());
            let problem = if digits { "value out of range" } else { "invalid syntax" };
            let text = steersman_api::status::quote(text);
            let why = format!(
                "resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: {problem}"
            );
            if call.options.watch || get {
                ApiError::unforeseen(why)
            } else {
                ApiError::bad_request(format!("invalid resource version: {why}"))
            }
        })?),
    };
    let current = call.core.store.revision();
    if let Some(r) = revision
        && r > current
        && !call.options.watch
    {
        return Err(ApiError::too_large_resource_version(r, current));
    }
    if get {
        return Ok(revision);
    }
    if !call.options.watch {
        check_match(call)?;
    }
    Ok(revision)
}

fn check_match(call: &Call) -> ApiResult<()> {
    let o = &call.options;
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    if !o.resource_version_match.is_empty() {
        if o.resource_version.is_empty() && o.send_initial_events.is_none() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !o.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(o.resource_version_match.as_str(), "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(
                field,
                o.resource_version_match.as_str(),
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if o.resource_version_match == "Exact" && o.resource_version == "0" {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if o.send_initial_events.is_some() && !o.watch {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_kind("meta.k8s.io", "ListOptions", "", errors))
    }
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) meta: ListMeta,
}

/// The reasons a page cannot be returned.
pub(crate) enum PageError {
    /// The request is rejected.
    Refused(ApiError),
    /// The revision of the continue token is too old. Contains a token to continue without a revision.
    Expired { continue_token: String },
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

impl From<PageError> for ApiError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Refused(error) => error,
            PageError::Expired { continue_token } => {
                let mut error = Self::expired(CONTINUE_EXPIRED);
                error.uid = continue_token;
                error
            }
        }
    }
}

/// Reads a page of a list.
pub(crate) fn page(call: &Call) -> Result<Page, PageError> {
    let filter = Filter::of(call)?;
    let prefix = prefix(call);
    let asked = check_resource_version(call, false)?;
    let (store, storage, options) = (&call.core.store, &call.resource.storage, &call.options);
    let Snapshot { revision, entries } = if options.continue_token.is_empty() {
        let exact = options.resource_version_match == "Exact"
            || (options.resource_version_match.is_empty() && options.limit > 0);
        match asked {
            Some(r) if r > 0 && exact => {
                store.snapshot_at(storage, &prefix, None, r).map_err(|e| match e {
                    RevisionError::TooOld => ApiError::expired(format!(
                        "The resourceVersion for the provided list is too old: {r}"
                    )),
                    RevisionError::TooNew(current) => ApiError::too_large_resource_version(r, current),
                })?
            }
            _ => store.list(storage, &prefix, None),
        }
    } else {
        let token = Token::decode(&options.continue_token)?;
        if asked.is_some_and(|r| r > 0) {
            let why = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(why).into());
        }
        match token.revision {
            None => store.list(storage, &prefix, Some(&token.start)),
            Some(r) => store
                .snapshot_at(storage, &prefix, Some(&token.start), r)
                .map_err(|_| continue_expired(&token))?,
        }
    };
    let total = entries.len();
    // No pagination when a single object is requested by name, or when any version suffices (resourceVersion 0).
    let whatever = asked == Some(0) && options.continue_token.is_empty();
    let unlimited = options.limit == 0 || whatever || filter.fields.exact_name().is_some();
    let limit = if unlimited { usize::MAX } else { options.limit };
    let mut seen = 0;
    let mut chosen = Vec::new();
    for entry in entries {
        if chosen.len() == limit {
            break;
        }
        seen += 1;
        if filter.matches(&entry) {
            chosen.push(entry);
        }
    }
    let mut meta = ListMeta { revision, ..ListMeta::default() };
    if seen < total {
        let start = chosen.last().map(|e| e.key().to_owned()).unwrap_or_default();
        meta.continue_token = Token { revision: Some(revision), start }.encode();
        if filter.is_empty() {
            meta.remaining = Some(total - seen);
        }
    }
    Ok(Page { entries: chosen, meta })
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn continue_expired(token: &Token) -> PageError {
    PageError::Expired { continue_token: Token { revision: None, start: token.start.clone() }.encode() }
}

pub(super) async fn list(call: &Call) -> ApiResult<Response<Body>> {
    let page = match page(call) {
        Ok(page) => page,
        Err(PageError::Expired { continue_token }) => {
            let mut value = ApiError::expired(CONTINUE_EXPIRED).to_value();
            value["metadata"]["continue"] = continue_token.into();
            return Ok(json_response(StatusCode::GONE, Body::whole(value.to_string())));
        }
        Err(PageError::Refused(error)) => return Ok(render::error(&error)),
    };
    // Fail before reading any object, unless a webhook has to convert them first.
    if matches!(call.output, Output::Metadata(_)) && call.resource.strategy.converter().is_none() {
        return Err(not_one(call));
    }
    let bytes = match call.output {
        Output::Object if page.entries.iter().all(|e| call.resource.serves_bytes(e)) => {
            object_list(call, &page)
        }
        _ => {
            let served = served(call, &page).await?;
            let value = match call.output {
                Output::Object => render::list(call, served, &page.meta),
                Output::MetadataList(version) => render::partial_list(&served, &page.meta, version),
                Output::Metadata(_) => return Err(not_one(call)),
                Output::Table(version) => render::table(call, &served, &page.meta, version)?,
            };
            value.to_string().into_bytes()
        }
    };
    Ok(json_response(StatusCode::OK, Body::whole(bytes)))
}

/// Returns the error for a list requested in the form of a single object.
fn not_one(call: &Call) -> ApiError {
    let what = call.resource.internal_type(&call.resource.list_kind);
    ApiError::new(
        StatusCode::NOT_ACCEPTABLE,
        Reason::NotAcceptable,
        format!("you requested PartialObjectMetadata, but the requested object is a list ({what})"),
    )
}

/// Serializes a list from stored bytes.
fn object_list(call: &Call, page: &Page) -> Vec<u8> {
    let size: usize = page.entries.iter().map(|e| e.length() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    let head = json!({
        "kind": call.resource.list_kind,
        "apiVersion": call.resource.api_version(),
        "metadata": page.meta.of_list(call.resource.custom),
    })
    .to_string();
    out.extend_from_slice(head.trim_end_matches('}').as_bytes());
    // `trim_end_matches` also removed the closing brace of the metadata.
    out.extend_from_slice(b"},\"items\":[");
    for (index, entry) in page.entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        // Items of typed lists omit apiVersion and kind.
        if call.resource.custom { entry.write(&mut out) } else { entry.write_bare(&mut out) }
    }
    out.extend_from_slice(b"]}");
    out
}

async fn served(call: &Call, page: &Page) -> ApiResult<Vec<Value>> {
    let resource = &call.resource;
    let stored = page.entries.iter().map(|entry| resource.read(entry)).collect();
    convert::all(resource, stored, &resource.api_version()).await
}
