//! `.helmignore` rules, and the patterns of `.Files.Glob`.

use serde_json::{Map, Value as Json, json};

use super::Gen;

const PATHS: &[&str] = &[
    "a.txt",
    "b.txt",
    "dir/a.txt",
    "dir/b.md",
    "dir/sub/a.txt",
    "dir/sub/deep/c.yaml",
    ".hidden",
    "dir/.x",
    "README.md",
    "a",
    "x y.txt",
    "[b].txt",
    "é.txt",
    "docs/a.txt",
    "docs/dir/a.txt",
    "a.txt.bak",
    "b{1}.md",
];

/// Generates a chart that lists the files visible to its templates, with random rules and patterns.
pub fn request(g: &mut Gen) -> Json {
    let mut files = Map::new();
    files.insert("Chart.yaml".into(), json!("apiVersion: v2\nname: top\nversion: 1.0.0\n"));
    for path in PATHS {
        if g.chance(70) {
            files.insert((*path).into(), json!(format!("content of {path}\n")));
        }
    }
    if g.chance(75) {
        let rules = g.join(1, 3, "\n", rule);
        files.insert(".helmignore".into(), json!(rules));
    }
    let pattern = super::template::go_quote(&pattern(g));
    let text = format!(
        "all:{{{{ range $p, $_ := .Files }}}}\n- {{{{ $p | quote }}}}{{{{ end }}}}\nsome:{{{{ range $p, $_ := .Files.Glob {pattern} }}}}\n- {{{{ $p | quote }}}}{{{{ end }}}}\n"
    );
    files.insert("templates/list.yaml".into(), json!(text));
    json!({ "op": "helm-template", "files": files })
}

fn rule(g: &mut Gen) -> String {
    let text = g.mostly(
        &[
            "*.txt",
            "a.txt",
            "dir",
            "dir/",
            "/a.txt",
            "/dir",
            "dir/*",
            "dir/sub/",
            "*.md",
            "!a.txt",
            "!*.txt",
            "!dir",
            "# comment",
            "",
            "  *.md  ",
            ".*",
            "*",
            "?.txt",
            "[ab].txt",
            "dir/sub/*.txt",
            "/dir/sub",
            "docs/dir",
            "!docs/",
            "x y.txt",
            "/*.txt",
            "*/a.txt",
            "dir/*/a.txt",
            "!/dir/",
            "[^a].txt",
            "\\*.txt",
            "templates",
            "!templates/",
            "sub",
        ],
        4,
        &["**", "**/a.txt", "[a", "a/**/b", "\\", "[]", "!", "/", "!!a", "[a-]", "dir//sub", "[z-a].txt"],
    );
    text.to_owned()
}

fn pattern(g: &mut Gen) -> String {
    let text = g.mostly(
        &[
            "*",
            "**",
            "*.txt",
            "**.txt",
            "dir/*",
            "dir/**",
            "**/a.txt",
            "{a,b}.txt",
            "dir/{a.txt,sub/*}",
            "[ab].txt",
            "[!a].txt",
            "?.txt",
            "d*/a.txt",
            "a.txt",
            "*/*",
            "*/*/*",
            "dir/sub/**",
            "**.{md,yaml}",
            "[a-c].txt",
            "{dir,docs}/**",
            "d?r/*",
            "",
            "[!a-b].*",
            "*a*",
            "{*.md,a}",
            "**/sub/**",
        ],
        10,
        &[
            "[",
            "{a",
            "a}",
            "[a",
            "{a,{b,c}}.txt",
            "\\*.txt",
            "\\[b\\].txt",
            "[]",
            "[!]",
            "{}",
            "{,a.txt}",
            "***",
            "*{",
            "[a-]",
            "é*",
            "b\\{1\\}.md",
            "[a-",
            "{a,b",
            "x y*",
            "[\\]]",
            "a\\",
        ],
    );
    if g.chance(15) {
        g.damage(text, &["*", "?", "[", "]", "{", "}", ",", "/", "\\", "!", "-", "a", ".txt"])
    } else {
        text.to_owned()
    }
}
