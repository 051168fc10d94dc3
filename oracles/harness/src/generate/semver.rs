//! Versions and constraints.

use serde_json::{Value as Json, json};

use super::Gen;

/// Generates a version, mostly a valid one, of any length.
pub fn version(g: &mut Gen) -> String {
    let mut out = g.pick(&["", "", "", "v", "V", " ", "="]).to_owned();
    if g.chance(80) {
        out.clear();
    }
    let parts = *g.one(&[3, 3, 3, 3, 2, 1, 4, 0]);
    for i in 0..parts {
        if i > 0 {
            out.push('.');
        }
        out += number(g);
    }
    suffix(g, &mut out);
    if g.chance(4) {
        g.damage(&out, &["-", "+", ".", "0", "a", " ", "é", "18446744073709551616"])
    } else {
        out
    }
}

fn number(g: &mut Gen) -> &'static str {
    g.mostly(
        &["0", "1", "2", "3", "1", "2", "10", "20"],
        3,
        &["01", "00", "007", "4294967296", "18446744073709551615"],
    )
}

fn suffix(g: &mut Gen, out: &mut String) {
    if g.chance(25) {
        out.push('-');
        *out += &g.join(1, 3, ".", |g| {
            g.mostly(&["alpha", "beta", "rc1", "1", "2", "10", "x-y", "0", "a1"], 3, &["", "01"]).to_owned()
        });
    }
    if g.chance(15) {
        out.push('+');
        *out += g.pick(&["b1", "build.5", "001", "a-b", ""]);
    }
}

/// Generates a constraint: comparisons joined by commas, spaces and `
///
/// `, hyphen ranges, wildcards.
pub fn constraint(g: &mut Gen) -> String {
    let text = g.join(1, 2, " || ", |g| {
        if g.chance(10) {
            let dash = g.pick(&[" - ", " - ", "-", " -"]);
            return version(g) + dash + &version(g);
        }
        let separator = g.pick(&[",", ", ", " ", "  "]);
        g.join(1, 2, separator, comparison)
    });
    if g.chance(6) {
        g.damage(&text, &["|", "||", ",", ">", "~", "^", "*", "x", " ", "!", "="])
    } else {
        text
    }
}

fn comparison(g: &mut Gen) -> String {
    let operator = g.mostly(
        &["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^", "^", "~", ">="],
        2,
        &["~=", "=="],
    );
    let space = g.pick(&["", "", " "]);
    let operand = match g.below(8) {
        0 => g.pick(&["*", "x", "X", "1.x", "1.2.x", "1.*", "1.2.*", "1.x.x", "x.x", "1.X.3"]).to_owned(),
        1 => g.pick(&["1", "1.2", "0", "0.0", "2", "0.2"]).to_owned(),
        2 => g.pick(&["1.2.3-0", "0.0.0-0", "1.2.3-beta", "2.0.0-rc.1"]).to_owned(),
        _ => version(g),
    };
    format!("{operator}{space}{operand}")
}

/// Generates a value for `--kube-version`.
pub fn kube_request(g: &mut Gen) -> Json {
    let version = match g.below(4) {
        0 => g
            .pick(&[
                "v1.33.0",
                "1.28",
                "1.28.3-gke.100",
                "v1.30.1+k3s1",
                "1",
                "",
                "v",
                "1.",
                ".1",
                "1..2",
                "01.2",
                "1.02",
                "1.2.3.4",
                " 1.2",
                "1.2 ",
                "v 1.2",
                "1.2\n",
                "99999999999999999999.1",
                "1.99999999999999999999",
                "1.x",
                "vv1.2",
                "V1.2",
                "1.2-",
            ])
            .to_owned(),
        _ => version(g),
    };
    json!({ "op": "kube-version", "version": version })
}
