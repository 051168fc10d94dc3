//! Parses file names: the step that a file belongs to, and its role.

/// The role of a step's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Objects to apply, or a `TestStep`.
    Apply,
    /// Objects that must match.
    Assert,
    /// Objects that must not match.
    Errors,
}

/// A parsed file name: `(<number>-)<name>(-<name>)((.gotmpl).yaml)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileName {
    pub(crate) role: Role,
    /// The leading number, which is the step's.
    pub(crate) index: Option<i64>,
    pub(crate) step_name: String,
    pub(crate) is_template: bool,
}

impl FileName {
    /// Parses a name without its directory; `None` if it does not have the form.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (stem, is_template) = match (name.strip_suffix(".gotmpl.yaml"), name.strip_suffix(".yaml")) {
            (Some(stem), _) => (stem, true),
            (None, Some(stem)) => (stem, false),
            (None, None) => (name, false),
        };
        if stem.contains('.') {
            return None;
        }
        let (index, rest) = numbered(stem).unwrap_or((None, stem));
        let (first, further) = rest.split_once('-').map_or((rest, None), |(first, rest)| (first, Some(rest)));
        if first.is_empty() || further == Some("") {
            return None;
        }
        let index = match index {
            None => None,
            Some(digits) => Some(i64::from(digits.parse::<i32>().ok()?)),
        };
        let role = match first.to_lowercase().as_str() {
            "assert" => Role::Assert,
            "errors" => Role::Errors,
            _ => Role::Apply,
        };
        let step_name = if role == Role::Apply { rest.to_owned() } else { String::new() };
        Some(Self { role, index, step_name, is_template })
    }
}

/// Splits off the digits before the first dash, if a name follows.
fn numbered(stem: &str) -> Option<(Option<&str>, &str)> {
    let (digits, rest) = stem.split_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !rest.is_empty() && !rest.starts_with('-')).then_some((Some(digits), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_step_and_role() {
        let parsed = |name: &str| {
            FileName::parse(name).map(|file| (file.role, file.index, file.step_name, file.is_template))
        };
        let apply = |index, name: &str, template| Some((Role::Apply, index, name.to_owned(), template));
        assert_eq!(parsed("00-install.yaml"), apply(Some(0), "install", false));
        assert_eq!(parsed("7-a-b.gotmpl.yaml"), apply(Some(7), "a-b", true));
        assert_eq!(parsed("02-install"), apply(Some(2), "install", false));
        assert_eq!(parsed("00-asserts.yaml"), apply(Some(0), "asserts", false));
        assert_eq!(parsed("install.yaml"), apply(None, "install", false));
        assert_eq!(parsed("00-01"), apply(Some(0), "01", false));
        assert_eq!(parsed("00--foo.yaml"), apply(None, "00--foo", false));
        assert_eq!(parsed("00-assert.yaml"), Some((Role::Assert, Some(0), String::new(), false)));
        assert_eq!(parsed("00-Assert-more.yaml"), Some((Role::Assert, Some(0), String::new(), false)));
        assert_eq!(parsed("10-errors.gotmpl.yaml"), Some((Role::Errors, Some(10), String::new(), true)));
        for wrong in
            ["", ".yaml", "00-", "00-a.yml", "README.md", "a.b.yaml", "-a", "99999999999-a.yaml", "a.gotmpl"]
        {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
