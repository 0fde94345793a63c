//! Holes, room made and given back within files, and copies that move no byte: what programs that copy and pack files do with them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::filesystem::errno;
use holdfast_e2e::mounted::{Ground, Mount, run};
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::HOME;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::ServerOptions;
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn random(seed: u64, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
    Prng::new(seed).fill(&mut content);
    content
}

/// How often an operation was done, and how it failed.
fn count(options: &ServerOptions, at: &Path, operation: &str) -> Outcome<(u64, Value)> {
    let said = run(options.command()?.args(["mount", "status", "--json"]).arg(at))?;
    let said: Value = serde_json::from_str(&said)?;
    let all = said[0]["operations"].as_array().ok_or("no operations")?;
    let found = all.iter().find(|it| it["operation"] == operation);
    Ok(found.map_or((0, Value::Null), |it| (it["count"].as_u64().unwrap_or(0), it["errors"].clone())))
}

/// Where data and holes begin, in turn, from the start of a file.
fn extents(path: &Path) -> Outcome<Vec<u64>> {
    let file = File::open(path)?;
    let (size, mut at, mut all) = (file.metadata()?.len(), 0, Vec::new());
    while at < size {
        let data = match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = seek(&file, SeekFrom::Hole(data))?;
        all.extend([data, at]);
    }
    assert_eq!(seek(&file, SeekFrom::Data(size)), Err(rustix::io::Errno::NXIO));
    assert_eq!(seek(&file, SeekFrom::Hole(size)), Err(rustix::io::Errno::NXIO));
    Ok(all)
}

#[test]
fn holes_are_found_and_programs_leave_them_out() -> Outcome {
    let ground = Ground::new()?;
    ground.with(|at| {
        let (path, data) = (at.join("sparse"), random(1, MIB));
        let file = File::create(&path)?;
        file.set_len(100 * MIB + 5)?;
        file.write_all_at(&data, 40 * MIB)?;
        file.write_all_at(b"end", 100 * MIB + 2)?;
        drop(file);
        // The block of the end is data, whatever is in it.
        assert_eq!(extents(&path)?, [40 * MIB, 41 * MIB, 100 * MIB, 100 * MIB + 5]);
        assert!(fs::metadata(&path)?.blocks() * 512 < 100 * MIB + 5, "it looks as if it may have holes");
        // In the middle of one, and of data.
        let file = File::open(&path)?;
        assert_eq!(seek(&file, SeekFrom::Data(MIB / 2))?, 40 * MIB);
        assert_eq!(seek(&file, SeekFrom::Hole(MIB / 2))?, MIB / 2);
        assert_eq!(seek(&file, SeekFrom::Data(40 * MIB + 7))?, 40 * MIB + 7);
        drop(file);
        // To a disk, where what is left out takes no room, and into an archive.
        let out = tempfile::tempdir()?;
        let copy = out.path().join("copy");
        run(Command::new("cp").arg("--sparse=auto").arg(&path).arg(&copy))?;
        assert!(fs::metadata(&copy)?.blocks() * 512 < 8 * MIB, "{} blocks", fs::metadata(&copy)?.blocks());
        assert!(fs::read(&copy)? == fs::read(&path)?);
        let archive = out.path().join("archive");
        run(Command::new("tar").arg("-C").arg(at).arg("-Scf").arg(&archive).arg("sparse"))?;
        assert!(fs::metadata(&archive)?.len() < 4 * MIB, "{} bytes", fs::metadata(&archive)?.len());
        fs::create_dir(at.join("unpacked"))?;
        run(Command::new("tar").arg("-C").arg(at.join("unpacked")).arg("-xf").arg(&archive))?;
        assert!(fs::read(at.join("unpacked/sparse"))? == fs::read(&path)?);
        // Back from the disk, and within the mount.
        run(Command::new("cp").arg("--sparse=always").arg(&copy).arg(at.join("back")))?;
        assert!(fs::read(at.join("back"))? == fs::read(&path)?);
        run(Command::new("cp").arg(&path).arg(at.join("beside")))?;
        assert!(fs::read(at.join("beside"))? == fs::read(&path)?);
        // None in what has none, and nothing else in what is nothing else.
        fs::write(at.join("full"), random(2, 3 * MIB + 9))?;
        assert_eq!(extents(&at.join("full"))?, [0, 3 * MIB + 9]);
        fs::write(at.join("small"), "x")?;
        assert_eq!(extents(&at.join("small"))?, [0, 1]);
        let unsaved = File::create(at.join("unsaved"))?;
        unsaved.set_len(9 * MIB)?;
        unsaved.write_all_at(b"x", 4 * MIB + 100_000)?;
        let page = (4 * MIB + 65_536, 4 * MIB + 2 * 65_536);
        assert_eq!(extents(&at.join("unsaved"))?, [page.0, page.1], "to a page, while it is written");
        drop(unsaved);
        assert_eq!(extents(&at.join("unsaved"))?, [4 * MIB, 5 * MIB], "and to a block");
        assert!(fs::metadata(at.join("full"))?.blocks() * 512 >= 3 * MIB + 9, "what has none does not say so");
        File::create(at.join("zeros"))?.set_len(5 * MIB)?;
        assert_eq!(extents(&at.join("zeros"))?, [] as [u64; 0]);
        Ok(())
    })
}

