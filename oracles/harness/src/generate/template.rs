//! A grammar for Go templates: every action, pipeline and constant, some of them invalid.

use serde_json::{Map, Value as Json, json};

use super::{Gen, format, value};
use crate::wire::tagged;

const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    "{{ end }}",
    "{{ else }}",
    "|",
    "(",
    ")",
    ".",
    "$",
    "$x",
    ":=",
    "=",
    ",",
    "\"",
    "`",
    "'",
    "/*",
    "*/",
    "if ",
    "range ",
    "with ",
    "end",
    "define ",
    "template ",
    "block ",
    "break",
    "continue",
    "else",
    "nil",
    " ",
    "\n",
    "-",
    "1",
    "@",
    "é",
    "{{/* c */}}",
    "{{ .a",
    "#",
];

/// Generates a template with data for Go's text/template only, typed as in Go code.
pub fn request(g: &mut Gen) -> Json {
    let mut request = json!({ "op": "template", "funcs": "none", "text": text(g), "data": data(g) });
    match g.below(6) {
        0 => request["missingkey"] = json!("zero"),
        1 => request["missingkey"] = json!("error"),
        _ => {}
    }
    request
}

/// Generates data under the names that [`text`] uses.
pub fn data(g: &mut Gen) -> Json {
    let mut data: Map<String, Json> = [
        ("s", json!(value::string(g))),
        ("f", value::number(g)),
        ("i", tagged("int", g.between(-4, 9).to_string())),
        ("u", tagged("uint8", g.below(200).to_string())),
        ("t", json!(true)),
        ("nil", Json::Null),
        ("list", (0..g.below(4)).map(|_| value::typed(g, 1)).collect()),
        ("strs", tagged("[]string", json!(["p", "q", "r"]))),
        ("ints", tagged("[]int", json!([3, 1, 2]))),
        ("m", Json::Object(value::map(g, 2))),
        ("mss", tagged("map[string]string", json!({"a": "A", "b": ""}))),
        ("msi", tagged("map[string]int", json!({"a": 1, "b": 0}))),
        ("bytes", tagged("bytes", "aGVsbG8=")),
        ("any", value::typed(g, 2)),
        ("nest", json!({ "a": { "b": { "c": value::scalar(g) } } })),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v))
    .collect();
    while g.chance(15) {
        let victims: Vec<String> = data.keys().cloned().collect();
        if let Some(key) = victims.get(g.below(victims.len().max(1))) {
            data.remove(key);
        }
    }
    if g.chance(2) { value::typed(g, 1) } else { Json::Object(data) }
}

/// Generates a template.
pub fn text(g: &mut Gen) -> String {
    let mut grammar = Grammar::new(g);
    let mut out = grammar.nodes(3);
    if out.contains("template \"x\"") || grammar.g.chance(15) {
        let body = Grammar::new(grammar.g).nodes(1);
        let name = grammar.g.mostly(&["x"], 10, &["y", "x y"]);
        let define = format!("{{{{ define \"{name}\" }}}}{body}{{{{ end }}}}");
        out = if grammar.g.chance(50) { define + &out } else { out + &define };
    }
    if g.chance(12) { g.damage(&out, PIECES) } else { out }
}

/// The grammar, with the variables in scope.
pub struct Grammar<'a> {
    g: &'a mut Gen,
    variables: Vec<String>,
    loops: usize,
    /// Names and arities of functions called besides Go's own.
    functions: &'static [(&'static str, usize)],
    /// The fields that dot is likely to have.
    fields: &'static [&'static str],
}

const FIELDS: &[&str] = &[
    ".s",
    ".f",
    ".i",
    ".u",
    ".t",
    ".nil",
    ".list",
    ".strs",
    ".ints",
    ".m",
    ".mss",
    ".msi",
    ".bytes",
    ".any",
    ".nest",
    ".nest.a",
    ".nest.a.b.c",
    ".m.a",
    ".m.b",
    ".mss.a",
    ".missing",
    ".s",
    ".i",
    ".m",
    ".list",
    ".strs",
    ".f",
    ".nest.a.b",
    ".mss.b",
    ".msi.a",
];

