//! Contents of generated certificates.

use ed25519_dalek::Verifier as _;

use super::*;
use crate::functions::tests::render;

/// The decoded contents of a certificate.
struct DecodedCertificate {
    issuer: Vec<u8>,
    from: Vec<u8>,
    until: Vec<u8>,
    subject: Vec<u8>,
    public: Vec<u8>,
    /// Identifier, criticality and value of each.
    extensions: Vec<(Vec<u8>, bool, Vec<u8>)>,
    body: Vec<u8>,
    signature: Vec<u8>,
}

impl DecodedCertificate {
    fn read(pem: &str) -> Self {
        let (kind, der) = der::from_pem(pem).unwrap();
        assert_eq!(kind, "CERTIFICATE");
        let mut certificate = Reader(&der).enter(der::SEQUENCE).unwrap();
        let body = certificate.next().unwrap();
        let algorithm = certificate.next().unwrap().whole.to_vec();
        let signature = certificate.expect(der::BIT_STRING).unwrap()[1..].to_vec();
        let mut fields = Reader(body.content);
        assert_eq!(Reader(fields.expect(0xA0).unwrap()).integer(), Some(BigUint::from(2u32)));
        fields.integer().unwrap();
        assert_eq!(fields.next().unwrap().whole, algorithm);
        let issuer = fields.next().unwrap().whole.to_vec();
        let mut validity = fields.enter(der::SEQUENCE).unwrap();
        let (from, until) =
            (validity.next().unwrap().whole.to_vec(), validity.next().unwrap().whole.to_vec());
        let subject = fields.next().unwrap().whole.to_vec();
        let public = fields.next().unwrap().content.to_vec();
        let mut extensions = Vec::new();
        let mut all = Reader(fields.expect(0xA3).unwrap()).enter(der::SEQUENCE).unwrap();
        while let Some(mut extension) = all.enter(der::SEQUENCE) {
            let id = extension.expect(der::OBJECT_IDENTIFIER).unwrap().to_vec();
            let critical = extension.optional(0x01).is_some();
            extensions.push((id, critical, extension.expect(der::OCTET_STRING).unwrap().to_vec()));
        }
        let body = body.whole.to_vec();
        Self { issuer, from, until, subject, public, extensions, body, signature }
    }

    fn extension(&self, id: &[u8]) -> Option<(bool, &[u8])> {
        let found = self.extensions.iter().find(|(own, ..)| own == id)?;
        Some((found.1, &found.2))
    }

    /// Whether the key of `signer` signed this.
    fn is_signed_by(&self, signer: &Self) -> bool {
        let key = signer.public.last_chunk::<32>().unwrap();
        let key = ed25519_dalek::VerifyingKey::from_bytes(key).unwrap();
        let signature = ed25519_dalek::Signature::from_slice(&self.signature).unwrap();
        key.verify(&self.body, &signature).is_ok()
    }
}

/// Returns the certificates that a template prints; it can use two keys.
fn certificates(template: &str) -> Vec<DecodedCertificate> {
    let keys = r#"{{ $k := genPrivateKey "ed25519" }}{{ $l := genPrivateKey "ed25519" }}"#;
    let out = render(&format!("{keys}{template}"), Value::Nil).unwrap();
    out.split_inclusive("-----END CERTIFICATE-----\n").map(DecodedCertificate::read).collect()
}

fn failed(template: &str) -> String {
    let keys = r#"{{ $k := genPrivateKey "ed25519" }}{{ $l := genPrivateKey "ed25519" }}"#;
    render(&format!("{keys}{template}"), Value::Nil).unwrap_err()
}

fn name(tag: u8, text: &str) -> Vec<u8> {
    sequence(&[tlv(der::SET, &sequence(&[oid(COMMON_NAME), tlv(tag, text.as_bytes())]))])
}

