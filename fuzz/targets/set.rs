//! The `--set` family: no expression panics or asks for memory without bound.
//!
//! The input is a values file, a NUL and an expression.

#![no_main]

use libfuzzer_sys::fuzz_target;
use steersman_chart::Values;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (Some(base), Some(expression)) = (parts.next(), parts.next()) else { return };
    let (Ok(base), Ok(expression)) = (Values::from_yaml(base), std::str::from_utf8(expression)) else { return };
    for flag in 0..5 {
        let mut values = base.clone();
        let done = match flag {
            0 => values.set(expression),
            1 => values.set_string(expression),
            2 => values.set_json(expression),
            3 => values.set_literal(expression),
            _ => values.set_file(expression, &mut |name| Ok(name.as_bytes().to_vec())),
        };
        match done {
            Ok(()) => drop(values.to_yaml()),
            Err(error) => drop(error.to_string()),
        }
    }
});
