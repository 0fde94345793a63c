//! Files that a mount has open while no version of what they were is kept. In a program of its own: one that starts others meanwhile saves what is written to a file whenever one
//! begins.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::filesystem::errno;
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::{HOME, NAME};
use holdfast_e2e::wait::until;
use holdfast_testkit::rng::Prng;

/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(20);
/// Bytes of a file of several blocks.
const SEVERAL_BLOCKS: usize = 5 << 20;

#[test]
fn what_was_written_over_a_content_that_is_purged_is_refused_and_nothing_else_is_lost() -> Outcome {
    let net = Net::new()?;
    // As where another writer saves all the time and old versions thin out.
    net.rig.run(&["space", "set", NAME, "--keep-versions", "1"], b"")?;
    let (mut client, mut rng) = (net.client(), Prng::new(11));
    let mut put = || -> Outcome<Vec<u8>> {
        let mut content = vec![0; SEVERAL_BLOCKS];
        rng.fill(&mut content);
        let answer = client.put(&format!("{HOME}/f"), content.clone())?;
        assert!(answer.is_success(), "{}", answer.text());
        Ok(content)
    };
    let (mut mounts, mut whole_ones) = (Vec::new(), Vec::new());
    for (name, is_first) in [("plain", false), ("first", true)] {
        put()?;
        let mount = if is_first { net.mount_first(name, &[])? } else { net.mount(name, &[])? };
        let path = mount.at().join("f");
        let names = || -> Outcome<BTreeSet<String>> {
            fs::read_dir(mount.at())?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        };
        let before = names()?;
        let open = || OpenOptions::new().read(true).write(true).open(&path);
        let (writer, reader) = (open()?, File::open(&path)?);
        writer.write_all_at(&[7; 4096], 2 << 20)?;
        put()?;
        let theirs = put()?;
        net.rig.reclaim()?;
        // What was written is there, and what it was written over is not.
        let mut found = [0; 4096];
        writer.read_exact_at(&mut found, 2 << 20)?;
        assert_eq!(found, [7; 4096]);
        assert_eq!(errno(writer.read_at(&mut found, 4 << 20)), Some(libc::ESTALE));
        for _ in 0..3 {
            assert_eq!(errno(writer.sync_all()), Some(libc::ESTALE));
        }
        assert_eq!(names()?, before, "no empty file is left of the tries");
        drop(writer);
        until("who has it open still sees what the other wrote", SOON, || {
            let mut found = vec![0; SEVERAL_BLOCKS];
            reader.read_exact_at(&mut found, 0).is_ok_and(|()| found == theirs)
        })?;
        assert!(fs::read(&path)? == theirs);
        // What is written whole needs nothing of what was, and both are kept.
        let writer = open()?;
        writer.write_all_at(b"begun", 0)?;
        put()?;
        let theirs = put()?;
        net.rig.reclaim()?;
        let own = vec![u8::from(is_first); 300_000];
        writer.set_len(0)?;
        writer.write_all_at(&own, 0)?;
        assert_eq!(errno(writer.sync_all()), Some(libc::ESTALE));
        writer.sync_all()?;
        drop(writer);
        assert!(fs::read(&path)? == theirs);
        let made: Vec<String> = names()?.difference(&before).cloned().collect();
        assert_eq!(made.len(), 1, "{made:?}");
        assert!(fs::read(mount.at().join(&made[0]))? == own);
        whole_ones.push((made[0].clone(), own));
        mounts.push(mount);
    }
    for (name, content) in &whole_ones {
        assert!(mounts.iter().all(|mount| fs::read(mount.at().join(name)).is_ok_and(|found| found == *content)));
    }
    assert!(!net.rig.server.log().contains("Damaged"), "{}", net.rig.server.log());
    for mount in mounts {
        let said = mount.stop().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("what it was before is no longer kept") && said.contains("both are kept"), "{said}");
    }
    net.end([])
}
