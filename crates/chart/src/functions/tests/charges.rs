//! Charges of function calls: memory of their results, and work out of proportion to their arguments.

use std::sync::Arc;

use serde_json::json;
use steersman_gotemplate::{Budget, Limits, Set, Value};

use super::super::{MAP_ENTRY, TEXT, map_memory};
use super::{Seeded, TestHost, functions};
use crate::values::Data;

/// Memory of a list element.
const ELEMENT: usize = size_of::<Value>();

fn data() -> Value {
    let data = json!({
        "t": "a,b,c",
        "long": "x".repeat(6400),
        "words": ["b", "a", "b"],
        "numbers": [1, 2, 1, 3],
        "map": {"k": "v", "l": [1, "ab"]},
    });
    Data::from(data).to_value()
}

/// Runs a call within limits, without printing its result.
fn run(call: &str, limits: Limits) -> (Result<(), String>, Arc<Budget>) {
    let mut set = Set::new(Arc::new(functions()));
    set.parse("t", format!("{{{{ $_ := {call} }}}}").as_bytes()).unwrap();
    let budget = Arc::new(Budget::new(limits));
    let set = set.within(Arc::clone(&budget));
    let done = set.execute(&mut TestHost(Seeded::new(1)), "t", data(), &mut Vec::new());
    (done.map_err(|error| error.to_string()), budget)
}

/// Asserts the cost of a call beyond that of any call, and the memory charged.
#[track_caller]
fn charges(call: &str, cost: usize, memory: usize) {
    let (done, budget) = run(call, Limits::default());
    done.unwrap();
    // A statement and the call itself.
    assert_eq!((budget.cost() - 2, budget.memory()), (cost, memory), "{call}");
}

/// Asserts the minimum memory that a call needs.
#[track_caller]
fn needs(call: &str, memory: usize) {
    let fits = |memory| run(call, Limits { memory, ..Limits::default() }).0.is_ok();
    assert!(fits(memory), "{call} does not get by with {memory}");
    assert!(!fits(memory - 1), "{call} gets by with less than {memory}");
}

#[test]
fn texts_that_are_made() {
    charges("repeat 10 `ab`", 0, 20);
    charges("upper .t", 0, 5);
    charges("trim .t", 0, 5);
    charges("trunc 3 .t", 0, 3);
    charges("trunc 9 .t", 0, 0);
    charges("abbrev 4 .t", 0, 4);
    charges("substr 1 3 .t", 0, 2);
    charges("indent 2 \"a\\nb\"", 0, 7);
    charges("nindent 2 `a`", 0, 4);
    charges("replace `,` `--` .t", 0, 7);
    charges("quote .t 1", 0, 1 + "\"a,b,c\" \"1\"".len());
    charges("squote .t", 0, 7);
    charges("cat .t .t", 0, 11);
    charges("toString 12345", 0, 5);
    charges("toString .t", 0, 0);
    charges("join `-` .words", 3, 5);
    charges("b64enc .t", 0, 8);
    charges("wrap 2 `aa bb`", 0, 5);
}

#[test]
fn texts_are_refused_where_they_would_not_fit() {
    needs("repeat 10 `ab`", 20);
    needs("indent 2 \"a\\nb\"", 7);
    needs("nindent 3 \"a\\nb\"", 10);
    needs("replace `,` `--` .t", 9);
    needs("replace `` `-` `abc`", 7);
    needs("join `--` .words", 9);
    needs("concat .words .words", 6 * ELEMENT);
    needs("until 10", 10 * ELEMENT);
    needs("untilStep 0 10 3", 4 * ELEMENT);
    needs("seq 3", 6);
    needs("randAlpha 10", 20);
    needs("randBytes 10", 20);
    needs("wrap 1 `ab`", 4);
}