#[test]
fn a_self_signed_certificate_names_hosts_and_addresses() {
    let said = certificates(
        r#"{{ (genSelfSignedCertWithKey "svc" (list "10.0.0.1" "::1" "::ffff:1.2.3.4") (list "a.b") 365 $k).Cert }}"#,
    );
    let [said] = said.as_slice() else { panic!("not one certificate") };
    assert_eq!((&said.subject, &said.issuer), (&name(der::PRINTABLE_STRING, "svc"), &said.subject));
    assert_eq!(said.from, tlv(der::UTC_TIME, b"231114221320Z"));
    assert_eq!(said.until, tlv(der::UTC_TIME, b"241113221320Z"));
    let ids: Vec<&[u8]> = said.extensions.iter().map(|(id, ..)| id.as_slice()).collect();
    assert_eq!(ids, [KEY_USAGE, EXT_KEY_USAGE, BASIC_CONSTRAINTS, SUBJECT_ALT_NAME]);
    assert_eq!(said.extension(KEY_USAGE), Some((true, &[3, 2, 5, 0xA0][..])));
    assert_eq!(said.extension(BASIC_CONSTRAINTS), Some((true, &[0x30, 0][..])));
    let uses = sequence(&[oid(SERVER_AUTH), oid(CLIENT_AUTH)]);
    assert_eq!(said.extension(EXT_KEY_USAGE), Some((false, uses.as_slice())));
    let mut six = [0; 16];
    six[15] = 1;
    let names = [tlv(0x82, b"a.b"), tlv(0x87, &[10, 0, 0, 1]), tlv(0x87, &six), tlv(0x87, &[1, 2, 3, 4])];
    assert_eq!(said.extension(SUBJECT_ALT_NAME), Some((false, sequence(&names).as_slice())));
    assert!(said.is_signed_by(said));
}

#[test]
fn an_authority_signs_for_others() {
    let said = certificates(
        r#"{{ $ca := genCAWithKey "ca" 1 $k }}{{ $ca.Cert }}{{ (genSignedCertWithKey "svc" nil nil 1 $ca $l).Cert
        }}{{ (genSignedCertWithKey "ca" nil nil 1 $ca $l).Cert }}"#,
    );
    let [ca, signed, namesake] = said.as_slice() else { panic!("not three certificates") };
    assert_eq!(ca.extension(KEY_USAGE), Some((true, &[3, 2, 2, 0xA4][..])));
    assert_eq!(ca.extension(BASIC_CONSTRAINTS), Some((true, &[0x30, 3, 1, 1, 0xFF][..])));
    let id = sha2::Sha256::digest(ca.public.last_chunk::<32>().unwrap());
    let (critical, own) = ca.extension(SUBJECT_KEY_ID).unwrap();
    assert_eq!((critical, own), (false, tlv(der::OCTET_STRING, &id[..20]).as_slice()));
    assert!(ca.extension(AUTHORITY_KEY_ID).is_none() && ca.extension(SUBJECT_ALT_NAME).is_none());

    assert_eq!((&signed.issuer, &signed.subject), (&ca.subject, &name(der::PRINTABLE_STRING, "svc")));
    let authority = sequence(&[tlv(0x80, &id[..20])]);
    assert_eq!(signed.extension(AUTHORITY_KEY_ID), Some((false, authority.as_slice())));
    assert!(signed.extension(SUBJECT_KEY_ID).is_none());
    assert!(signed.is_signed_by(ca) && !signed.is_signed_by(signed) && ca.is_signed_by(ca));
    // With the same name as its issuer, it looks self-signed.
    assert!(namesake.extension(AUTHORITY_KEY_ID).is_none() && namesake.is_signed_by(ca));
}

#[test]
fn a_certificate_without_a_name_must_have_its_others_understood() {
    let said = certificates(
        r#"{{ (genSelfSignedCertWithKey "" nil (list "a.b") 1 $k).Cert }}{{ (genSelfSignedCertWithKey "" (list "1.2.3.4") nil 1 $k).Cert
        }}{{ (genSelfSignedCertWithKey "" nil nil 1 $k).Cert }}{{ (genSelfSignedCertWithKey "a_é" nil nil 100000 $k).Cert }}"#,
    );
    let [host, address, neither, long] = said.as_slice() else { panic!("not four certificates") };
    assert_eq!(host.subject, [0x30, 0]);
    assert_eq!(host.extension(SUBJECT_ALT_NAME).map(|(critical, _)| critical), Some(true));
    assert_eq!(address.extension(SUBJECT_ALT_NAME).map(|(critical, _)| critical), Some(true));
    assert!(neither.extension(SUBJECT_ALT_NAME).is_none());
    assert_eq!(long.subject, name(der::UTF8_STRING, "a_\u{e9}"));
    assert_eq!(long.until, tlv(der::GENERALIZED_TIME, b"22970829221320Z"));
}

