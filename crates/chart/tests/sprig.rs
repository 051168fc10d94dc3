//! Templates outside charts: sprig's functions are available, Helm's are not.

use serde_json::json;
use steersman_chart::{System, sprig};

fn rendered(text: &str) -> Result<String, String> {
    let fields = vec![("Namespace", json!("ns")), ("Vars", json!({"a": 3, "b": ["x"]}))];
    let variable = |name: &str| (name == "HOME").then(|| "/root".to_owned());
    let environment = Box::new(System::default());
    let out = sprig::render("t", text.as_bytes(), "template.Env", fields, environment, Box::new(variable));
    out.map(|out| String::from_utf8(out).unwrap())
}

#[test]
fn sprig_is_there_and_helm_is_not() {
    assert_eq!(rendered("{{ .Namespace | upper }} {{ .Vars.a }} {{ .Vars.c }}").unwrap(), "NS 3 <no value>");
    assert_eq!(rendered(r#"{{ env "HOME" }} {{ expandenv "${HOME}/x $NO." }}"#).unwrap(), "/root /root/x .");
    assert_eq!(rendered(r#"{{ (fromJson "[1]") }} {{ fromJson "x" }}"#).unwrap(), "[1] <no value>");
    let error = rendered("{{ .Vars | toYaml }}").unwrap_err();
    assert!(error.contains(r#"function "toYaml" not defined"#), "{error}");
    let error = rendered("{{ .Release.Name }}").unwrap_err();
    assert!(error.contains("can't evaluate field Release in type template.Env"), "{error}");
}
