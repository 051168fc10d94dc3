//! Calls of every function that Helm offers, with edge cases as arguments.

mod table;

use serde_json::{Value as Json, json};

use self::table::{Arg, FUNCTIONS, Function, SHAPES};
use super::template::{self, go_quote};
use super::{Gen, date, format, json as json_text, semver, value, yaml};

/// Returns the number of cases of [`shape`].
pub fn shapes() -> usize {
    SHAPES.len()
}

/// Returns one of the fixed cases for functions that depend on randomness or the clock.
pub fn shape(case: usize) -> Json {
    question(SHAPES[case % SHAPES.len()], json!({}))
}

/// Generates a function call, rendered in a chart with values that the arguments refer to.
pub fn request(g: &mut Gen) -> Json {
    let function = g.one(FUNCTIONS);
    let call = call(g, function);
    let clock = function.1.iter().any(|arg| matches!(arg, Arg::Time));
    let text = match g.below(if clock { 2 } else { 8 }) {
        0 => format!("{{{{ $r := {call} }}}}{{{{ typeOf $r }}}} {{{{ $r }}}}"),
        2 => format!("{{{{ {call} | toJson }}}}"),
        3 => format!("{{{{ {call} | toYaml }}}}"),
        4 => format!("{{{{ printf \"%T %#v\" ({call}) ({call}) }}}}"),
        5 => format!("{{{{ if {call} }}}}yes{{{{ else }}}}no{{{{ end }}}}"),
        _ => format!("{{{{ {call} }}}}"),
    };
    let values = values(g);
    question(&text, values)
}

/// Generates a template with many functions: variables, blocks, includes, values modified in place.
pub fn program(g: &mut Gen) -> Json {
    const FIELDS: &[&str] = &[
        ".Values",
        ".Values.m",
        ".Values.l",
        ".Values.s",
        ".Values.n",
        ".Values.t",
        ".Values.m.a",
        ".Values.missing",
        ".Values.missing.x",
        ".Release.Name",
        ".Chart.Name",
        ".Chart.Version",
        ".Template.Name",
        ".Values.strs",
        "(list 1 2 3)",
        "(dict \"a\" 1)",
        "$.Values.m",
        ".nope",
        "(until 3)",
        // Modified in place; but never inserted into itself, as a self-referential map crashes Go.
        "(set $.Values \"z\" \"new\").z",
        "$.Values.z",
        "(unset $.Values \"z\").s",
    ];
    const CALLS: &[(&str, usize)] = &[
        ("include \"h\"", 1),
        ("toYaml", 1),
        ("toJson", 1),
        ("quote", 1),
        ("default", 2),
        ("upper", 1),
        ("dict \"a\"", 1),
        ("list", 3),
        ("hasKey .Values", 1),
        ("typeOf", 1),
        ("kindIs \"map\"", 1),
        ("required \"need\"", 1),
        ("ternary 1 2", 1),
        ("empty", 1),
        ("first", 1),
        ("merge (dict)", 1),
        ("nindent 2", 1),
        ("int", 1),
        ("toString", 1),
        ("tpl \"{{ . }}\"", 1),
        ("join \",\"", 1),
        ("add 1", 1),
        ("trunc 3", 1),
        ("coalesce", 2),
        ("fail", 1),
    ];
    let body = template::Grammar::with(g, FIELDS, CALLS).nodes(3);
    // The helper does not include itself: Helm's limit of a thousand levels would take too long.
    let helper = template::Grammar::with(g, FIELDS, &CALLS[1..]).nodes(1);
    let mut request = question(&body, values(g));
    request["files"]["templates/_h.tpl"] = json!(format!("{{{{ define \"h\" }}}}{helper}{{{{ end }}}}"));
    request
}

fn values(g: &mut Gen) -> Json {
    json!({
        "s": value::string(g), "n": value::number(g), "t": g.chance(50), "m": value::map(g, 2), "l": (0..g.below(5)).map(|_| value::plain(g, 1)).collect::<Vec<_>>(),
        "any": value::plain(g, 2), "strs": ["b", "a", "c", "a"], "nums": [3, 1.5, 2, 1e7],
    })
}

