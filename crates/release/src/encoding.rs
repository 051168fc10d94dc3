//! Encoding of records (JSON, gzip, base64), and restricted decoding of those that do not verify.

use std::io::{Read as _, Write as _};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::record::{ChartRecord, Hook, HookExecution, Info, Release, Status, nullable};

/// Maximum size of a decompressed record, in bytes.
pub(crate) const MAX_RECORD: u64 = 256 * 1024 * 1024;
/// Maximum decompressed size of a record that does not verify, which may be crafted to exhaust memory.
pub(crate) const MAX_UNVERIFIED: u64 = 16 * 1024 * 1024;
/// Maximum size of the manifest of such a record, in bytes.
const MAX_UNVERIFIED_MANIFEST: usize = 8 * 1024 * 1024;

pub(crate) fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    let broken = |reason: String| Error::Record { key: "to be stored".into(), reason };
    let text = serde_json::to_vec(record).map_err(|error| broken(error.to_string()))?;
    compress(&text).map_err(|error| broken(error.to_string()))
}

fn compress(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text)?;
    Ok(BASE64.encode(packed.finish()?).into_bytes())
}

pub(crate) fn decode<T: for<'de> Deserialize<'de>>(text: &[u8], limit: u64) -> Result<T, String> {
    serde_json::from_slice(&decompress(text, limit)?).map_err(|error| error.to_string())
}

fn decompress(text: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
    let data = BASE64.decode(text).map_err(|error| error.to_string())?;
    let mut plain = Vec::new();
    // Records of Helm versions without compression are plain.
    let read = if data.starts_with(GZIP) {
        GzDecoder::new(data.as_slice()).take(limit + 1).read_to_end(&mut plain)
    } else {
        data.as_slice().take(limit + 1).read_to_end(&mut plain)
    };
    read.map_err(|error| error.to_string())?;
    if plain.len() as u64 > limit {
        return Err(format!("unpacked content exceeds the limit of {limit} bytes"));
    }
    Ok(plain)
}

