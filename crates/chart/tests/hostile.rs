//! Charts that try to exhaust memory or time.
//!
//! Each render ends with an error that names the template and the limit.

use std::sync::mpsc;
use std::time::SystemTime;

use steersman_chart::{
    Chart, Environment, Error, Exceeded, File, Interrupt, Limits, RenderOptions, Rendered, Seeded, Values,
};

fn chart(templates: &[(&str, &str)]) -> Chart {
    let metadata = File::new("Chart.yaml", "{apiVersion: v2, name: hostile, version: 0.1.0}");
    let templates = templates.iter().map(|(name, text)| File::new(format!("templates/{name}"), *text));
    Chart::from_files(std::iter::once(metadata).chain(templates)).unwrap()
}

fn render_with(chart: &Chart, options: &RenderOptions) -> Result<Rendered, Error> {
    chart.render(&Values::new(), options, Seeded::new(1, SystemTime::UNIX_EPOCH))
}

fn render(template: &str, limits: Limits) -> Result<Rendered, Error> {
    render_with(&chart(&[("a.yaml", template)]), &RenderOptions { limits, ..RenderOptions::default() })
}

fn memory(mebibytes: usize) -> Limits {
    Limits { memory: mebibytes << 20, ..Limits::default() }
}

fn cost(cost: usize) -> Limits {
    Limits { cost, ..Limits::default() }
}

/// Returns the limit that ends a render of this template.
#[track_caller]
fn exceeded(template: &str, limits: Limits) -> Exceeded {
    let error = render(template, limits).expect_err(template);
    let limit = error.exceeded().unwrap_or_else(|| panic!("{template}: {error}")).clone();
    let message = error.to_string();
    assert!(message.contains("hostile/templates/a.yaml:1:"), "{message}");
    assert!(message.ends_with(&limit.to_string()), "{message}");
    limit
}

/// Returns the peak and the current memory of this process, if the system reports them.
fn memory_used() -> Option<(usize, usize)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok().map(|kibibytes| kibibytes << 10)
    };
    Some((field("VmHWM:")?, field("VmRSS:")?))
}

#[test]
fn texts_in_a_list_are_bounded() {
    let template =
        r#"{{ $l := list }}{{ range until 1000 }}{{ $l = append $l (repeat 67108864 "x") }}{{ end }}"#;
    assert_eq!(exceeded(template, Limits::default()), Exceeded::Memory(256 << 20));
    if let Some((peak, _)) = memory_used() {
        assert!(peak < 2 << 30, "{peak}");
    }
}

#[test]
fn functions_that_multiply_their_input_are_bounded() {
    let text = r#"{{ $x := repeat 4194304 "x" }}"#;
    for call in [
        r#"splitList "" $x"#,
        r#"split "" $x"#,
        r#"regexSplit "" $x -1"#,
        r#"regexFindAll "." $x -1"#,
        r#"regexReplaceAll "x" $x "$0$0$0$0""#,
        r#"regexReplaceAllLiteral "x" $x "xxxx""#,
        r#"replace "x" "xxxx" $x"#,
        "indent 100000000 $x",
        "nindent 100000000 $x",
        r#"repeat 3 $x"#,
        "cat $x $x",
        "print $x $x",
        r#"printf "%s%s" $x $x"#,
        "list $x $x | join $x",
        "list $x $x | toString | quote",
        "squote $x $x",
        r#"quote $x"#,
        "dict $x 1 | toYaml",
        "list $x $x | toJson",
        "list $x $x | toPrettyJson",
        "dict \"a\" $x \"b\" $x | toToml",
        "b32enc $x",
        "tpl $x .",
        "wrapWith 1 \"yyyy\" $x",
        "js $x | print \"a\"",
        "snakecase $x",
        "trunc 4000000 $x",
        "substr 1 4000000 $x",
        "shuffle $x",
        "urlParse $x",
        "genSelfSignedCertWithKey \"x\" nil (list $x $x) 1 (genPrivateKey \"ed25519\")",
    ] {
        let template = format!("{text}{{{{ $y := {call} }}}}{{{{ len (list $y) }}}}");
        // Limited by memory only, since some of these would exceed the cost limit too.
        let limit = exceeded(&template, Limits { cost: usize::MAX, ..memory(6) });
        assert_eq!(limit, Exceeded::Memory(6 << 20), "{call}");
    }
    if let Some((peak, _)) = memory_used() {
        assert!(peak < 2 << 30, "{peak}");
    }
}

