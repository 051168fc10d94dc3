//! Helpers for the tests of all functions.

mod charges;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use steersman_gotemplate::{Funcs, Map, Set, Value};

use super::{Host, register};
use crate::environment::Environment;

/// A deterministic environment: a fixed time and a seeded generator.
pub(super) struct Seeded(u64);

impl Seeded {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Environment for Seeded {
    fn now(&mut self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            // SplitMix64.
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            *byte = (z ^ z >> 31) as u8;
        }
    }

    fn resolve_host(&mut self, name: &str) -> Vec<String> {
        if name == "localhost" { vec!["127.0.0.1".into()] } else { Vec::new() }
    }

    fn lookup(&mut self, _: &str, _: &str, _: &str, _: &str) -> Result<Option<serde_json::Value>, String> {
        Ok(None)
    }
}

struct TestHost(Seeded);

impl Host for TestHost {
    fn environment(&mut self) -> &mut dyn Environment {
        &mut self.0
    }

    fn changed(&mut self, _: &Map) {}
}

fn functions() -> Funcs<TestHost> {
    let mut funcs = Funcs::new();
    register(&mut funcs);
    funcs
}

/// Renders a template with these values; the error is the text after `error calling`.
pub(super) fn render(template: &str, data: Value) -> Result<String, String> {
    let mut set = Set::new(Arc::new(functions()));
    set.parse("t", template.as_bytes()).map_err(|error| error.message)?;
    let mut out = Vec::new();
    match set.execute(&mut TestHost(Seeded::new(42)), "t", data, &mut out) {
        Ok(()) => Ok(String::from_utf8_lossy(&out).into_owned()),
        Err(error) => Err(error
            .message
            .split_once("error calling ")
            .and_then(|(_, rest)| rest.split_once(": "))
            .map_or(error.message.clone(), |(_, message)| message.into())),
    }
}

/// Every function of Helm v3.22, except the engine's `include`, `tpl`, `required` and `lookup`.
const NAMES: &str = "abbrev abbrevboth add add1 add1f addf adler32sum ago all any append atoi b32dec b32enc b64dec \
    b64enc base bcrypt biggest buildCustomCert camelcase cat ceil chunk clean coalesce compact concat contains date \
    dateInZone dateModify date_in_zone date_modify decryptAES deepCopy deepEqual default derivePassword dict dig dir \
    div divf duration durationRound empty encryptAES ext fail first float64 floor fromJson fromJsonArray fromToml \
    fromYaml fromYamlArray genCA genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert \
    genSignedCertWithKey get getHostByName has hasKey hasPrefix hasSuffix hello htmlDate htmlDateInZone htpasswd \
    indent initial initials int int64 isAbs join kebabcase keys kindIs kindOf last list lower max maxf merge \
    mergeOverwrite min minf mod mul mulf mustAppend mustChunk mustCompact mustDateModify mustDeepCopy mustFirst \
    mustFromJson mustHas mustInitial mustLast mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind \
    mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit mustRest \
    mustReverse mustSlice mustToDate mustToJson mustToPrettyJson mustToRawJson mustUniq mustWithout must_date_modify \
    nindent nospace now omit osBase osClean osDir osExt osIsAbs pick pluck plural prepend push quote randAlpha \
    randAlphaNum randAscii randBytes randInt randNumeric regexFind regexFindAll regexMatch regexQuoteMeta \
    regexReplaceAll regexReplaceAllLiteral regexSplit repeat replace rest reverse round semver semverCompare seq set \
    sha1sum sha256sum sha512sum shuffle slice snakecase sortAlpha split splitList splitn squote sub subf substr \
    swapcase ternary title toDate toDecimal toJson toPrettyJson toRawJson toString toStrings toToml toYaml \
    toYamlPretty trim trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf uniq unixEpoch \
    unset until untilStep untitle upper urlJoin urlParse uuidv4 values without wrap wrapWith";

#[test]
fn nothing_is_missing_and_nothing_is_added() {
    let funcs = functions();
    let ours: BTreeSet<String> = funcs.names().map(ToString::to_string).collect();
    let helms: BTreeSet<String> = NAMES.split_whitespace().map(Into::into).collect();
    assert_eq!(ours.difference(&helms).collect::<Vec<_>>(), Vec::<&String>::new(), "not in Helm");
    assert_eq!(helms.difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new(), "missing");
    assert_eq!(helms.len(), 216);
}