/// Fields that rarely exist.
const WRONG_FIELDS: &[&str] =
    &[".missing.x", ".s.x", ".nil.x", ".list.x", ".any.x", ".f.x", ".nest.zz.b", ".mss.zz", ".a.b.c"];

/// Go's own functions and their usual number of arguments.
const BUILTINS: &[(&str, usize)] = &[
    ("and", 2),
    ("or", 2),
    ("not", 1),
    ("len", 1),
    ("index", 2),
    ("index", 3),
    ("slice", 2),
    ("slice", 3),
    ("print", 2),
    ("println", 1),
    ("html", 1),
    ("js", 1),
    ("urlquery", 1),
    ("eq", 2),
    ("eq", 3),
    ("ne", 2),
    ("lt", 2),
    ("le", 2),
    ("gt", 2),
    ("ge", 2),
    ("call", 1),
];

impl<'a> Grammar<'a> {
    /// Creates a grammar for templates over [`data`], with Go's own functions.
    pub fn new(g: &'a mut Gen) -> Self {
        Self { g, variables: Vec::new(), loops: 0, functions: &[], fields: FIELDS }
    }

    /// Creates a grammar for templates over other fields, with additional functions.
    pub fn with(
        g: &'a mut Gen,
        fields: &'static [&'static str],
        functions: &'static [(&'static str, usize)],
    ) -> Self {
        Self { g, variables: Vec::new(), loops: 0, functions, fields }
    }

    /// Generates a few consecutive nodes, nested at most `depth` deep.
    pub fn nodes(&mut self, depth: usize) -> String {
        let count = 1 + self.g.below(3);
        (0..count).map(|_| self.node(depth)).collect()
    }

    fn node(&mut self, depth: usize) -> String {
        let scope = self.variables.len();
        match self.g.below(20) {
            0..=3 => self
                .g
                .mostly(&["text", " ", "\n", "  \n  ", "a: b\n", "é", "-", "\t", "\r\n"], 3, &["}", "{"])
                .to_owned(),
            4 => {
                let comment = self.g.pick(&["/* c */", "/**/", "/* a\nb */"]).to_owned();
                let (open, close) = (self.g.pick(&["{{", "{{- "]), self.g.pick(&["}}", " -}}"]));
                format!("{open}{comment}{close}")
            }
            5 | 6 => {
                let value = self.pipeline(2);
                if !self.variables.is_empty() && self.g.chance(40) {
                    let name = self.variable();
                    return self.action(&format!("{name} = {value}"));
                }
                let name = self.g.pick(&["$x", "$y", "$é"]);
                let out = self.action(&format!("{name} := {value}"));
                self.variables.push(name.to_owned());
                out
            }
            7..=9 if depth > 0 => self.conditional("if", depth, scope),
            10 | 11 if depth > 0 => self.conditional("with", depth, scope),
            12..=14 if depth > 0 => self.range(depth, scope),
            15 if depth > 0 => match self.g.below(3) {
                0 => {
                    let name = self.g.mostly(&["x"], 10, &["y", "nope"]);
                    let argument = if self.g.chance(60) { self.pipeline(1) } else { String::new() };
                    self.action(&format!("template \"{name}\" {argument}"))
                }
                1 => {
                    let (head, pipeline) = (self.g.mostly(&["blk"], 10, &["x"]), self.pipeline(1));
                    let open = self.action(&format!("block \"{head}\" {pipeline}"));
                    let body = Grammar::new(self.g).nodes(1);
                    open + &body + &self.action("end")
                }
                _ => {
                    let word = self.g.pick(&["break", "continue"]);
                    if self.loops > 0 || self.g.chance(4) { self.action(word) } else { String::new() }
                }
            },
            _ => {
                let pipeline = self.pipeline(2);
                self.action(&pipeline)
            }
        }
    }

    fn action(&mut self, inside: &str) -> String {
        let open = self.g.pick(&["{{", "{{ ", "{{- ", "{{  ", "{{-\n"]);
        let close = self.g.pick(&["}}", " }}", " -}}", "  }}", "\n}}"]);
        format!("{open}{inside}{close}")
    }

    fn conditional(&mut self, word: &str, depth: usize, scope: usize) -> String {
        let head = self.declared();
        let mut out = self.action(&format!("{word} {head}"));
        out += &self.nodes(depth - 1);
        if self.g.chance(25) {
            let head = self.pipeline(1);
            out += &self.action(&format!("else {word} {head}"));
            out += &self.nodes(depth - 1);
        }
        if self.g.chance(40) {
            out += &self.action("else");
            out += &self.nodes(depth - 1);
        }
        self.variables.truncate(scope);
        out + &self.action("end")
    }

    fn range(&mut self, depth: usize, scope: usize) -> String {
        let over = if self.g.chance(75) {
            self.g
                .pick(&[
                    ".list", ".strs", ".ints", ".m", ".mss", ".msi", ".i", ".bytes", ".nest", ".nil", "3",
                    "0", ".u", ".s",
                ])
                .to_owned()
        } else {
            // Not just any pipeline: a random number may be the largest possible.
            format!(
                "(or {} {})",
                self.g.pick(&[".list", ".nil", ".m", ".missing", ".s"]),
                self.g.pick(&[".strs", ".nest", ".f", "nil", ".t"])
            )
        };
        let head = match self.g.below(4) {
            0 => format!("$k, $v := {over}"),
            1 => format!("$v := {over}"),
            2 if self.variables.len() > 1 => {
                let (a, b) = (self.variable(), self.variable());
                format!("{a}, {b} = {over}")
            }
            _ => over,
        };
        if head.starts_with("$k") {
            self.variables.push("$k".into());
        }
        if head.contains("$v :=") {
            self.variables.push("$v".into());
        }
        let mut out = self.action(&format!("range {head}"));
        self.loops += 1;
        out += &self.nodes(depth - 1);
        self.loops -= 1;
        if self.g.chance(25) {
            out += &self.action("else");
            out += &self.nodes(depth - 1);
        }
        self.variables.truncate(scope);
        out + &self.action("end")
    }

    fn declared(&mut self) -> String {
        let pipeline = self.pipeline(2);
        if self.g.chance(15) {
            self.variables.push("$w".into());
            return format!("$w := {pipeline}");
        }
        pipeline
    }

    fn variable(&mut self) -> String {
        if self.variables.is_empty() || self.g.chance(4) {
            return self.g.mostly(&["$"], 3, &["$undefined"]).to_owned();
        }
        let at = self.g.below(self.variables.len());
        self.variables[at].clone()
    }

    /// Generates a pipeline of one to three commands.
    pub fn pipeline(&mut self, depth: usize) -> String {
        let mut out = self.command(depth);
        while self.g.chance(25) {
            let (name, arity) = self.function();
            let arguments: Vec<String> = (1..arity).map(|_| self.operand(depth.saturating_sub(1))).collect();
            let bar = self.g.pick(&[" | ", "|"]);
            out = format!("{out}{bar}{name} {}", arguments.join(" ")).trim_end().to_owned();
        }
        out
    }

    fn function(&mut self) -> (&'static str, usize) {
        if !self.functions.is_empty() && self.g.chance(60) {
            return *self.g.one(self.functions);
        }
        *self.g.one(BUILTINS)
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 || self.g.chance(45) {
            return self.operand(depth);
        }
        if self.g.chance(22) {
            let directives = format::directives(self.g);
            let count = self.g.below(3);
            let arguments: Vec<String> = (0..count).map(|_| self.operand(depth - 1)).collect();
            return format!("printf {directives:?} {}", arguments.join(" ")).trim_end().to_owned();
        }
        let (name, mut arity) = self.function();
        if self.g.chance(75)
            && let Some(call) = self.sound(name)
        {
            return call;
        }
        if self.g.chance(4) {
            arity = self.g.below(4);
        }
        let arguments: Vec<String> = (0..arity).map(|_| self.operand(depth - 1)).collect();
        format!("{name} {}", arguments.join(" ")).trim_end().to_owned()
    }

    /// Generates a call with matching arguments, for functions that require them.
    fn sound(&mut self, name: &str) -> Option<String> {
        const NUMBERS: &[&str] = &["1", "2", "0", "-1", ".i", "7", "(len .s)", ".u"];
        const TEXTS: &[&str] = &[".s", "\"a\"", "\"\"", "(print .i)", ".mss.a", "`b`"];
        const LISTS: &[&str] = &[".strs", ".ints", ".list", ".s", ".bytes"];
        const MAPS: &[&str] = &[".m", ".mss", ".msi", ".nest"];
        Some(match name {
            "eq" | "ne" | "lt" | "le" | "gt" | "ge" => {
                let of = *self.g.one(&[NUMBERS, NUMBERS, TEXTS]);
                format!("{name} {} {}", self.g.pick(of), self.g.pick(of))
            }
            "index" if self.g.chance(50) => {
                format!("index {} {}", self.g.pick(MAPS), self.g.pick(&["\"a\"", "\"b\"", "\"zz\""]))
            }
            "index" => format!(
                "index {} {}",
                self.g.pick(&[".strs", ".ints", ".bytes"]),
                self.g.pick(&["0", "1", "2", "-1", "3"])
            ),
            "slice" => format!(
                "slice {} {}",
                self.g.pick(LISTS),
                self.g.pick(&["", "0", "1", "0 1", "1 2", "0 1 2", "3"])
            ),
            "len" => format!("len {}", self.g.pick(&[".s", ".strs", ".m", ".bytes", ".mss"])),
            _ => return None,
        })
    }

    fn operand(&mut self, depth: usize) -> String {
        match self.g.below(16) {
            0 | 1 => self.number(),
            2 | 3 => self.quoted(),
            4 => self.g.mostly(&["true", "false"], 15, &["nil"]).to_owned(),
            5 => ".".to_owned(),
            6 => {
                let chain = self.g.mostly(&[""], 8, &[".a", ".x.y", ".s"]);
                self.variable() + chain
            }
            7 | 8 if depth > 0 => {
                let inner = self.pipeline(depth - 1);
                let chain = self.g.mostly(&[""], 6, &[".a", ".x"]);
                format!("({inner}){chain}")
            }
            _ => self.g.mostly(self.fields, 4, WRONG_FIELDS).to_owned(),
        }
    }

    fn number(&mut self) -> String {
        const WRONG: &[&str] = &[
            "1e400",
            "08",
            "0x",
            "1e",
            "9223372036854775808",
            "18446744073709551615",
            "''",
            "'ab'",
            "1a",
            "0b12",
            "1__0",
            "123456789012345678901234567890",
            "-",
        ];
        const ODD: &[&str] = &[
            "1e3",
            "0x1F",
            "0b11",
            "0o17",
            "017",
            "1_000",
            "'a'",
            "'\\n'",
            "'é'",
            "'\\''",
            "'\\x41'",
            "'\\u00e9'",
            "1i",
            "2.5i",
            "-0",
            "+5",
            "1.5e-3",
            "9223372036854775807",
            "-9223372036854775808",
            "0x1p4",
            ".5",
            "1.",
            "1.0",
            "1e1",
        ];
        if self.g.chance(2) {
            return self.g.pick(WRONG).to_owned();
        }
        self.g.mostly(&["0", "1", "2", "3", "-1", "7", "1.5", "100", "0.25", "42"], 25, ODD).to_owned()
    }

    fn quoted(&mut self) -> String {
        let text = value::string(self.g);
        match self.g.below(8) {
            0 => format!("`{}`", text.replace('`', "")),
            1 => self
                .g
                .mostly(
                    &[
                        "\"\\u00e9\"",
                        "\"\\x41\"",
                        "\"\\101\"",
                        "\"\\t\\\"\"",
                        "\"\\U0001F600\"",
                        "\"\\a\\v\"",
                        "\"\\xff\"",
                    ],
                    8,
                    &["\"\\q\"", "\"\\ud800\"", "\"\\'\""],
                )
                .to_owned(),
            _ => go_quote(&text),
        }
    }
}

/// Returns the string as a Go string literal.
pub fn go_quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c if c.is_control() => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