/// Builds a request to render one template in a small chart.
pub fn question(text: &str, values: Json) -> Json {
    json!({
        "op": "render",
        "files": { "Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.2.3\nappVersion: \"4.5\"\n", "templates/t": text },
        "values": values,
    })
}

fn call(g: &mut Gen, Function(name, params, variadic): &Function) -> String {
    let mut out = (*name).to_owned();
    let mut arguments: Vec<String> = params.iter().map(|arg| argument(g, *arg)).collect();
    if let Some(more) = variadic {
        let count = g.below(4);
        arguments.extend((0..count).map(|_| argument(g, *more)));
    }
    match g.below(50) {
        0 => drop(arguments.pop()),
        1 => arguments.push(argument(g, Arg::Any)),
        _ => {}
    }
    if !arguments.is_empty() && g.chance(20) {
        let last = arguments.pop().unwrap_or_default();
        return format!("({last} | {out} {})", arguments.join(" ")).replace(" )", ")");
    }
    for argument in arguments {
        out.push(' ');
        out += &argument;
    }
    format!("({out})")
}

/// Generates an argument, of the right type nine times out of ten.
fn argument(g: &mut Gen, kind: Arg) -> String {
    if g.chance(7) && !matches!(kind, Arg::Small | Arg::Time | Arg::Encrypted | Arg::Duration) {
        return any(g);
    }
    match kind {
        Arg::Any => any(g),
        Arg::Text => {
            if g.chance(8) {
                return ".Values.s".into();
            }
            if g.chance(3) {
                // Bytes that are not valid UTF-8.
                return "(b64dec \"YWL/w6k=\")".into();
            }
            go_quote(&value::string(g))
        }
        Arg::Int => g.between(-2, 30).to_string(),
        Arg::Small => g.pick(&["0", "1", "2", "3", "5", "-1", "-3", "10", "4"]).to_owned(),
        Arg::Number => g
            .pick(&[
                "0",
                "1",
                "2",
                "3",
                "-1",
                "7",
                "1.5",
                "-2.5",
                "100",
                "\"5\"",
                "\"0x1f\"",
                "\"08\"",
                "\"1.5\"",
                "\"abc\"",
                "\"\"",
                "\"1e3\"",
                ".Values.n",
                "true",
                "false",
                "nil",
                "(int64 5)",
                "(float64 2.5)",
                "(int 3)",
                "9223372036854775807",
                "1e20",
                "0.1",
                "(list)",
                "\"-3\"",
                "\"1_000\"",
                "(dict)",
                "\" 4\"",
                "'a'",
                "123456789",
                "\"9223372036854775808\"",
                "(index .Values.nums 1)",
                "10",
                "4",
            ])
            .to_owned(),
        Arg::Bool => g.pick(&["true", "false", ".Values.t", "(eq 1 1)"]).to_owned(),
        Arg::List => list(g),
        Arg::Strings => g
            .pick(&[
                "(splitList \",\" \"b,a,c\")",
                ".Values.strs",
                "(list \"x\" 1 nil 2.5)",
                "\"text\"",
                "(list)",
                "nil",
                "1",
            ])
            .to_owned(),
        Arg::Map => map(g),
        Arg::Key => {
            go_quote(g.pick(&["a", "b", "c", "x", "name", "missing", "9", "h", "", "scheme", "host", "path"]))
        }
        Arg::Regex => go_quote(&regex(g)),
        Arg::Replacement => go_quote(
            g.pick(&["", "x", "$1", "${1}x", "$1x", "$$", "$0", "${n}", "$2", "\\1", "$", "${", "$n-"]),
        ),
        Arg::Layout => go_quote(&date::layout(g)),
        Arg::Time => match g.below(6) {
            0 => format!(
                "(toDate \"2006-01-02\" \"{}\")",
                g.pick(&["2024-02-29", "1999-12-31", "2021-06-15", "nonsense"])
            ),
            1 => format!("(int64 {})", date::unix(g)),
            2 => format!(
                "(toDate \"2006-01-02T15:04:05Z07:00\" \"{}\")",
                g.pick(&["2024-03-31T01:30:00+02:00", "2020-01-01T00:00:00Z", "1969-07-20T20:17:40-05:00"])
            ),
            _ => date::unix(g).to_string(),
        },
        Arg::Zone => go_quote(g.pick(date::ZONES)),
        Arg::Duration => go_quote(&date::duration(g)),
        Arg::Version => go_quote(&semver::version(g)),
        Arg::Constraint => go_quote(&semver::constraint(g)),
        Arg::Yaml => go_quote(&yaml::document(g)),
        Arg::Json => go_quote(&json_text::text(g)),
        Arg::Toml => go_quote(g.pick(&[
            "a = 1",
            "a = \"x\"\n[b]\nc = [1, 2]\n",
            "[[t]]\nx = 1\n[[t]]\nx = 2\n",
            "d = 2021-01-02T03:04:05Z\n",
            "a = ",
            "= 1",
            "a = 1\na = 2",
            "a.b.c = true",
            "f = 1.5e3",
            "s = '''x\ny'''",
            "t = { a = 1, b = 'c' }",
            "x = 0xff\ny = 1_000\nz = inf",
            "[a]\n[a]\n",
            "",
            "d = 2021-01-02",
            "l = 07:32:00",
            "dt = 2021-01-02T03:04:05",
        ])),
        Arg::Url => go_quote(g.pick(&[
            "http://u:p@host:80/p/a?q=1#f",
            "host",
            "/path",
            "http://",
            "mailto:a@b",
            "https://h/%41%zz",
            "http://[::1]:80/",
            "http://h:port/",
            "//h/p",
            "?q",
            "#f",
            "http://h/a b",
            "http://a b/",
            "x://y?z=%20",
            "",
            "http://h/p?a=b&c=d#g%20h",
            ":",
            "http://user@h",
            "HTTP://H/",
            "http://h:/",
            "a:b:c",
        ])),
        Arg::Path => go_quote(g.pick(&[
            "/a/b.txt",
            "a/b/",
            "",
            ".",
            "..",
            "/",
            "//a//b/../c",
            "a.tar.gz",
            ".hidden",
            "a/./b",
            "../../x",
            "/..",
            "a/b/..",
            "file",
            "a\\b",
            "x/.y",
            "é/ü.x",
        ])),
        Arg::Separator => go_quote(g.pick(&[",", "", " ", ".", "a", "--", "\n", "$", "_"])),
        Arg::Base64 => go_quote(g.pick(&[
            "YQ==",
            "YWI=",
            "aGVsbG8=",
            "",
            "a",
            "YQ",
            "!!",
            "YQ==\n",
            "/w==",
            "_w==",
            "YQ= =",
            "YWJjZA==x",
        ])),
        Arg::Base32 => {
            go_quote(g.pick(&["ME======", "MFRGG===", "", "a", "me======", "M1======", "ME=====", "ME"]))
        }
        Arg::Format => go_quote(&format::directives(g)),
        Arg::Template => go_quote(&template::text(g)),
        Arg::TypeName => go_quote(g.pick(&[
            "string",
            "int",
            "float64",
            "map[string]interface {}",
            "[]interface {}",
            "bool",
            "*semver.Version",
            "chartutil.Values",
            "[]string",
            "<nil>",
            "int64",
            "time.Time",
        ])),
        Arg::KindName => go_quote(g.pick(&[
            "string", "int", "float64", "map", "slice", "bool", "ptr", "invalid", "struct", "int64", "",
        ])),
        Arg::Encrypted => go_quote(g.pick(&[
            "",
            "a",
            "YQ==",
            "30tEfhuJSVRhpG97XCuWgz2okj7L8vQ1s6V9zVUPeDQ=",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "!!",
            "AAAAAAAAAAAAAAAAAAAAAA==",
        ])),
    }
}

