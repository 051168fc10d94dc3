//! Stubs slow template functions: keys and hashes do not affect which kinds a chart creates.

use steersman_chart::{Chart, File, archive_files};

/// Maximum nesting depth of packed subcharts.
const MAX_DEPTH: usize = 8;

/// Slow functions, which generate primes or hash passwords, and stubs that accept the same arguments.
///
/// Functions that return a certificate are replaced by a dict with the same keys; an odd number of arguments needs one
/// more to form pairs.
const STUBS: [(&str, &str); 11] = [
    ("bcrypt", "print"),
    ("buildCustomCert", r#"dict "Cert" "-" "Key" "-""#),
    ("derivePassword", "print"),
    ("genCA", r#"dict "Cert" "-" "Key" "-""#),
    ("genCAWithKey", r#"dict "Cert" "-" "Key" "-" "-""#),
    ("genPrivateKey", "print"),
    ("genSelfSignedCert", r#"dict "Cert" "-" "Key" "-""#),
    ("genSelfSignedCertWithKey", r#"dict "Cert" "-" "Key" "-" "-""#),
    ("genSignedCert", r#"dict "Cert" "-" "Key" "-" "-""#),
    ("genSignedCertWithKey", r#"dict "Cert" "-" "Key" "-""#),
    ("htpasswd", "print"),
];

/// Returns the chart with slow functions stubbed; `None` if it uses none, or does not load with stubs.
pub(super) fn stubbed(chart: &Chart) -> Option<Chart> {
    let mut files = Vec::new();
    unpack("", chart.all_files(), &mut files, 0);
    let mut changed = false;
    for file in files.iter_mut().filter(|file| file.name.split('/').any(|part| part == "templates")) {
        let stubbed = replace(&file.data.to_str_lossy());
        if let Some(stubbed) = stubbed {
            *file = File::new(file.name.clone(), stubbed);
            changed = true;
        }
    }
    changed.then(|| Chart::from_files(files).ok())?
}

/// Collects the files, with packed charts replaced by their content.
fn unpack(prefix: &str, files: &[File], all: &mut Vec<File>, depth: usize) {
    for file in files {
        let packed =
            file.name.strip_suffix(".tgz").filter(|_| file.name.starts_with("charts/") && depth < MAX_DEPTH);
        match packed.and_then(|name| Some((name, archive_files(&file.data).ok()?))) {
            Some((name, inner)) => unpack(&format!("{prefix}{name}/"), &inner, all, depth + 1),
            None => all.push(File::new(format!("{prefix}{}", file.name), file.data.clone())),
        }
    }
}

/// Replaces slow functions in a template; `None` if it uses none.
fn replace(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '"' | '-');
    let mut replaced: Option<String> = None;
    for (name, stub) in STUBS {
        let current = replaced.as_deref().unwrap_or(text);
        if !current.contains(name) {
            continue;
        }
        let mut out = String::with_capacity(current.len());
        let mut rest = current;
        while let Some(at) = rest.find(name) {
            let (before, after) = rest.split_at(at);
            let after = after.get(name.len()..).unwrap_or_default();
            let stands_alone = !before.ends_with(is_part) && !after.starts_with(is_part);
            out.push_str(before);
            out.push_str(if stands_alone { stub } else { name });
            rest = after;
        }
        out.push_str(rest);
        replaced = Some(out);
    }
    replaced.filter(|replaced| replaced != text)
}

#[cfg(test)]
mod tests {
    use steersman_chart::{RenderOptions, Seeded, Values};

    use super::*;

    #[test]
    fn keys_are_not_made() {
        let template = "\
{{- $ca := genCA \"a\" 365 }}
{{- $cert := genSignedCert \"b\" nil (list \"c\") 365 $ca }}
{{- $own := genSelfSignedCert \"d\" nil nil 365 }}
kind: Secret
data: {a: {{ $ca.Cert }}, b: {{ $cert.Key }}, c: {{ $own.Cert }}, d: {{ genPrivateKey \"rsa\" }}, e: {{ htpasswd \"u\" \"p\" }}}
genCA: {{ .Values.genCA }}
";
        let chart = Chart::from_files([
            File::new("Chart.yaml", "{apiVersion: v2, name: x, version: 0.1.0}"),
            File::new("values.yaml", "genCA: {}"),
            File::new("templates/a.yaml", template),
        ]);
        let chart = stubbed(&chart.unwrap()).unwrap();
        let environment = Seeded::new(1, std::time::SystemTime::UNIX_EPOCH);
        let rendered = chart.render(&Values::new(), &RenderOptions::default(), environment).unwrap();
        assert!(rendered.manifests[0].content.contains("a: -, b: -, c: -, d: rsa, e: up"), "{rendered:?}");
    }

    #[test]
    fn charts_without_such_functions_stay() {
        assert_eq!(replace("{{ .Values.genCA }} {{ include \"x.genCA\" . }} {{ $genCA }}"), None);
    }
}
