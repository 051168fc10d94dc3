//! User identities.

use std::collections::BTreeMap;

use crate::names;

/// Group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// User name of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The identity of a request: `user.Info`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name such as `system:serviceaccount:default:builder`.
    pub name: String,
    /// Unique id, or empty.
    pub uid: String,
    /// Groups such as `system:authenticated`.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the in-process administrator, a member of `system:masters`.
    #[must_use]
    pub fn admin() -> Self {
        Self::named("system:admin", ["system:masters"])
    }

    /// Creates an authenticated user; adds the group `system:authenticated`.
    #[must_use]
    pub fn named<'a>(name: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
        if !groups.iter().any(|g| g == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Creates the user of a service account.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = account_groups(namespace);
        Self::named(&account_user(namespace, name), groups.iter().map(String::as_str))
    }

    /// Returns the user of requests without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Whether the user is a member of a group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// Returns the user name of a service account.
pub fn account_user(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Returns the groups of a service account.
pub fn account_groups(namespace: &str) -> [String; 2] {
    ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Splits a service account's user name into namespace and name.
pub fn split_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (names::label(namespace).is_empty() && names::subdomain(name).is_empty()).then_some((namespace, name))
}
