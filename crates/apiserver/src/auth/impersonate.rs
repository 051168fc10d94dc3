//! Impersonation.
//!
//! The constrained modes are tried first: they require the right to impersonate this kind of user and the right to
//! perform the action on their behalf. The legacy mode, one right for all actions, is tried last. The first denial is
//! the one reported.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use steersman_api::{
    names,
    status::{ApiError, ApiResult, quote},
};

use super::{
    ANONYMOUS, AUTHENTICATED, Attributes, Decision, UNAUTHENTICATED, User, account_groups, decide::refuse,
    rbac::MASTERS, split_account,
};
use crate::core::Core;

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
/// The key of the node name in a service account token's extra attributes.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// From this number of checks on, a single check for all is tried first.
const MANY: usize = 4;

/// Returns the effective user: the one in the impersonation headers, if present and allowed.
pub(crate) fn impersonate(
    core: &Core,
    user: User,
    headers: &HeaderMap,
    asked: &Attributes<'_>,
) -> ApiResult<User> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(user);
    }
    let Some(wanted) = wanted(headers)? else { return Ok(user) };
    let mut first = None;
    for mode in MODES {
        if !mode.fits(&wanted, &user) {
            continue;
        }
        match mode.check(core, &user, &wanted, asked) {
            Ok(impersonated) => return Ok(impersonated),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(ApiError::unauthorized))
}

/// Parses the impersonation headers.
fn wanted(headers: &HeaderMap) -> ApiResult<Option<User>> {
    let texts =
        |name: &str| headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    let first = |name: &str| texts(name).next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().extend(texts(name.as_str()));
        }
    }
    let wanted = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: texts("impersonate-group").collect(),
        extra,
    };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == User::default() {
        return Ok(None);
    }
    let list = |items: &[String]| {
        let quoted: Vec<String> = items.iter().map(|item| quote(item)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if wanted.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&wanted.groups) };
    let pairs: Vec<String> = wanted.extra.iter().map(|(k, v)| format!("{}:{}", quote(k), list(v))).collect();
    let extra = if pairs.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", pairs.join(", ")) };
    Err(ApiError::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:map[string][]string{extra}}} without impersonating a user name",
        quote(&wanted.uid)
    )))
}

