//! Generates random expressions, most of them valid.

use fastrand::Rng;

use crate::grammar::{Kind, VALUES, kinds};

/// Number of expressions generated per form, before the random ones.
const OF_EACH_FORM: usize = 12;

pub(crate) struct Maker {
    rng: Rng,
}

fn kind(name: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.name == name)
}

/// Splits a form into literal text and names of kinds.
fn parts(form: &str) -> Vec<(&str, Option<&str>)> {
    let is_kind = |name: &str| name == "any" || kind(name).is_some();
    let mut out = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(open) = form[at..].find('{').map(|open| at + open) {
        let name = form[open + 1..].split_once('}').map(|(name, _)| name).filter(|name| is_kind(name));
        at = open + 1;
        if let Some(name) = name {
            out.push((&form[start..open], Some(name)));
            at += name.len() + 1;
            start = at;
        }
    }
    out.push((&form[start..], None));
    out
}

impl Maker {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed) }
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.rng.usize(..from.len())]
    }

    /// An expression of any kind, of some depth.
    pub(crate) fn random(&mut self) -> String {
        let depth = 1 + self.rng.usize(..3);
        self.expression("any", depth)
    }

    /// Returns every leaf, and every form several times; forms with a single placeholder with all leaves.
    pub(crate) fn each() -> Vec<String> {
        let mut maker = Self::new(0);
        let mut out = Vec::new();
        for kind in kinds() {
            if VALUES.contains(&kind.name) {
                out.extend(kind.leaves.iter().map(|leaf| (*leaf).to_owned()));
            }
            for form in kind.forms {
                let parts = parts(form);
                if let [(before, Some(name)), (after, None)] = parts.as_slice()
                    && let Some(part) = self::kind(name)
                {
                    out.extend(part.leaves.iter().map(|leaf| format!("{before}{leaf}{after}")));
                }
                out.extend((0..OF_EACH_FORM).map(|round| maker.filled(&parts, round / 8)));
            }
        }
        out
    }

    fn expression(&mut self, name: &str, depth: usize) -> String {
        let name = if name == "any" { self.pick(VALUES) } else { name };
        let Some(kind) = kind(name) else { return name.to_owned() };
        if depth == 0 || kind.forms.is_empty() || self.rng.u8(..8) == 0 {
            return self.pick(kind.leaves).to_owned();
        }
        let form = self.pick(kind.forms);
        let made = self.filled(&parts(form), depth - 1);
        // Sometimes without parentheses, to test operator precedence.
        let is_operator = form.starts_with(['{', '-', '!', '(']) && form.contains(['{', ' ']);
        if is_operator && self.rng.u8(..4) > 0 { format!("({made})") } else { made }
    }

    fn filled(&mut self, parts: &[(&str, Option<&str>)], depth: usize) -> String {
        let mut out = String::new();
        for (text, name) in parts {
            out.push_str(text);
            if let Some(name) = name {
                out.push_str(&self.expression(name, depth));
            }
        }
        out
    }
}