#[cfg(feature = "crypto")]
#[test]
fn without_crypto_its_functions_fail_when_they_are_called() {
    let names = |register: fn(&mut Funcs<TestHost>)| {
        let mut funcs = Funcs::new();
        register(&mut funcs);
        funcs.names().map(ToString::to_string).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(super::without_crypto::register), names(super::crypto::register));
    let mut funcs = functions();
    super::without_crypto::register(&mut funcs);
    let mut set = Set::new(Arc::new(funcs));
    set.parse("t", br#"{{ if .ca }}{{ genCA "ca" 365 }}{{ end }}"#).unwrap();
    let render = |ca| {
        let data = Map::new();
        data.insert("ca", Value::Bool(ca));
        set.execute(&mut TestHost(Seeded::new(42)), "t", Value::Map(data), &mut Vec::new())
    };
    render(false).unwrap();
    let error = render(true).unwrap_err();
    assert!(error.message.contains("feature `crypto`"), "{}", error.message);
}

#[test]
fn huge_counts_fail_instead_of_exhausting_memory() {
    for template in [
        r#"{{ repeat 9000000000 "abc" }}"#,
        r#"{{ indent 9000000000 "abc" }}"#,
        "{{ until 9000000000 }}",
        "{{ untilStep 0 9000000000 1 }}",
        "{{ seq 9000000000 }}",
        "{{ randAlphaNum 9000000000 }}",
        "{{ randBytes 9000000000 }}",
        r#"{{ replace "" (repeat 100000 "x") (repeat 100000 "y") }}"#,
        r#"{{ join (repeat 100000 "x") (until 100000) }}"#,
    ] {
        let error = render(template, Value::Nil).unwrap_err();
        assert!(error.contains("exceeded the memory limit"), "{template}: {error}");
    }
}

#[test]
fn maps_that_contain_themselves_end() {
    let template =
        |body: &str| format!(r#"{{{{ $d := dict "a" 1 }}}}{{{{ $_ := set $d "d" $d }}}}{{{{ {body} }}}}"#);
    for body in ["toToml $d", "toString $d", "deepCopy $d", "mustToJson $d", "toYaml $d", "toYamlPretty $d"] {
        // It may fail or return nothing, but it must end.
        let _ = render(&template(body), Value::Nil);
    }
    assert!(render(&template("merge $d (deepCopy $d)"), Value::Nil).is_err());
    assert_eq!(render(&template("deepEqual $d $d"), Value::Nil), Ok("true".into()));
}

#[test]
fn a_seed_repeats() {
    let template = r#"{{ randAlphaNum 20 }} {{ uuidv4 }} {{ shuffle "abcdef" }} {{ htpasswd "a" "b" }} {{ now | date "2006-01-02" }}
{{ genPrivateKey "ecdsa" }}{{ encryptAES "k" "text" }} {{ (genSelfSignedCertWithKey "x" nil (list "a.b") 365 (genPrivateKey "ed25519")).Cert }}"#;
    let first = render(template, Value::Nil).unwrap();
    assert_eq!(render(template, Value::Nil).unwrap(), first);
    assert!(first.contains("2023-11-14"));
}

#[test]
fn keys_and_certificates_have_their_forms() {
    let template = r#"{{ $ca := genCA "my-ca" 365 }}{{ $cert := genSignedCert "svc" (list "10.0.0.1") (list "svc.ns") 30 $ca }}
{{- $ca.Cert }}{{ $ca.Key }}{{ $cert.Cert }}{{ $cert.Key }}{{ (buildCustomCert (b64enc $cert.Cert) (b64enc $cert.Key)).Cert | eq $cert.Cert }}"#;
    let out = render(template, Value::Nil).unwrap();
    assert_eq!(out.matches("-----BEGIN CERTIFICATE-----").count(), 2);
    assert_eq!(out.matches("-----BEGIN RSA PRIVATE KEY-----").count(), 2);
    assert!(out.ends_with("true"));
    let error = render(r#"{{ genCAWithKey "x" 1 "nonsense" }}"#, Value::Nil).unwrap_err();
    assert_eq!(error, "parsing private key: no PEM data in input");
}

#[test]
fn texts_match_go() {
    for (template, expected) in [
        // As printed by Helm v3.22 for the same template.
        (r#"{{ derivePassword 1 "long" "password" "user" "example.com" }}"#, "ZedaFaxcZaso9*"),
        (r#"{{ decryptAES "secretkey" "30tEfhuJSVRhpG97XCuWgz2okj7L8vQ1s6V9zVUPeDQ=" }}"#, "plaintext"),
        (
            r#"{{ toToml (dict "a" 1 "t" (dict "b" (list 1.5 "x") "s" (list (dict "k" true)))) }}"#,
            "a = 1\n\n[t]\n  b = [1.5, \"x\"]\n\n  [[t.s]]\n    k = true\n",
        ),
        (r#"{{ (semver "v1.2.3-rc.1+b").IncMinor }} {{ (semver "1.2").Original }}"#, "1.3.0 1.2"),
        (r#"{{ (toDate "2006-01-02" "2024-02-29").AddDate 1 0 0 }}"#, "2025-03-01 00:00:00 +0000 UTC"),
        (
            r#"{{ (toDate "2006-01-02" "2024-02-29").Month }} {{ int (toDate "2006-01-02" "2024-02-29").Month }}"#,
            "February 2",
        ),
        (r#"{{ regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W" }}"#, "-W-xxW-"),
        (r#"{{ round 123.5555 3 }} {{ addf 0.1 0.2 }} {{ divf 2 3 }}"#, "123.556 0.3 0.6666666666666667"),
        (
            r#"{{ snakecase "HTTPServer2xx" }} {{ camelcase "some_words" }} {{ initials "First Try" }}"#,
            "http_server_2xx SomeWords FT",
        ),
        (r#"{{ getHostByName "localhost" }}{{ getHostByName "nowhere" }}"#, "127.0.0.1"),
    ] {
        assert_eq!(render(template, Value::Nil).as_deref(), Ok(expected), "{template}");
    }
}