fn any(g: &mut Gen) -> String {
    match g.below(20) {
        0 => "nil".into(),
        1 => ".Values.any".into(),
        2 => g
            .pick(&[
                "(int64 5)",
                "(int 3)",
                "(float64 1.5)",
                "(until 3)",
                "(splitList \",\" \"a,b\")",
                "(split \",\" \"a,b\")",
                "(tuple)",
                "(toDate \"2006\" \"2020\")",
                "(semver \"1.2.3\")",
                "(add 1 2)",
                "(len \"ab\")",
            ])
            .to_owned(),
        3 => g
            .pick(&[
                ".Values.n",
                ".Values.t",
                ".Values.s",
                ".Values.missing",
                ".Chart.Name",
                ".Release.Name",
                ".Release",
                ".Capabilities.KubeVersion",
                ".Values.missing.x",
                ".Chart.IsRoot",
            ])
            .to_owned(),
        4 => g.pick(&["true", "false"]).to_owned(),
        5..=7 => g
            .pick(&[
                "0",
                "1",
                "-1",
                "7",
                "1.5",
                "100",
                "1e6",
                "'a'",
                "0x10",
                "9223372036854775807",
                "1e21",
                "12345678",
            ])
            .to_owned(),
        8 | 9 => list(g),
        10 | 11 => map(g),
        _ => go_quote(&value::string(g)),
    }
}