pub(crate) fn digest_of(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields that are read of a record that does not verify: its identity and its list of objects.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UnverifiedRecord {
    name: String,
    namespace: String,
    version: i64,
    #[serde(deserialize_with = "nullable")]
    info: Info,
    #[serde(deserialize_with = "nullable")]
    chart: UnverifiedChart,
    manifest: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UnverifiedChart {
    #[serde(deserialize_with = "nullable")]
    metadata: UnverifiedMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UnverifiedMetadata {
    name: String,
    version: String,
}

/// Location of a record, which its content must match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) version: i64,
}

impl Identity<'_> {
    /// Returns why a record with this identity does not belong here; `None` if it does.
    pub(crate) fn mismatch(&self, namespace: &str, name: &str, version: i64) -> Option<String> {
        if (namespace, name, version) == (self.namespace, self.name, self.version) {
            return None;
        }
        Some(format!(
            "content is revision {version} of {name:?} in namespace {namespace:?}, expected revision {} of \
             {:?} in namespace {:?}",
            self.version, self.name, self.namespace
        ))
    }
}

/// Decodes the fields that are used of a record that does not verify. An invalid one lists nothing: it must not hold
/// up its own release.
pub(crate) fn unverified(text: &[u8], identity: &Identity<'_>) -> Release {
    let record = decode::<UnverifiedRecord>(text, MAX_UNVERIFIED).and_then(|record| {
        match identity.mismatch(&record.namespace, &record.name, record.version) {
            Some(reason) => Err(reason),
            None if record.manifest.len() > MAX_UNVERIFIED_MANIFEST => {
                Err(format!("manifest exceeds the limit of {MAX_UNVERIFIED_MANIFEST} bytes"))
            }
            None => Ok(record),
        }
    });
    let record = record.unwrap_or_else(|reason| {
        let Identity { namespace, name, version } = identity;
        tracing::warn!(
            namespace,
            release = name,
            version,
            reason,
            "ignoring the objects listed in a release record"
        );
        UnverifiedRecord::default()
    });
    let UnverifiedMetadata { name: chart, version } = record.chart.metadata;
    let metadata = [("name", chart), ("version", version)];
    let metadata = metadata.into_iter().filter(|(_, text)| !text.is_empty());
    Release {
        name: identity.name.to_owned(),
        namespace: identity.namespace.to_owned(),
        version: identity.version,
        info: Info { notes: String::new(), description: String::new(), ..record.info },
        chart: ChartRecord {
            metadata: metadata.map(|(key, text)| (key.to_owned(), text.into())).collect(),
            ..ChartRecord::default()
        },
        manifest: record.manifest,
        unverified: true,
        ..Release::default()
    }
}

/// Replaces status and description in an encoded record, leaving the rest unchanged.
pub(crate) fn with_status(
    text: &[u8],
    limit: u64,
    status: Status,
    description: &str,
) -> Result<Vec<u8>, String> {
    let mut record = decompress(text, limit)?;
    let span = info_span(&record)?;
    let info = record.get(span.clone()).unwrap_or_default();
    let info: Option<Info> = serde_json::from_slice(info).map_err(|error| error.to_string())?;
    let mut info = info.unwrap_or_default();
    info.status = status;
    if !description.is_empty() {
        info.description = description.to_owned();
    }
    let info = serde_json::to_vec(&info).map_err(|error| error.to_string())?;
    record.splice(span, info);
    compress(&record).map_err(|error| error.to_string())
}

/// Returns the position of the value of `info` in a record. The rest is skipped: it may be large, with unknown
/// fields.
fn info_span(record: &[u8]) -> Result<Range<usize>, String> {
    let broken = || "not a JSON object with a field `info`".to_owned();
    let mut position = skip(record, 0, b'{').ok_or_else(broken)?;
    loop {
        let (name, after) = next::<String>(record, position)?;
        let start = skip(record, after, b':').ok_or_else(broken)?;
        let (_, end) = next::<IgnoredAny>(record, start)?;
        if name == "info" {
            return Ok(start..end);
        }
        position = skip(record, end, b',').ok_or_else(broken)?;
    }
}

/// Returns the position after optional white space and the expected byte, if it follows.
fn skip(text: &[u8], from: usize, sign: u8) -> Option<usize> {
    let rest = text.get(from..)?;
    let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    (rest.get(blank) == Some(&sign)).then_some(from + blank + 1)
}

/// Parses the JSON value at a position, and returns it with the position after it.
fn next<T: for<'de> Deserialize<'de>>(text: &[u8], from: usize) -> Result<(T, usize), String> {
    let rest = text.get(from..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<T>();
    match values.next() {
        Some(Ok(value)) => Ok((value, from + values.byte_offset())),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("unexpected end of content".to_owned()),
    }
}

/// The immutable content of a revision. The status is in its main object, so that parts are written only once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordBody {
    chart: ChartRecord,
    config: Map<String, Value>,
    manifest: String,
    hooks: Vec<Hook>,
}

/// What Helm reports for a record in parts: no cluster has this kind.
const STUB_MANIFEST: &str = "\
apiVersion: release.steersman.dev/v1
kind: StoredInPartsUseSteerInsteadOfHelm
metadata:
  name: stored-in-parts
";

impl RecordBody {
    pub(crate) fn of(release: &Release) -> Self {
        let mut hooks = release.hooks.clone();
        hooks.iter_mut().for_each(|hook| hook.last_run = HookExecution::default());
        Self {
            chart: release.chart.clone(),
            config: release.config.clone(),
            manifest: release.manifest.clone(),
            hooks,
        }
    }

    pub(crate) fn stub(release: &Release) -> Release {
        let chart = ChartRecord { metadata: release.chart.metadata.clone(), ..ChartRecord::default() };
        let hooks = release.hooks.iter().map(|hook| Hook {
            name: hook.name.clone(),
            last_run: hook.last_run.clone(),
            ..Hook::default()
        });
        Release {
            name: release.name.clone(),
            namespace: release.namespace.clone(),
            version: release.version,
            info: release.info.clone(),
            undeleted: release.undeleted.clone(),
            manifest: STUB_MANIFEST.into(),
            chart,
            hooks: hooks.collect(),
            ..Release::default()
        }
    }

    pub(crate) fn restore(self, release: &mut Release) {
        let runs: Vec<_> = std::mem::take(&mut release.hooks).into_iter().map(|hook| hook.last_run).collect();
        release.chart = self.chart;
        release.config = self.config;
        release.manifest = self.manifest;
        release.hooks = self.hooks;
        for (hook, run) in release.hooks.iter_mut().zip(runs) {
            hook.last_run = run;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HERE: Identity<'static> = Identity { namespace: "lab", name: "shop", version: 7 };

    #[test]
    fn little_is_read_of_what_does_not_verify() {
        let record = json!({
            "name": "shop", "namespace": "lab", "version": 7, "manifest": "kind: ConfigMap\n",
            "info": { "status": "deployed", "notes": "look here" }, "config": { "a": 1 }, "hooks": [{ "name": "evil" }],
            "chart": { "metadata": { "name": "c", "version": "1", "type": "library" }, "values": { "b": 2 } },
            "undeleted": [{ "kind": "Namespace", "name": "kube-system" }],
        });
        let read = unverified(&encode(&record).unwrap(), &HERE);
        assert!(
            read.unverified && read.hooks.is_empty() && read.config.is_empty() && read.undeleted.is_empty()
        );
        assert_eq!((read.info.notes.as_str(), read.info.status), ("", Status::Deployed));
        assert_eq!((read.manifest.as_str(), read.chart.title().as_str()), ("kind: ConfigMap\n", "c-1"));
        assert_eq!(read.chart.metadata.len(), 2);
    }

    #[test]
    fn what_says_that_it_is_another_lists_nothing() {
        for (field, value) in
            [("name", json!("other")), ("namespace", json!("kube-system")), ("version", json!(8))]
        {
            let mut record =
                json!({ "name": "shop", "namespace": "lab", "version": 7, "manifest": "kind: Pod" });
            record[field] = value;
            let read = unverified(&encode(&record).unwrap(), &HERE);
            assert_eq!(
                (read.manifest.as_str(), read.namespace.as_str(), read.version),
                ("", "lab", 7),
                "{field}"
            );
        }
        assert!(unverified(b"no record", &HERE).manifest.is_empty());
    }

    #[test]
    fn a_record_that_unpacks_to_too_much_is_refused() {
        let bomb = encode(&"x".repeat(2_000_000)).unwrap();
        assert!(bomb.len() < 10_000);
        let error = decode::<String>(&bomb, 1_000_000).unwrap_err();
        assert_eq!(error, "unpacked content exceeds the limit of 1000000 bytes");
    }

    #[test]
    fn another_status_leaves_the_rest_as_it_is() {
        let record = json!({
            "name": "shop", "info": { "status": "deployed", "notes": "n", "description": "d" }, "future": [1, 2.50],
        });
        let text = with_status(&encode(&record).unwrap(), 1000, Status::Superseded, "").unwrap();
        let read: Value = decode(&text, 1000).unwrap();
        assert_eq!((&read["info"]["status"], &read["info"]["notes"]), (&json!("superseded"), &json!("n")));
        assert_eq!((&read["info"]["description"], &read["future"]), (&json!("d"), &json!([1, 2.50])));
        for broken in [&json!({ "name": "shop" }), &json!([1]), &json!({})] {
            assert!(with_status(&encode(broken).unwrap(), 1000, Status::Failed, "").is_err());
        }
    }

    #[test]
    fn a_record_may_have_as_many_bytes_as_its_limit() {
        let text = serde_json::to_vec(&"x".repeat(98)).unwrap();
        assert_eq!(text.len(), 100);
        for packed in [compress(&text).unwrap(), BASE64.encode(&text).into_bytes()] {
            assert_eq!(decode::<String>(&packed, 100).unwrap().len(), 98);
            assert!(decode::<String>(&packed, 99).unwrap_err().contains("exceeds the limit of 99 bytes"));
            assert!(decode::<String>(&packed, 0).is_err());
        }
    }

    #[test]
    fn limits_are_as_they_are_said() {
        assert_eq!(
            (MAX_RECORD, MAX_UNVERIFIED, MAX_UNVERIFIED_MANIFEST),
            (268_435_456, 16_777_216, 8_388_608)
        );
    }

    #[test]
    fn a_manifest_that_does_not_verify_has_a_limit() {
        let manifest = |length: usize| {
            let record =
                json!({ "name": "shop", "namespace": "lab", "version": 7, "manifest": "x".repeat(length) });
            unverified(&encode(&record).unwrap(), &HERE).manifest.len()
        };
        assert_eq!(manifest(MAX_UNVERIFIED_MANIFEST), MAX_UNVERIFIED_MANIFEST);
        assert_eq!(manifest(MAX_UNVERIFIED_MANIFEST + 1), 0);
    }

    #[test]
    fn who_a_record_says_it_is_has_to_be_where_it_is() {
        assert_eq!(HERE.mismatch("lab", "shop", 7), None);
        assert_eq!(
            HERE.mismatch("den", "bar", 8).unwrap(),
            "content is revision 8 of \"bar\" in namespace \"den\", expected revision 7 of \"shop\" \
             in namespace \"lab\""
        );
    }

    #[test]
    fn a_description_is_changed_if_there_is_one() {
        let texts = [
            r#"{"info":{"status":"deployed","description":"d"},"rest":1}"#,
            " {\n \"first\" : {\"info\": 1} , \"info\" :\t{\"status\": \"deployed\", \"description\": \"d\"} ,\"rest\":1}",
        ];
        for text in texts {
            for (given, expected) in [("", "d"), ("new", "new")] {
                let packed =
                    with_status(&compress(text.as_bytes()).unwrap(), 1000, Status::Failed, given).unwrap();
                let read: Value = decode(&packed, 1000).unwrap();
                assert_eq!(read["info"]["status"], "failed", "{text}");
                assert_eq!(
                    (&read["info"]["description"], &read["rest"]),
                    (&json!(expected), &json!(1)),
                    "{text}"
                );
            }
        }
        let null = with_status(&compress(br#"{"info":null}"#).unwrap(), 1000, Status::Failed, "x").unwrap();
        assert_eq!(decode::<Value>(&null, 1000).unwrap()["info"]["description"], "x");
        for broken in [r#"{"a" 1}"#, r#"{"a":1"#, r#"{"a":1 "info":{}}"#, r#"{"a":}"#, "{", ""] {
            assert!(
                with_status(&compress(broken.as_bytes()).unwrap(), 1000, Status::Failed, "").is_err(),
                "{broken}"
            );
        }
    }

    #[test]
    fn a_record_in_parts_is_put_together_again() {
        let run = HookExecution { phase: "Succeeded".into(), ..HookExecution::default() };
        let hook = |name: &str, run: &HookExecution| Hook {
            name: name.into(),
            manifest: "kind: A".into(),
            last_run: run.clone(),
            ..Hook::default()
        };
        let chart: ChartRecord = serde_json::from_value(json!({
            "metadata": { "name": "c" }, "values": { "a": 1 }, "templates": ["t"], "files": ["f"],
        }))
        .unwrap();
        let release = Release {
            name: "shop".into(),
            namespace: "lab".into(),
            version: 7,
            info: Info { description: "d".into(), ..Info::default() },
            undeleted: vec![crate::record::Undeleted { name: "left".into(), ..Default::default() }],
            manifest: "kind: B".into(),
            config: [("x".to_owned(), json!(1))].into_iter().collect(),
            hooks: vec![hook("a", &run), hook("b", &HookExecution::default())],
            chart,
            ..Release::default()
        };
        let body: RecordBody = decode(&encode(&RecordBody::of(&release)).unwrap(), 100_000).unwrap();
        assert!(
            body.hooks.iter().all(|hook| hook.last_run == HookExecution::default()),
            "parts are written once"
        );
        let mut read = RecordBody::stub(&release);
        assert_eq!((read.name.as_str(), read.namespace.as_str(), read.version), ("shop", "lab", 7));
        assert_eq!((&read.info, &read.undeleted), (&release.info, &release.undeleted));
        assert_eq!((read.manifest.as_str(), read.chart.name()), (STUB_MANIFEST, "c"));
        assert!(read.config.is_empty() && read.chart.values.is_empty() && read.chart.templates.is_null());
        assert_eq!(read.hooks.iter().map(|hook| hook.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        body.restore(&mut read);
        assert_eq!(read, release);
    }
}