#[test]
fn counts_are_bounded() {
    for call in [
        r#"repeat 9000000000 "abc""#,
        r#"indent 9000000000 "abc""#,
        "until 9000000000",
        "untilStep 0 9000000000 1",
        "seq 9000000000",
        "randAlphaNum 9000000000",
        "randBytes 9000000000",
        r#"printf "%1000000d" 1 | repeat 100"#,
        "concat (until 1000000) (until 1000000) (until 1000000)",
        "chunk 1 (until 1000000)",
        "until 1000000 | toStrings",
    ] {
        assert_eq!(exceeded(&format!("{{{{ {call} }}}}"), memory(32)), Exceeded::Memory(32 << 20), "{call}");
    }
}

#[test]
fn cryptography_is_priced() {
    for call in [
        r#"genPrivateKey "rsa""#,
        r#"genPrivateKey "dsa""#,
        r#"genCA "ca" 1"#,
        r#"genSelfSignedCert "x" nil nil 1"#,
        r#"htpasswd "user" "password""#,
        r#"bcrypt "password""#,
        r#"derivePassword 1 "long" "password" "user" "example.com""#,
        r#"range until 10000 }}{{ genPrivateKey "ecdsa" }}{{ end"#,
        r#"$key := genPrivateKey "ed25519" }}{{ range until 10000 }}{{ (genCAWithKey "ca" 1 $key).Cert }}{{ end"#,
    ] {
        assert_eq!(
            exceeded(&format!("{{{{ {call} }}}}"), cost(1_000_000)),
            Exceeded::Cost(1_000_000),
            "{call}"
        );
    }
    // A plausible amount for a real chart.
    let template = r#"a: {{ htpasswd "user" "password" | quote }}"#.repeat(2) + "\n";
    assert!(render(&template.replace("a: ", "\na: "), Limits::default()).is_ok());
}

#[test]
fn values_that_share_parts_are_gone_through_once_at_most() {
    let shared = r#"{{ $l := list 1 }}{{ range until 40 }}{{ $l = list $l $l }}{{ end }}"#;
    let maps = r#"{{ $d := dict "a" 1 }}{{ range until 40 }}{{ $d = dict "a" $d "b" $d }}{{ end }}"#;
    let other = r#"{{ $e := dict "a" 1 }}{{ range until 40 }}{{ $e = dict "a" $e "b" $e }}{{ end }}"#;
    for call in [
        "toYaml $l",
        "toYamlPretty $l",
        "toJson $l",
        "mustToJson $l",
        "toPrettyJson $d",
        "toRawJson $l",
        r#"toToml (dict "a" $l)"#,
        "toToml $d",
        "toString $l",
        "print $d",
        "quote $l",
        "deepCopy $d",
        "mustDeepCopy $l",
        "merge $d $e",
        "mustMergeOverwrite $d $e",
        r#"join "," (list $l)"#,
        r#"dict $l 1"#,
        "toDecimal $l",
        "sortAlpha (list $l)",
        r#"$_ := set $.Values "x" $d }}{{ $.Values.YAML"#,
    ] {
        exceeded(
            &format!("{shared}{maps}{other}{{{{ {call} }}}}"),
            Limits { cost: 1_000_000, memory: 1 << 20, ..Limits::default() },
        );
    }
    // Left in the values, they are dropped in reasonable time too.
    let template = format!("{shared}{{{{ $_ := set $.Values \"x\" $l }}}}");
    assert!(render(&template, Limits::default()).is_ok());
}