/// An impersonation mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account impersonates the node it runs on.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    ServiceAccount,
    /// Any other user.
    UserInfo,
    /// Unconstrained: any user, for any request.
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn constrained(self) -> bool {
        self != Self::Legacy
    }

    /// Whether this mode applies to the wanted user.
    fn fits(self, wanted: &User, requestor: &User) -> bool {
        let nothing_else = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        let account = split_account(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let own = requestor.extra.get(NODE_NAME).and_then(|names| names.first());
                nothing_else
                    && split_account(&requestor.name).is_some()
                    && node.is_some_and(|node| own.is_some_and(|own| own == node))
            }
            Self::ArbitraryNode => nothing_else && node.is_some(),
            Self::ServiceAccount => nothing_else && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    fn check(self, core: &Core, requestor: &User, wanted: &User, asked: &Attributes<'_>) -> ApiResult<User> {
        let verb =
            if self.constrained() { format!("impersonate:{}", self.name()) } else { "impersonate".into() };
        if self.constrained() {
            let on = format!("impersonate-on:{}:{}", self.name(), asked.verb);
            allow(core, requestor, &Attributes { verb: &on, ..asked.clone() })?;
        }
        let of = |group, resource, name| Attributes {
            verb: &verb,
            group,
            version: "v1",
            resource,
            name,
            ..Attributes::default()
        };
        let own_group = if self.constrained() { AUTHENTICATION } else { "" };
        let mut actual = wanted.clone();
        let mut who = of(own_group, "users", wanted.name.as_str());
        if self.constrained()
            && let Some(node) = node_name(&wanted.name)
        {
            let name = if self == Self::AssociatedNode { "*" } else { node };
            who = of(own_group, "nodes", name);
            actual.groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, name)) = split_account(&wanted.name) {
            who = Attributes { namespace, ..of(own_group, "serviceaccounts", name) };
            if wanted.groups.is_empty() {
                actual.groups = account_groups(namespace).into();
            }
        }
        allow(core, requestor, &who)?;
        if !wanted.uid.is_empty() {
            allow(core, requestor, &of(AUTHENTICATION, "uids", &wanted.uid))?;
        }
        self.check_groups(core, requestor, wanted, &of(own_group, "groups", ""))?;
        self.check_extra(core, requestor, wanted, &of(AUTHENTICATION, "userextras", ""))?;
        let ensure = |groups: &mut Vec<String>, group: &str| {
            if !groups.iter().any(|g| g == group) {
                groups.push(group.to_owned());
            }
        };
        if actual.name == ANONYMOUS {
            ensure(&mut actual.groups, UNAUTHENTICATED);
        } else if !actual.is_in(UNAUTHENTICATED) {
            ensure(&mut actual.groups, AUTHENTICATED);
        }
        Ok(actual)
    }

    fn check_groups(
        self,
        core: &Core,
        requestor: &User,
        wanted: &User,
        of: &Attributes<'_>,
    ) -> ApiResult<()> {
        if self.constrained() {
            if wanted.groups.iter().any(String::is_empty) {
                return Err(refuse(requestor, of, "impersonating the empty string group is not allowed"));
            }
            if wanted.is_in(MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(refuse(requestor, &Attributes { name: MASTERS, ..of.clone() }, why));
            }
            let all = Attributes { name: "*", ..of.clone() };
            if wanted.groups.len() >= MANY && allow(core, requestor, &all).is_ok() {
                return Ok(());
            }
        }
        wanted
            .groups
            .iter()
            .try_for_each(|group| allow(core, requestor, &Attributes { name: group, ..of.clone() }))
    }

    fn check_extra(self, core: &Core, requestor: &User, wanted: &User, of: &Attributes<'_>) -> ApiResult<()> {
        if self.constrained() {
            for (key, values) in &wanted.extra {
                if let Some(why) = odd_extra(key, values) {
                    return Err(refuse(requestor, of, &why));
                }
            }
            let all = Attributes { subresource: "*", name: "*", ..of.clone() };
            let count: usize = wanted.extra.values().map(Vec::len).sum();
            if count >= MANY && allow(core, requestor, &all).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                allow(core, requestor, &Attributes { subresource: key, name: value, ..of.clone() })?;
            }
        }
        Ok(())
    }
}

/// Returns why the constrained modes reject an extra attribute, if they do.
fn odd_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".into());
    }
    if let Some(why) = not_domain_prefixed(key) {
        return Some(format!("impersonating an invalid key in extra is not allowed: extra.key: {why}"));
    }
    if values.iter().any(String::is_empty) {
        return Some("impersonating the empty string value in extra is not allowed".into());
    }
    None
}

/// Checks that a key is a domain and a path.
fn not_domain_prefixed(key: &str) -> Option<String> {
    let invalid = |why: &str| Some(format!("Invalid value: {}: {why}", quote(key)));
    let Some((domain, path)) = key.split_once('/').filter(|(_, path)| !path.is_empty()) else {
        return invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    if let Some(why) = names::subdomain(domain).first() {
        return Some(format!("Invalid value: {}: {why}", quote(domain)));
    }
    let sound = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !path.chars().all(sound) {
        return invalid("Invalid path");
    }
    None
}

fn node_name(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE_PREFIX)?;
    names::subdomain(name).is_empty().then_some(name)
}

/// Checks a right without recording it: several modes are tried, and one suffices.
fn allow(core: &Core, requestor: &User, asked: &Attributes<'_>) -> ApiResult<()> {
    match core.authorizer.authorize(requestor, asked) {
        Decision::Allow => Ok(()),
        Decision::Deny(reason) => Err(refuse(requestor, asked, &reason)),
    }
}