fn list(g: &mut Gen) -> String {
    match g.below(8) {
        0 => ".Values.l".into(),
        1 => g.pick(&[".Values.strs", ".Values.nums"]).to_owned(),
        2 => g
            .pick(&[
                "(list)",
                "(until 4)",
                "(splitList \",\" \"b,a,a\")",
                "nil",
                "\"text\"",
                "(tuple 1 nil \"\" 1)",
            ])
            .to_owned(),
        _ => {
            let items = g.join(0, 4, " ", |g| match g.below(10) {
                0 => list(g),
                1 => map(g),
                2 => "nil".into(),
                3..=5 => g.pick(&["0", "1", "2", "1.5", "true", "1"]).to_owned(),
                _ => go_quote(g.pick(&["", "a", "b", "abc", "1", "a", "Z"])),
            });
            format!("(list {items})").replace(" )", ")")
        }
    }
}

fn map(g: &mut Gen) -> String {
    match g.below(8) {
        0 => ".Values.m".into(),
        1 => g
            .pick(&["(dict)", "(urlParse \"http://u@h/p?q#f\")", ".Values", "(deepCopy .Values.m)"])
            .to_owned(),
        _ => {
            let entries = g.join(0, 3, " ", |g| {
                let key = go_quote(g.pick(&["a", "b", "c", "x", "scheme", "host", "path", "query"]));
                let value = match g.below(10) {
                    0 | 1 => map(g),
                    2 => list(g),
                    3 => "nil".into(),
                    4..=6 => g.pick(&["0", "1", "1.5", "true", "false"]).to_owned(),
                    _ => go_quote(g.pick(&["", "a", "v", "http", "h:1", "/p"])),
                };
                format!("{key} {value}")
            });
            format!("(dict {entries})").replace(" )", ")")
        }
    }
}

/// Generates a regular expression, usually a valid one.
pub fn regex(g: &mut Gen) -> String {
    let text = g.join(1, 4, "", |g| {
        let atom = g.pick(&[
            "a",
            "b",
            "[a-z]",
            "[^a-c]",
            ".",
            "\\d",
            "\\w",
            "\\s",
            "(a|b)",
            "(?:x|y)",
            "(?P<n>a+)",
            "^",
            "$",
            "\\b",
            "[[:alpha:]]",
            "\\.",
            "(?i)A",
            "\\pL",
            "é",
            "x*",
            "[0-9]+",
            "(a)(b)?",
            "\\x41",
            "\\Qa.b\\E",
            "(?s).",
            "(?m)^",
            "\\z",
            "[\\w-]",
            "",
            "(?<n>b)",
            "\\D",
            "[\\d.]",
            "\\p{Greek}",
            "(?U)a+",
            "o",
            "l",
            " ",
        ]);
        let repeat = g.pick(&["", "", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "+?", "{2,}", "??"]);
        format!("{atom}{repeat}")
    });
    if g.chance(12) {
        return g.damage(
            &text,
            &[
                "(", ")", "[", "]", "{", "*", "+", "\\", "?", "(?", "(?=", "(?<", "\\8", "|", "{1001}",
                "a**", "[z-a]", "\\pX", "(?P<n>",
            ],
        );
    }
    text
}