/// The same calls, in the mount and in a native folder.
#[test]
fn room_is_made_cleared_and_given_back_as_in_a_native_folder() -> Outcome {
    let ground = Ground::new()?;
    let native = tempfile::tempdir()?;
    let (keep, punch, zero) = (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
    ground.with(|at| {
        let (ours, theirs) = (at.join("f"), native.path().join("f"));
        let content = random(3, 3 * MIB + 700);
        fs::write(&ours, &content)?;
        fs::write(&theirs, &content)?;
        let steps = [
            (FallocateFlags::empty(), 0, 10),
            (FallocateFlags::empty(), 3 * MIB, 5_000),
            (keep, 3 * MIB, MIB),
            (punch | keep, 100, 5_000),
            (punch | keep, MIB / 2, MIB),
            (punch | keep, 3 * MIB, 20 * MIB),
            (punch | keep, 50 * MIB, MIB),
            (zero, 2 * MIB - 3, 6),
            (zero | keep, 3 * MIB, 9 * MIB),
            (zero, 3 * MIB + 10, 2 * MIB),
        ];
        for reopened in [false, true] {
            for (number, (mode, start, length)) in steps.into_iter().enumerate() {
                let did = |path: &Path| -> Outcome<_> {
                    let file = OpenOptions::new().read(true).write(true).open(path)?;
                    if !reopened {
                        file.write_all_at(&[u8::try_from(number)? + 1; 300], start / 2)?;
                    }
                    let done = fallocate(&file, mode, start, length).map_err(rustix::io::Errno::raw_os_error);
                    Ok((done, file.metadata()?.len()))
                };
                assert_eq!(did(&ours)?, did(&theirs)?, "{number}: {mode:?} {start} {length}");
                assert!(fs::read(&ours)? == fs::read(&theirs)?, "{number}: {mode:?} {start} {length}");
            }
        }
        let file = OpenOptions::new().write(true).open(&ours)?;
        let refused = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, MIB);
        assert_eq!(refused, Err(rustix::io::Errno::OPNOTSUPP), "what is not there is said");
        assert_eq!(errno(File::open(&ours)?.set_len(1)), Some(libc::EINVAL), "who may not write does not");
        // What was punched is a hole when it is saved.
        fallocate(&file, punch | keep, MIB, MIB)?;
        drop(file);
        let all = extents(&ours)?;
        assert!(!all.chunks(2).any(|extent| extent[0] < 2 * MIB && extent[1] > MIB), "{all:?}");
        Ok(())
    })
}