#[test]
fn years_are_written_with_two_or_four_digits() {
    let encoded = |year: i64| encode_time(&Time::from_civil(year, 1, 2, (3, 4, 5), 0));
    assert_eq!(encoded(1950), Ok(tlv(der::UTC_TIME, b"500102030405Z")));
    assert_eq!(encoded(2049), Ok(tlv(der::UTC_TIME, b"490102030405Z")));
    assert_eq!(encoded(1949), Ok(tlv(der::GENERALIZED_TIME, b"19490102030405Z")));
    assert_eq!(encoded(2050), Ok(tlv(der::GENERALIZED_TIME, b"20500102030405Z")));
    assert_eq!(encoded(9999), Ok(tlv(der::GENERALIZED_TIME, b"99990102030405Z")));
    assert!(encoded(10_000).is_err() && encoded(-1).is_err());
}

#[test]
fn what_cannot_be_certified_is_told() {
    assert_eq!(
        failed(r#"{{ genSelfSignedCertWithKey "x" nil (list "é") 1 $k }}"#),
        "error creating certificate: x509: \"\u{e9}\" cannot be encoded as an IA5String"
    );
    assert_eq!(failed(r#"{{ genSelfSignedCertWithKey "x" (list "y") nil 1 $k }}"#), "error parsing ip: y");
    assert_eq!(
        failed(r#"{{ genSelfSignedCertWithKey "x" (list 1) nil 1 $k }}"#),
        "error parsing ip: 1 is not a string"
    );
    assert_eq!(
        failed(r#"{{ genSelfSignedCertWithKey "x" nil (list 1) 1 $k }}"#),
        "error processing alternate dns name: 1 is not a string"
    );
    let custom =
        r#"{{ $ca := genCAWithKey "ca" 1 $k }}{{ $ca = buildCustomCert (b64enc $ca.Cert) (b64enc $l) }}"#;
    assert_eq!(
        failed(&format!(r#"{custom}{{{{ genSignedCertWithKey "x" nil nil 1 $ca $l }}}}"#)),
        "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey"
    );
    assert_eq!(failed(r#"{{ buildCustomCert "YQ==" "YQ==" }}"#), "unable to decode certificate");
    assert_eq!(failed(r#"{{ buildCustomCert "!" "YQ==" }}"#), "unable to decode base64 certificate");
    assert_eq!(failed(r#"{{ buildCustomCert "YQ==" "!" }}"#), "unable to decode base64 private key");
    let short = b64(&der::to_pem("CERTIFICATE", &sequence(&[vec![5, 0]])));
    assert_eq!(
        failed(&format!(r#"{{{{ buildCustomCert "{short}" "YQ==" }}}}"#)),
        "error parsing certificate: decodedCert.Bytes: x509: malformed certificate"
    );
}

fn b64(text: &str) -> String {
    crate::functions::encoding::base64(text.as_bytes())
}

#[test]
fn a_certificate_shows_its_two_texts() {
    let out = render(
        r#"{{ $c := genCAWithKey "ca" 1 (genPrivateKey "ed25519") }}{{ typeOf $c }} {{ kindOf $c }} {{ eq (print $c) (printf "{%s %s}" $c.Cert $c.Key)
        }} {{ eq (toJson $c) (toJson (dict "Cert" $c.Cert "Key" $c.Key)) }} {{ hasPrefix "{Cert:-----BEGIN" (printf "%+v" $c) }}"#,
        Value::Nil,
    );
    assert_eq!(out.unwrap(), "sprig.certificate struct true true true");
}