#[test]
fn work_out_of_proportion_is_priced() {
    for template in [
        r#"{{ $l := until 20000 }}{{ uniq $l | len }}"#,
        r#"{{ $l := until 20000 }}{{ range $l }}{{ has -1 $l }}{{ end }}"#,
        r#"{{ $l := until 20000 }}{{ range $l }}{{ without $l 1 2 3 | len }}{{ end }}"#,
        r#"{{ $x := repeat 1000000 "x" }}{{ range until 1000 }}{{ sha512sum $x }}{{ end }}"#,
        r#"{{ $x := repeat 1000000 "x" }}{{ range until 10000 }}{{ if eq $x (print $x) }}{{ end }}{{ end }}"#,
        r#"{{ $x := repeat 1000000 "ab" }}{{ regexMatch "(a|b)*c" $x }}"#,
        r#"{{ regexMatch "(a{900}|b{900})c" (repeat 200000 "a") }}"#,
        r#"{{ $x := repeat 100000 "A" }}{{ range until 100 }}{{ regexFindAll ".*[^A-Z]|[A-Z]" $x -1 | len }}{{ end }}"#,
        r#"{{ range until 1000000 }}{{ fromJson "{\"a\": 1, \"b\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}" | len }}{{ end }}"#,
    ] {
        let limits = Limits { cost: 2_000_000, memory: 64 << 20, ..Limits::default() };
        exceeded(template, limits);
    }
    // A long cutset is no slower than a short one.
    let trimmed = r#"a: {{ trimAll (repeat 300000 "ab") (repeat 300000 "ab") | quote }}"#;
    assert!(render(trimmed, Limits::default()).is_ok());
}

#[test]
fn reading_is_bounded() {
    for call in [
        r#"fromJson (printf "{\"a\":[%s0]}" (repeat 300000 "{\"\":0},"))"#,
        r#"fromJsonArray (printf "[%s0]" (repeat 300000 "[],"))"#,
        r#"fromYaml (printf "a: [%s0]" (repeat 300000 "[],"))"#,
        r#"fromYamlArray (repeat 300000 "- 1\n")"#,
        r#"fromToml (repeat 3000 (repeat 100 "a.") | printf "%sa = 1")"#,
        r#"tpl (repeat 100000 "{{1}}") ."#,
    ] {
        assert_eq!(exceeded(&format!("{{{{ {call} }}}}"), memory(16)), Exceeded::Memory(16 << 20), "{call}");
    }
    let laughs = r#"{{ fromYaml "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]" | toYaml }}"#;
    let rendered = render(laughs, memory(16)).unwrap();
    assert!(rendered.manifests[0].content.contains("excessive aliasing"), "{:?}", rendered.manifests);
}

#[test]
fn indentation_does_not_multiply_text() {
    let template = r#"{{ $v := repeat 100000 "a\n" }}{{ range until 200 }}{{ $v = dict "k" $v }}{{ end }}{{ toYaml $v }}"#;
    assert_eq!(exceeded(template, memory(16)), Exceeded::Memory(16 << 20));
    let template =
        r#"{{ $v := until 20000 }}{{ range until 400 }}{{ $v = list $v }}{{ end }}{{ toPrettyJson $v }}"#;
    assert_eq!(exceeded(template, memory(8)), Exceeded::Memory(8 << 20));
}

#[test]
fn rendered_text_is_not_read_beyond_the_limit() {
    let error = render(r#"a: [{{ repeat 1000000 "[]," }}0]"#, memory(16)).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("YAML parse error on hostile/templates/a.yaml: "), "{message}");
    assert!(message.ends_with("memory limit of 16777216 bytes"), "{message}");
}

#[test]
fn templates_too_large_to_parse_are_refused_and_may_be_allowed() {
    let text = format!("# {}", "{{1}}".repeat(100_000));
    let chart = chart(&[("a.yaml", &text)]);
    let options = |memory: usize| RenderOptions {
        limits: Limits { memory, ..Limits::default() },
        ..RenderOptions::default()
    };
    let error = render_with(&chart, &options(8 << 20)).unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory(8 << 20)));
    assert!(error.to_string().contains("hostile/templates/a.yaml:1"), "{error}");
    assert!(render_with(&chart, &options(128 << 20)).is_ok());
}