/// Copies within a mount, by programs and by calls; whole files move no bytes.
fn copies(options: &ServerOptions, mount: &Mount) -> Outcome {
    let at = mount.at();
    let content = random(4, 7 * MIB + 1_234);
    fs::write(at.join("one"), &content)?;
    let written = || -> Outcome<u64> { Ok(count(options, at, "write")?.0) };
    let before = written()?;
    run(Command::new("cp").arg("--preserve=mode").arg(at.join("one")).arg(at.join("two")))?;
    assert_eq!(written()?, before, "nothing was written");
    let (done, errors) = count(options, at, "copy_file_range")?;
    assert!(done > 0 && errors == serde_json::json!({}), "{done} {errors}");
    assert!(fs::read(at.join("two"))? == content);
    assert_eq!(fs::metadata(at.join("two"))?.len(), content.len() as u64);
    // Over another file, which is cut off before.
    fs::write(at.join("three"), random(5, 2 * MIB))?;
    let before = written()?;
    run(Command::new("cp").arg(at.join("one")).arg(at.join("three")))?;
    assert!(fs::read(at.join("three"))? == content);
    assert_eq!(written()?, before, "nor here");
    // Each is a file of its own.
    OpenOptions::new().write(true).open(at.join("two"))?.write_all_at(b"changed", 3 * MIB)?;
    assert!(fs::read(at.join("one"))? == content && fs::read(at.join("three"))? == content);
    assert_eq!(&fs::read(at.join("two"))?[3 << 20..][..7], b"changed");

    // By parts: at the end and whole blocks, and every other way, which moves bytes.
    let source = File::open(at.join("one"))?;
    for (number, (from, to, length)) in [
        (0, 0, 2 * MIB),
        (2 * MIB, 0, MIB),
        (MIB, 0, 100 * MIB),
        (0, 2 * MIB, 2 * MIB),
        (0, 5, 2 * MIB),
        (7, 0, MIB),
        (0, 0, MIB - 1),
        (7 * MIB, 4 * MIB, 5_000),
        (7 * MIB + 1_234, 0, 10),
        (0, MIB / 2, 7 * MIB),
    ]
    .into_iter()
    .enumerate()
    {
        for start in [Vec::new(), random(6, MIB), random(7, 2 * MIB + 17)] {
            let path = at.join(format!("part{number}"));
            fs::write(&path, &start)?;
            let target = OpenOptions::new().write(true).open(&path)?;
            let (mut here, mut there, mut done) = (from, to, 0);
            while done < length {
                let left = usize::try_from(length - done)?;
                let copied = copy_file_range(&source, Some(&mut here), &target, Some(&mut there), left)? as u64;
                if copied == 0 {
                    break;
                }
                done += copied;
            }
            drop(target);
            let end = (from + length).min(content.len() as u64);
            let part = &content[usize::try_from(from)?..usize::try_from(end)?];
            let mut wanted = start.clone();
            let place = usize::try_from(to)?;
            if !part.is_empty() {
                wanted.resize(wanted.len().max(place + part.len()), 0);
                wanted[place..place + part.len()].copy_from_slice(part);
            }
            assert!(fs::read(&path)? == wanted, "{from}+{length} to {to} of {} bytes", start.len());
        }
    }
    // What is not saved is copied as it is.
    let unsaved = OpenOptions::new().read(true).write(true).open(at.join("one"))?;
    unsaved.write_all_at(b"not saved", 0)?;
    let target = File::create(at.join("of-unsaved"))?;
    let mut done = 0;
    while done < content.len() {
        done += copy_file_range(&unsaved, Some(&mut (done as u64)), &target, Some(&mut (done as u64)), content.len())?;
    }
    drop((unsaved, target));
    assert_eq!(&fs::read(at.join("of-unsaved"))?[..9], b"not saved");
    assert!(fs::read(at.join("of-unsaved"))?[9..] == content[9..]);
    Ok(())
}

#[test]
fn a_whole_file_is_copied_without_moving_it() -> Outcome {
    for arguments in [&[] as &[&str], &["--write-behind"]] {
        let ground = Ground::new()?;
        let mount = ground.mount(arguments)?;
        copies(&ground.options(), &mount)?;
        mount.stop()?;
        expect_clean(&ground.options())?;
        // And it is there.
        ground.with(|at| {
            assert!(fs::read(at.join("three"))? == random(4, 7 * MIB + 1_234));
            Ok(())
        })?;
    }
    Ok(())
}

/// What is written goes to a server, and not what lies between, whether it was there before or nobody wrote it.
#[test]
fn a_server_is_sent_what_was_written() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    let path = mount.at().join("f");
    let mut content = random(5, 40 * MIB + 77);
    fs::write(&path, &content)?;
    let file = OpenOptions::new().write(true).open(&path)?;
    file.sync_all()?;
    let sent = || net.metric("holdfast_request_bytes_total");
    let save = |blocks: u64, written: &[u64], size: Option<u64>, content: &mut Vec<u8>| -> Outcome {
        let before = sent()?;
        if let Some(size) = size {
            file.set_len(size)?;
            content.resize(usize::try_from(size)?, 0);
        }
        for at in written {
            file.write_all_at(b"changed", *at)?;
            let start = usize::try_from(*at)?;
            content.resize(content.len().max(start + 7), 0);
            content[start..start + 7].copy_from_slice(b"changed");
        }
        file.sync_all()?;
        let bytes = sent()? - before;
        assert!(bytes < blocks * MIB + MIB / 2, "{bytes} for {blocks} blocks");
        Ok(())
    };
    // One of them reaches into two blocks.
    save(4, &[5, 20 * MIB - 3, 39 * MIB], None, &mut content)?;
    // Cut off, and made longer: what is between is zeros, though it was written once.
    save(2, &[10 * MIB + 5, 300 * MIB], Some(30 * MIB + 1), &mut content)?;
    save(1, &[500 * MIB], Some(8 * MIB), &mut content)?;
    // Nothing but zeros, and what is behind the last whole block.
    save(1, &[], Some(500 * MIB + 20), &mut content)?;
    assert!(fs::read(&path)? == content);
    assert!(net.client().get(&format!("{HOME}/f"))?.expect_status(200)?.body == content);
    drop(file);
    mount.stop()?;
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn a_server_copies_without_moving_what_it_has() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    copies(net.rig.server.options(), &mount)?;
    mount.stop()?;
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}
