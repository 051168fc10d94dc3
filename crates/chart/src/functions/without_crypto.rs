//! Substitutes for `crypto` in a build without that feature: they fail only when called.

use steersman_gotemplate::{CallError, Funcs, Type, Value};

use super::{Host, args};

const NAMES: [&str; 13] = [
    "bcrypt",
    "buildCustomCert",
    "decryptAES",
    "derivePassword",
    "encryptAES",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "htpasswd",
];

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    args::insert(funcs, &NAMES, &[], Some(Type::Any), |_| {
        Err::<Value, _>(CallError::new("not available: built without the feature `crypto`"))
    });
}
