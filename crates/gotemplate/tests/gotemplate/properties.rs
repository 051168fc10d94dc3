//! Properties of every template and every value.

use std::sync::Arc;

use proptest::prelude::*;
use steersman_gostd::strconv;
use steersman_gotemplate::{FloatType, Funcs, Limits, Set, Value, fmt};

/// Template fragments, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{", "}}", "{{-", "-}}", " ", "\n", "if", "else", "end", "range", "with", "define", "block",
        "template", "break", "continue", ".", ".a", "$", "$x", ":=", "=", ",", "|", "(", ")", "\"a\"", "`b`",
        "'c'", "1", "0x1p4", "1i", "nil", "true", "print", "printf", "index", "and", "or", "len", "eq", "/*",
        "*/", "text", "\u{e9}",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), any::<u64>().prop_map(f64::from_bits), (-1e6..1e6f64)]
}

fn run(text: &[u8]) {
    let limits = Limits { cost: 20_000, memory: 1 << 16, depth: 200, executions: 200 };
    let mut set = Set::new(Arc::new(Funcs::new())).limits(limits);
    if set.parse("main", text).is_ok() {
        let data = Value::map([("a", Value::list(vec![Value::int(1), Value::string("x"), Value::Nil]))]);
        let _ = set.execute(&mut (), "main", data, &mut Vec::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_parse_or_fail(text in prop::collection::vec(any::<u8>(), 0..200)) {
        run(&text);
    }

    #[test]
    fn any_pieces_run_or_fail(text in pieces()) {
        run(text.as_bytes());
    }

    #[test]
    fn any_action_runs_or_fails(text in pieces()) {
        run(format!("{{{{ {text} }}}}").as_bytes());
    }

    #[test]
    fn any_format_prints(format in "(%[-+# 0]{0,2}([0-9]{0,3}|\\*)(\\.[0-9]{0,2})?[a-zA-Z%!\\[\\]1-3]|.){0,6}", n in any::<i64>(), x in number(), s in ".*") {
        let args = [Value::int(n), Value::float(x), Value::string(s), Value::list(vec![Value::Nil])];
        prop_assert!(fmt::sprintf(format.as_bytes(), &args).is_ok());
    }

    #[test]
    fn the_shortest_digits_read_back(x in number()) {
        for verb in [b'g', b'e', b'f', b'x'] {
            let text = strconv::format_float(x, verb, None, false);
            let back = strconv::parse_float(text.as_bytes()).unwrap();
            prop_assert!(back == x || (back.is_nan() && x.is_nan()), "{text} for {x:?}");
        }
    }

    #[test]
    fn a_float32_prints_as_one(bits in any::<u32>()) {
        let x = f32::from_bits(bits);
        let text = fmt::format_value(&Value::Float(f64::from(x), FloatType::Float32)).unwrap();
        let back: f32 = text.to_string().to_lowercase().parse().unwrap();
        prop_assert!(back == x || (back.is_nan() && x.is_nan()), "{text} for {x:?}");
    }

    #[test]
    fn quotes_come_off_again(text in prop::collection::vec(any::<u8>(), 0..40)) {
        let unquoted = strconv::unquote(strconv::quote(&text).as_bytes());
        prop_assert_eq!(unquoted.as_deref(), Some(text.as_slice()));
        let unquoted = strconv::unquote(strconv::quote_to_ascii(&text).as_bytes());
        prop_assert_eq!(unquoted, Some(text));
    }

    #[test]
    fn any_literal_unquotes_or_not(literal in "[\"'`]([ -~]|\\\\[xuU0-7abfnrtv\"'`]){0,8}[\"'`]?") {
        let _ = strconv::unquote(literal.as_bytes());
    }

    #[test]
    fn any_number_parses_or_not(text in "[-+]?[0-9a-fA-FxXoObBpPeE_.i]{0,12}") {
        for base in [0, 10, 16] {
            let _ = (strconv::parse_int(text.as_bytes(), base, 64), strconv::parse_uint(text.as_bytes(), base, 8));
        }
        let _ = strconv::parse_float(text.as_bytes());
        run(format!("{{{{ {text} }}}}").as_bytes());
    }
}
