//! Puts many mutants of cargo-mutants into one build, each behind a switch that is set at run time.
//!
//!   mutant-switch all LIST TREE ROOTS [LEFT_OUT...]   apply all mutants except those numbers
//!   mutant-switch one LIST TREE NUMBER                apply one mutant without a switch, as cargo-mutants does
//!
//! LIST is the output of `cargo mutants --list --json`, TREE the directory that its files are in. The first mutant of the
//! list has the number 1 and is active while the environment variable `STEERSMAN_MUTANT` is 1. ROOTS are the root files of
//! crates (`lib.rs`, `main.rs`), separated by commas: the module with the switch is added to them. The files are changed in
//! place. A table is printed to stdout: which bytes of which file now belong to which mutant, and which mutants could not be
//! put behind a switch, with the reason.

mod find;
#[cfg(test)]
mod tests;
mod write;

use std::{collections::BTreeMap, env, error::Error, fs, path::Path};

use serde::{Deserialize, Serialize};

/// A mutant, as cargo-mutants describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) file: String,
    pub(crate) genre: String,
    pub(crate) replacement: String,
    pub(crate) span: Span,
}

/// Lines and columns start at 1; columns count characters.
#[derive(Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// What was done with the mutants.
#[derive(Debug, Default, Serialize)]
struct Table {
    switched: Vec<Switched>,
    not_switchable: Vec<NotSwitchable>,
}

#[derive(Debug, Serialize)]
struct Switched {
    number: usize,
    file: String,
    #[serde(flatten)]
    bytes: write::Bytes,
}

#[derive(Debug, Serialize)]
struct NotSwitchable {
    number: usize,
    reason: String,
}

/// The switch module. It uses only std, so that it compiles in any crate. It is called in the hottest loops: after the first
/// read it is a comparison.
const SWITCH: &str = "
#[doc(hidden)]
#[allow(warnings, clippy::all)]
pub(crate) mod mutant_switch {
    static ON: ::std::sync::OnceLock<usize> = ::std::sync::OnceLock::new();

    #[inline]
    pub(crate) fn is_on(number: usize) -> bool {
        number == *ON.get_or_init(|| {
            ::std::env::var(\"STEERSMAN_MUTANT\").ok().and_then(|on| on.parse().ok()).unwrap_or_default()
        })
    }
}
";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["all", list, tree, roots, ref left_out @ ..] => {
            let left_out = left_out.iter().map(|number| number.parse()).collect::<Result<Vec<_>, _>>()?;
            let table = switch_all(&read(list)?, Path::new(tree), roots, &left_out)?;
            println!("{}", serde_json::to_string(&table)?);
            Ok(())
        }
        ["one", list, tree, number] => {
            let number: usize = number.parse()?;
            let mutants = read(list)?;
            let mutant =
                number.checked_sub(1).and_then(|at| mutants.get(at)).ok_or("there is no such number")?;
            let file = Path::new(tree).join(&mutant.file);
            let source = fs::read_to_string(&file)?;
            Ok(fs::write(&file, write::plain(&source, mutant).ok_or("the place is not in the file")?)?)
        }
        _ => Err("usage: mutant-switch all LIST TREE ROOTS [LEFT_OUT...] | one LIST TREE NUMBER".into()),
    }
}

fn read(list: &str) -> Result<Vec<Mutant>, Box<dyn Error>> {
    Ok(serde_json::from_str(&fs::read_to_string(list)?)?)
}

fn switch_all(
    mutants: &[Mutant],
    tree: &Path,
    roots: &str,
    left_out: &[usize],
) -> Result<Table, Box<dyn Error>> {
    let mut files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in (1..).zip(mutants).filter(|(number, _)| !left_out.contains(number)) {
        files.entry(&mutant.file).or_default().push((number, mutant));
    }
    let mut table = Table::default();
    for (file, mutants) in files {
        let path = tree.join(file);
        let source = fs::read_to_string(&path)?;
        let found = find::places(&source, &mutants).map_err(|e| format!("{file}: {e}"))?;
        for (number, reason) in found.not_switchable {
            table.not_switchable.push(NotSwitchable { number, reason: reason.to_owned() });
        }
        let (text, bytes) = write::switched(&source, &found.places);
        for (number, bytes) in bytes {
            table.switched.push(Switched { number, file: file.to_owned(), bytes });
        }
        fs::write(&path, text)?;
    }
    for root in roots.split(',') {
        let path = tree.join(root);
        fs::write(&path, fs::read_to_string(&path)? + SWITCH)?;
    }
    Ok(table)
}
