//! An embedded cluster with KUDO's operator and its webhook.

use std::collections::BTreeMap;

use steersman::testing::TestEnv;
use steersman_cluster::Cluster;
use steersman_kudo_operator::{Admission, Kudo, KudoOperator, SERVICE, SimulatedFiles};

pub(crate) async fn start() -> (TestEnv, Kudo) {
    let cluster = Cluster::start().await.unwrap();
    let admission = Admission::new(cluster.client());
    cluster.webhooks_by("default", SERVICE, move |request| admission.clone().answer(request));
    let mut env = TestEnv::on(cluster);
    let kudo = Kudo::new(env.client(), "default");
    kudo.init().await.unwrap();
    kudo.register_webhook("default").await.unwrap();
    env.run(KudoOperator::new().files(SimulatedFiles).operator());
    (env, kudo)
}

pub(crate) fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
