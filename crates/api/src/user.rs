//! Users, as authentication finds them and objects record them.

use std::collections::BTreeMap;

use crate::names;

/// Group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of all requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The person or program behind a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name such as `system:serviceaccount:default:builder`.
    pub name: String,
    /// Unique id, possibly empty.
    pub uid: String,
    /// Groups such as `system:authenticated`.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The in-process administrator: may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::named("system:admin", ["system:masters"])
    }

    /// An authenticated user with a name and groups; `system:authenticated` is added.
    #[must_use]
    pub fn named<'a>(name: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
        if !groups.iter().any(|g| g == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// A service account, as its tokens name it.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = account_groups(namespace);
        Self::named(&account_user(namespace, name), groups.iter().map(String::as_str))
    }

    /// The user of requests without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Whether the user belongs to a group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// The user name of a service account.
pub fn account_user(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of a service account.
pub fn account_groups(namespace: &str) -> [String; 2] {
    ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Namespace and name of a service account, from its user name.
pub fn split_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (names::label(namespace).is_empty() && names::subdomain(name).is_empty()).then_some((namespace, name))
}
