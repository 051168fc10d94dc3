//! Limits the size of import cycles between files of a crate.
//!
//! Files in a cycle can only be read together, so cycles must stay small. Imports are followed through re-exports to where an
//! item is defined.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::markdown::root;

/// Maximum number of files in a cycle.
const LIMIT: usize = 15;

/// The path of a module; empty for lib.rs.
type Module = Vec<String>;

#[test]
fn no_circle_of_imports_is_large() {
    let mut largest = (0, String::new());
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let sources = entry.unwrap().path().join("src");
        if !sources.is_dir() {
            continue;
        }
        let crates = Imports::read(&sources);
        for circle in circles(&crates.edges()) {
            let names: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            let name = format!("{}: {}", sources.display(), names.join(", "));
            assert!(circle.len() <= LIMIT, "{} files import each other in {name}", circle.len());
            largest = largest.max((circle.len(), name));
        }
    }
    println!("the largest circle has {} files: {}", largest.0, largest.1);
}

#[test]
fn imports_are_followed_to_where_an_item_is_defined() {
    let of = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| {
            let module: Module = path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            (module, (*text).to_owned())
        });
        let edges = Imports::new(files.collect()).edges();
        let mut found: Vec<String> = edges
            .iter()
            .flat_map(|(from, all)| all.iter().map(move |to| format!("{} {}", from.join("/"), to.join("/"))))
            .collect();
        found.sort();
        found
    };
    let state = ("a/state", "pub struct State;");
    let parent = ("a", "mod state; pub(in crate::x) use state::{self, State as Kept};");
    let user = (
        "b",
        "use crate::{a::{Kept, other}, c}; fn f() { \"crate::d::x\"; '\"'; super::d::g() } // crate::e",
    );
    let more = [("", ""), ("c", ""), ("d", ""), ("e", "#[cfg(test)]\nmod tests { use crate::b; }")];
    let found = of(&[&[state, parent, user], &more[..]].concat());
    assert_eq!(found, ["b a", "b a/state", "b c", "b d"]);
    let edges = Imports::new(BTreeMap::from([
        (vec!["a".to_owned()], "use crate::b::x;".to_owned()),
        (vec!["b".to_owned()], "use super::c;".to_owned()),
        (vec!["c".to_owned()], "use crate::a;".to_owned()),
        (vec!["d".to_owned()], "use crate::a;".to_owned()),
    ]))
    .edges();
    let sizes: Vec<usize> = circles(&edges).iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 1]);
}

/// A path used in a file, and whether it is re-exported from there under its last segment.
struct Mention {
    path: Vec<String>,
    name: String,
    exports: bool,
}

struct Imports {
    mentions: BTreeMap<Module, Vec<Mention>>,
}

impl Imports {
    fn read(sources: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut directories = vec![sources.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let relative = path.strip_prefix(sources).unwrap().with_extension("");
                let mut module: Module =
                    relative.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
                if module.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
                    module.pop();
                }
                let is_source = path.extension().is_some_and(|extension| extension == "rs");
                if is_source && !module.iter().any(|name| name == "tests") {
                    files.insert(module, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        Self::new(files)
    }

    fn new(files: BTreeMap<Module, String>) -> Self {
        Self { mentions: files.into_iter().map(|(module, text)| (module, mentions(&text))).collect() }
    }

    /// Returns the modules that each module depends on.
    fn edges(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let known = |module: &Module, mention: &Mention| {
            let found = self.resolve(module, &mention.path, 0)?;
            (!found.is_empty() && found != *module).then_some(found)
        };
        let of = |(module, mentions): (&Module, &Vec<Mention>)| {
            let private = mentions.iter().filter(|mention| !mention.exports);
            (module.clone(), private.filter_map(|mention| known(module, mention)).collect())
        };
        self.mentions.iter().filter(|(module, _)| !module.is_empty()).map(of).collect()
    }

    /// Resolves a path in a module to the module that defines the item.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (mut module, mut rest) = match path.first()?.as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => {
                let above = path.iter().take_while(|name| *name == "super").count();
                (from[..from.len().checked_sub(above)?].to_vec(), &path[above..])
            }
            name => {
                let child = [from.as_slice(), &[name.to_owned()]].concat();
                (self.mentions.contains_key(&child).then(|| from.clone())?, path)
            }
        };
        while let Some((name, after)) = rest.split_first() {
            let child = [module.as_slice(), std::slice::from_ref(name)].concat();
            if !self.mentions.contains_key(&child) {
                break;
            }
            (module, rest) = (child, after);
        }
        let exported = rest.first().and_then(|name| {
            self.mentions[&module].iter().find(|mention| mention.exports && mention.name == *name)
        });
        match exported.filter(|_| depth < 8) {
            Some(mention) => self.resolve(&module, &mention.path, depth + 1).or(Some(module)),
            None => Some(module),
        }
    }
}