#[test]
fn parts_of_texts() {
    let split = |parts: usize, length: usize| parts * TEXT + length;
    charges("splitList `,` .t", 3, split(3, 5) + 3 * ELEMENT);
    charges("splitList `,` `abc`", 1, split(1, 3) + ELEMENT);
    charges("splitList `` `abc`", 3, split(3, 3) + 3 * ELEMENT);
    charges("split `,` .t", 3, split(3, 5) + map_memory(3) + 3 * TEXT);
    charges("splitn `,` 2 .t", 2, split(2, 5) + map_memory(2) + 2 * TEXT);
    charges("splitn `,` 9 .t", 3, split(3, 5) + map_memory(3) + 3 * TEXT);
    charges("splitn `` 2 `abc`", 2, split(2, 3) + map_memory(2) + 2 * TEXT);
    charges("splitn `,` 0 .t", 0, map_memory(0));
    charges("toStrings .words", 3, 3 * ELEMENT);
    charges("toStrings .numbers", 4, 4 + 4 * ELEMENT);
    charges("sortAlpha .words", 3 + 8 * 3, 3 * ELEMENT);
    charges("sortAlpha (list .long)", 1 + 8 + 6400 / 32 + 1 + 6400 / 64, 2 * ELEMENT);
}

#[test]
fn long_texts_are_read_at_a_cost() {
    charges("hasPrefix `x` .long", 100, 0);
    charges("fromYaml `a: b`", 2, map_memory(1) + TEXT + TEXT + 1);
    charges("fromJson `{\"k\":\"ab\"}`", 5, map_memory(1) + TEXT + TEXT + 2);
    charges("fromJsonArray `[\"ab\",1]`", 4, 4 * ELEMENT + TEXT + 2 + 2 * ELEMENT);
    charges("fromYamlArray `[ab, 1]`", 3, TEXT + 2 + 2 * ELEMENT);
    charges("mustFromJson `[[1]]`", 2, 3 * ELEMENT + 3 * ELEMENT);
    charges("fromToml `a = \"bc\"`", 4, map_memory(1) + TEXT + 1 + TEXT + 2);
    charges("shuffle `abcd`", 32, 4);
}

#[test]
fn lists_and_maps_that_are_made() {
    charges("list 1 2 3", 0, 3 * ELEMENT);
    charges("rest .words", 0, 2 * ELEMENT);
    charges("append .words 1", 0, 4 * ELEMENT);
    charges("slice .words 1", 0, 2 * ELEMENT);
    charges("chunk 2 .numbers", 0, 4 * ELEMENT + 2 * 2 * TEXT + 2 * ELEMENT);
    charges("chunk 3 .numbers", 0, 4 * ELEMENT + 2 * 2 * TEXT + 2 * ELEMENT);
    charges("uniq .words", 0, 2 * ELEMENT);
    charges("uniq .numbers", 1 + 1 + 2, 3 * ELEMENT);
    charges("has 3 .numbers", 4, 0);
    charges("has (index .numbers 0) .numbers", 1 + 1, 0);
    charges("without .numbers (index .numbers 0) (index .numbers 1)", 2 + 1 + 2 + 1 + 2, ELEMENT);
    charges("dict `a` 1 `b` 2", 0, map_memory(2));
    charges("dict `a` 1 `b`", 0, map_memory(2));
    charges("dict 12 1", 0, map_memory(1) + 2);
    charges("set .map `z` 1", 0, MAP_ENTRY);
    charges("keys .map .map", 0, 4 * ELEMENT);
    charges("values .map", 0, 2 * ELEMENT);
    charges("pick .map `k`", 0, map_memory(1));
    charges("omit .map `k`", 2, map_memory(2));
    charges("omit .map `1` `2` `3` `4` `5` `6` `7` `8`", 2 * 2, map_memory(2));
    charges("merge .map (dict `z` 1)", 4 + 1, map_memory(1) + MAP_ENTRY);
    charges("deepCopy .map", 0, map_memory(2) + 4 * ELEMENT);
    charges("deepEqual .map .map", 0, 0);
    charges("deepEqual .numbers (list 1 2 1 3)", 1 + 1, 4 * ELEMENT);
}

#[test]
fn a_map_takes_its_tree_and_its_entries() {
    assert_eq!(map_memory(0), MAP_ENTRY);
    assert_eq!(map_memory(1), 512 + MAP_ENTRY);
    assert_eq!(map_memory(10), 512 + 10 * MAP_ENTRY);
    assert_eq!(map_memory(usize::MAX), usize::MAX);
}
