//! Compares the embedded API server with a selection of what the real one answered, which needs no Go.

use steersman_k8s_oracle::suite;
use steersman_k8s_oracle::target::Target;

/// How many cases of an area are under way at once: each mostly waits.
const JOBS: usize = 48;

async fn compare(area: &str) {
    let report = suite::replay(area, Target::in_process, JOBS).await;
    let total = report.total();
    print!("{}", report.summary());
    assert!(total.tried > 0, "there are recorded cases");
    assert_eq!(total.different, 0, "{}", report.text);
}

/// A test for each area: what differs in one is told before the others have ended.
macro_rules! areas {
    ($($area:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $area() {
                compare(&stringify!($area).replace('_', "-")).await;
            }
        )*

        #[test]
        fn every_recorded_area_has_its_test() {
            let tested = [$(stringify!($area).replace('_', "-")),*];
            assert_eq!(suite::kept_areas(), tested);
        }
    };
}

areas! {
    apply,
    authorizer,
    cel,
    conversions,
    crd_definitions,
    crd_versions,
    crds,
    create,
    delete,
    discovery,
    events,
    field_validation,
    flowcontrol,
    generate_name,
    generated_applies,
    generated_custom,
    generated_definitions,
    generated_lists,
    generated_objects,
    generated_patches,
    generated_ruled,
    generated_rules,
    limits,
    list,
    mutations,
    namespaces,
    patch,
    policies,
    protobuf,
    rbac,
    rights,
    services,
    subresources,
    tables,
    update,
    watch,
    workloads,
}