/// Returns the tokens of a source file, without comments, string literals and unit tests.
fn tokens(text: &str) -> Vec<String> {
    let is_test = |at: &usize| {
        let mut after = text[*at..].lines().skip_while(|line| line.starts_with("#["));
        after.next().is_some_and(|line| line.starts_with("mod tests {"))
    };
    let tests = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at).find(is_test);
    let text = &text[..tests.unwrap_or(text.len())];
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if first == '\'' && (rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'')) {
            // The quote that ends it is not the first character in it.
            let content = rest[1..].chars().take(1 + usize::from(rest[1..].starts_with('\\')));
            let after = 1 + content.map(char::len_utf8).sum::<usize>();
            rest[after..].find('\'').map_or(rest.len(), |end| after + end + 1)
        } else if is_name(first) {
            let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(rest[..length].to_owned());
            }
            length
        };
        rest = &rest[length..];
    }
    tokens
}

/// Returns the paths in a source file, in `use` declarations and inline.
fn mentions(text: &str) -> Vec<Mention> {
    let tokens = tokens(text);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        // `pub(in crate::x)` imports nothing.
        if tokens[at] == "pub" && tokens.get(at + 1).is_some_and(|next| next == "(") {
            at += tokens[at..].iter().position(|token| token == ")").unwrap_or(0) + 1;
            if tokens.get(at).is_some_and(|next| next == "use") {
                at = declaration(&tokens, at + 1, &[], true, &mut found);
            }
            continue;
        }
        // Not the lifetimes that a type captures: `use<>`.
        if tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<") {
            let exports = at > 0 && tokens[at - 1] == "pub";
            at = declaration(&tokens, at + 1, &[], exports, &mut found);
            continue;
        }
        let mut path = Vec::new();
        let mut end = at;
        while tokens[end].chars().all(|c| c.is_alphanumeric() || c == '_') {
            path.push(tokens[end].clone());
            if tokens.get(end + 1).is_none_or(|next| next != "::") || end + 2 >= tokens.len() {
                break;
            }
            end += 2;
        }
        if path.len() > 1 {
            let name = path.last().cloned().unwrap_or_default();
            found.push(Mention { path, name, exports: false });
        }
        at = end + 1;
    }
    found
}

/// Parses one tree of a `use` declaration, and returns the position after it.
fn declaration(
    tokens: &[String],
    mut at: usize,
    prefix: &[String],
    exports: bool,
    found: &mut Vec<Mention>,
) -> usize {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = declaration(tokens, at, &path, exports, found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                return at + 1;
            }
            "," | "}" | ";" => break,
            "::" => {}
            "as" => {
                at += 1;
                name = tokens.get(at).cloned();
            }
            "self" if !path.is_empty() => {}
            part => path.push(part.to_owned()),
        }
        at += 1;
    }
    let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
    found.push(Mention { path, name, exports });
    at
}

/// Returns the cycles (strongly connected components) of a graph, largest first.
fn circles(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = edges
        .keys()
        .map(|start| {
            let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
            while let Some(module) = todo.pop() {
                let new = edges.get(module).into_iter().flatten().filter(|next| seen.insert(*next));
                todo.extend(new.collect::<Vec<_>>());
            }
            (start, seen)
        })
        .collect();
    let mut circles: Vec<Vec<Module>> = Vec::new();
    for module in edges.keys().filter(|module| edges.contains_key(*module)) {
        let leads = |from: &Module, to: &Module| reach.get(from).is_some_and(|seen| seen.contains(to));
        match circles.iter_mut().find(|circle| leads(&circle[0], module) && leads(module, &circle[0])) {
            Some(circle) => circle.push(module.clone()),
            None => circles.push(vec![module.clone()]),
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}
