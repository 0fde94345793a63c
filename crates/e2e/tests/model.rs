//! Random operations of several clients, locks included, held against a reference tree.

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, Rig};
use holdfast_testkit::model::Workload;

/// Four seeds of 12,000 operations; `HOLDFAST_MODEL_SEEDS` sets how many seeds, `HOLDFAST_MODEL_FIRST` where to begin.
#[test]
fn random_operations_of_several_clients_leave_what_the_reference_tree_says() -> Outcome {
    let first = knob("HOLDFAST_MODEL_FIRST", 1_u64);
    let mut rig = Rig::new()?;
    let mut client = rig.client();
    for seed in first..first + knob("HOLDFAST_MODEL_SEEDS", 4) {
        let base = format!("{HOME}/seed{seed}");
        client.mkcol(&base)?.expect_status(201)?;
        let workload = Workload { seed, operations: 3000, ..Workload::default() };
        let done = workload.run(&client, &base).map_err(|error| format!("seed {seed}: {error}"))?;
        println!("seed {seed}: {} operations, {done} of them done", workload.clients * workload.operations);
        assert!(done > 2500, "seed {seed}: only {done} operations were not refused");
    }
    expect_clean(rig.server.options())?;
    rig.stop()?;
    expect_clean(rig.server.options())
}
