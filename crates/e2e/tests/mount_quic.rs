//! A drive mounted from its server by the QUIC plane, over a network that does harm.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::filesystem::{operations_are_the_same, same_trees};
use holdfast_e2e::knob::knob;
use holdfast_e2e::networked::Net;
use holdfast_testkit::datagrams::{Harm, Relay};
use holdfast_testkit::rng::Prng;

/// `HOLDFAST_MOUNT_QUIC_STEPS` operations.
#[test]
fn random_operations_do_what_a_native_folder_does_where_half_is_lost() -> Outcome {
    let net = Net::new()?;
    let relay = Relay::start(
        net.address(),
        Harm { lost: 0.5, late: 0.1, doubled: 0.05, corrupted: 0.02, delay: Duration::from_millis(1) },
    )?;
    let mount = net.mount_by_quic(relay.address(), "mnt", &["--deadline", "60"])?;
    let native = tempfile::tempdir()?;
    operations_are_the_same(mount.at(), native.path(), 3, knob("HOLDFAST_MOUNT_QUIC_STEPS", 60))?;
    same_trees(mount.at(), native.path())?;
    net.end([mount])
}

#[test]
fn a_large_file_is_whole_though_the_client_moves_and_the_network_goes_away() -> Outcome {
    let net = Net::new()?;
    let relay = Relay::start(net.address(), Harm { lost: 0.02, ..Harm::default() })?;
    let mount = net.mount_by_quic(relay.address(), "mnt", &["--deadline", "60"])?;
    let mut content = vec![0; 16 << 20];
    Prng::new(5).fill(&mut content);
    std::thread::scope(|scope| {
        let disturbed = scope.spawn(|| {
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(400));
                relay.move_clients()?;
                relay.set_down(true);
                std::thread::sleep(Duration::from_millis(1_500));
                relay.set_down(false);
            }
            std::io::Result::Ok(())
        });
        let mut file = File::create(mount.at().join("large"))?;
        file.write_all(&content)?;
        file.sync_all()?;
        drop(file);
        disturbed.join().map_err(|_| "the relay failed")??;
        Outcome::Ok(())
    })?;
    // Read through another mount, which has nothing in memory.
    let other = net.mount_by_quic(relay.address(), "other", &["--read-only"])?;
    let mut found = Vec::new();
    File::open(other.at().join("large"))?.read_to_end(&mut found)?;
    assert!(found == content, "{} bytes came back of {}", found.len(), content.len());
    other.stop()?;
    net.end([mount])
}

#[test]
fn a_server_that_is_killed_is_found_again() -> Outcome {
    let mut net = Net::new()?;
    let relay = Relay::start(net.address(), Harm::default())?;
    let mount = net.mount_by_quic(relay.address(), "mnt", &["--deadline", "60"])?;
    fs::write(mount.at().join("before"), "x")?;
    net.rig.server.kill_9()?;
    net.rig.start_again()?;
    fs::write(mount.at().join("after"), "y")?;
    assert_eq!(fs::read_to_string(mount.at().join("before"))?, "x");
    net.end([mount])
}

#[test]
fn a_port_that_does_not_answer_and_one_without_tls_are_said_clearly() -> Outcome {
    let mut net = Net::new()?;
    let at = net.rig.scratch().join("mnt");
    fs::create_dir(&at)?;
    let token = net.rig.scratch().join("token");
    fs::write(&token, &net.token)?;
    let mut command = net.rig.server.options().command()?;
    command.arg("mount").arg("http://127.0.0.1:1").arg(&at).arg("--token-file").arg(&token).args(["--plane", "quic"]);
    let refused = command.output()?;
    let said = String::from_utf8(refused.stderr)?;
    assert!(!refused.status.success() && said.contains("https://"), "{said}");
    let relay = Relay::start(net.address(), Harm { lost: 1.0, ..Harm::default() })?;
    let refused = net.mount_by_quic(relay.address(), "dead", &["--deadline", "3"]);
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("did not answer within 3 s"), "{said}");
    net.rig.stop()?;
    Ok(())
}
