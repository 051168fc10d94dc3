//! A forged release record: reading it, and looking for what would be deleted, never panics; nothing but a list of
//! objects is taken from it.
//!
//! The first byte chooses: the rest is the data of a Secret, a record to be packed, or the manifest of one.

#![no_main]

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use steersman_release::{RecordKey, Redactor, documents, is_owned, read_record};

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let packed = match choice % 3 {
        0 => rest.to_vec(),
        1 => pack(rest),
        _ => {
            let manifest = String::from_utf8_lossy(rest);
            let record = json!({ "name": "it", "namespace": "lab", "version": 1, "manifest": manifest });
            pack(record.to_string().as_bytes())
        }
    };
    let signature = format!("v1:{}", String::from_utf8_lossy(rest));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "data": { "release": BASE64.encode(&packed) },
        "metadata": {
            "name": "sh.helm.release.v1.it.v1", "namespace": "lab",
            "annotations": { "release.steersman.dev/signature": signature },
        },
    });
    let key = RecordKey::new([7; RecordKey::LENGTH]);
    let forged = read_record(&secret, Some((&key, "owner"))).expect("a forged record holds up nothing");
    assert!(forged.unverified && forged.hooks.is_empty() && forged.config.is_empty());
    assert_eq!((forged.name.as_str(), forged.namespace.as_str(), forged.version), ("it", "lab", 1));
    for release in std::iter::once(forged).chain(read_record(&secret, None)) {
        for object in documents(&release.manifest).unwrap_or_default() {
            let _ = is_owned(&object, &release.name, &release.namespace);
        }
        let redactor = Redactor::new(&release);
        let _ = redactor.redact_manifest(&release.manifest);
        let _ = (redactor.redact(&release.info.notes), release.differs(&release.clone()), release.computed_values());
    }
});

fn pack(text: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = gzip.write_all(text).and_then(|()| gzip.finish()).unwrap_or_default();
    BASE64.encode(packed).into_bytes()
}