#[test]
fn one_budget_serves_all_templates_of_a_render() {
    let text = r#"a: {{ repeat 1048576 "x" }}"#;
    let names: Vec<String> = (0..8).map(|i| format!("{i}.yaml")).collect();
    let templates: Vec<_> = names.iter().map(|name| (name.as_str(), text)).collect();
    let chart = chart(&templates);
    let options = |mebibytes: usize| RenderOptions { limits: memory(mebibytes), ..RenderOptions::default() };
    assert!(render_with(&chart, &options(64)).is_ok());
    let error = render_with(&chart, &options(8)).unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory(8 << 20)));
    // The next render has a budget of its own.
    assert!(render_with(&chart, &options(64)).is_ok());
}

/// Signals when a render reaches a `lookup`.
struct Announced(mpsc::Sender<()>);

impl Environment for Announced {
    fn now(&mut self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
    fn fill_random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
    fn resolve_host(&mut self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn lookup(&mut self, _: &str, _: &str, _: &str, _: &str) -> Result<Option<serde_json::Value>, String> {
        self.0.send(()).map_err(|error| error.to_string())?;
        Ok(None)
    }
}

#[test]
fn an_interrupt_ends_a_render_and_says_why() {
    let interrupt = Interrupt::new();
    let options =
        RenderOptions { interrupt: interrupt.clone(), limits: cost(usize::MAX), ..RenderOptions::default() };
    let text = r#"{{ $_ := lookup "v1" "Secret" "" "" }}{{ range 9000000000000000000 }}{{ end }}"#;
    let (begun, begins) = mpsc::channel();
    let watch = std::thread::spawn(move || {
        begins.recv().unwrap();
        interrupt.raise("exceeded the time limit of 0s");
    });
    let error = chart(&[("a.yaml", text)]).render(&Values::new(), &options, Announced(begun)).unwrap_err();
    watch.join().unwrap();
    assert!(matches!(error.exceeded(), Some(Exceeded::Interrupted(_))), "{error}");
    assert!(error.to_string().contains("hostile/templates/a.yaml:1"), "{error}");
    assert!(error.to_string().ends_with("exceeded the time limit of 0s"), "{error}");
}

#[test]
fn a_render_that_is_interrupted_before_it_begins_names_its_template() {
    let interrupt = Interrupt::new();
    interrupt.raise("exceeded the time limit of 0s");
    let options = RenderOptions { interrupt, ..RenderOptions::default() };
    let error = render_with(&chart(&[("a.yaml", "{{ range 2 }}{{ end }}")]), &options).unwrap_err();
    assert!(matches!(error.exceeded(), Some(Exceeded::Interrupted(_))), "{error}");
    assert!(error.to_string().contains("hostile/templates/a.yaml"), "{error}");
    assert!(error.to_string().ends_with("exceeded the time limit of 0s"), "{error}");
}

#[test]
fn values_that_contain_themselves_are_freed() {
    let template = r#"{{ $d := dict "text" (repeat 4194304 "x") }}{{ $_ := set $d "self" $d }}
{{- $a := dict "text" (repeat 4194304 "x") }}{{ $_ = merge $a (dict "list" (list $a)) }}"#;
    let chart = chart(&[("a.yaml", template)]);
    let options = RenderOptions::default();
    render_with(&chart, &options).unwrap();
    let Some((_, before)) = memory_used() else { return };
    for _ in 0..100 {
        render_with(&chart, &options).unwrap();
    }
    let (_, after) = memory_used().unwrap();
    // If they were kept, they would take 800 MiB. Other tests run in parallel.
    assert!(after < before + (600 << 20), "{before} {after}");
}

#[test]
fn messages_of_lint_are_bounded() {
    let template = r#"{{ range until 1000 }}{{ fail (repeat 1048576 "x") }}{{ end }}"#;
    let options = RenderOptions { lint: true, limits: memory(16), ..RenderOptions::default() };
    let error = render_with(&chart(&[("a.yaml", template)]), &options).unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory(16 << 20)));
}

#[test]
fn an_error_in_a_long_text_of_tpl_is_short() {
    let error =
        render(r#"{{ tpl (printf "{{ fail \"no\" }}%s" (repeat 4194304 "x")) . }}"#, Limits::default())
            .unwrap_err();
    assert!(error.to_string().len() < 1 << 20, "{}", error.to_string().len());
}
