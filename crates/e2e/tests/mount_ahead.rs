//! Long files, of which blocks are sealed while they are still being written: they are what a native file would be whatever is done to them, no program
//! learns of it but by how fast it is, and what was sealed for nothing is given back.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::{disk_use, empty_trash, expect_clean, reclaim};
use holdfast_e2e::closed::close;
use holdfast_e2e::disk::Template;
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::{Ground, Mount};
use holdfast_e2e::rig::NAME;
use holdfast_testkit::rng::Prng;
use rustix::fs::{FallocateFlags, fallocate};

const MIB: u64 = 1 << 20;
const PIECE_BYTES: usize = 128 << 10;
/// Blocks that are not sealed before a file is saved: those at its end, and those that are just being sealed.
const AT_THE_END_MIB: u64 = 12;
/// How long sealing may take on a busy machine.
const SEALED_WITHIN: Duration = Duration::from_mins(1);

fn random(seed: u64, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
    Prng::new(seed).fill(&mut content);
    content
}

/// Writes in pieces, as programs do.
fn write(file: &File, content: &[u8], offset: u64) -> io::Result<()> {
    for (number, piece) in content.chunks(PIECE_BYTES).enumerate() {
        file.write_all_at(piece, offset + (number * PIECE_BYTES) as u64)?;
    }
    Ok(())
}

/// What the mount has of a file, past the kernel's cache.
fn past_the_cache(path: &Path) -> Outcome<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut content = Vec::new();
    io::Read::read_to_end(&mut file, &mut content)?;
    Ok(content)
}

/// Waits until the drive takes so much more of the disk.
fn until_it_grew(data: &Path, before: u64, bytes: u64) -> Outcome {
    let begun = Instant::now();
    while disk_use(data) < before + bytes {
        if begun.elapsed() > SEALED_WITHIN {
            return Err(format!("{} bytes were sealed, not {bytes}", disk_use(data) - before).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A file of the mount and a native one, to which the same is done. No program is started while they are open: that would close, and so save, them.
struct Pair {
    ours: File,
    theirs: File,
}

impl Pair {
    fn open(ours: &Path, theirs: &Path) -> io::Result<Self> {
        let open = |path| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        Ok(Self { ours: open(ours)?, theirs: open(theirs)? })
    }

    fn both(&self, work: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        work(&self.ours)?;
        work(&self.theirs)
    }

    fn close(self) -> io::Result<()> {
        close(self.ours)
    }
}

#[test]
fn a_long_file_is_sealed_while_it_is_written_and_may_be_changed_before_it_is_saved() -> Outcome {
    let ground = Ground::new()?;
    let data = ground.options().data().to_owned();
    let (native, content) = (ground.scratch().join("native"), random(1, 48 * MIB + 77));
    ground.with(|at| {
        let path = at.join("long");
        let before = disk_use(&data);
        let pair = Pair::open(&path, &native)?;
        pair.both(|file| write(file, &content, 0))?;
        until_it_grew(&data, before, 48 * MIB - AT_THE_END_MIB * MIB)?;
        assert!(past_the_cache(&path)? == content);
        // A header that is put right at last, a border of blocks, a hole from within one to within another, an end in the middle of one, more behind it.
        pair.both(|file| {
            file.write_all_at(b"header", 3)?;
            file.write_all_at(&[7; 1_000], 9 * MIB - 500)?;
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, punch, 20 * MIB + 5, 2 * MIB + 9)?;
            file.set_len(33 * MIB + 12_345)?;
            write(file, &content[..usize::try_from(9 * MIB).unwrap_or(0)], 33 * MIB + 12_345)?;
            file.set_len(50 * MIB + 1)
        })?;
        let expected = fs::read(&native)?;
        assert!(past_the_cache(&path)? == expected, "before it is saved");
        pair.both(File::sync_all)?;
        assert!(past_the_cache(&path)? == expected, "when it is saved");
        pair.both(|file| write(file, &content[5..], 7))?;
        pair.close()?;
        assert!(past_the_cache(&path)? == fs::read(&native)?, "when it is closed");
        Ok(())
    })?;
    ground.with(|at| {
        assert!(fs::read(at.join("long"))? == fs::read(&native)?, "by the next mount");
        Ok(())
    })
}

#[test]
fn whatever_is_done_to_long_files_they_are_as_native_ones() -> Outcome {
    let (steps, seeds): (u64, u64) = (knob("HOLDFAST_MOUNT_LONG_STEPS", 150), knob("HOLDFAST_MOUNT_LONG_SEEDS", 2));
    for seed in 1..=seeds {
        let ground = Ground::new()?;
        let native = ground.scratch().join("native");
        let data = ground.options().data().to_owned();
        ground.with(|at| {
            let (path, before) = (at.join("long"), disk_use(&data));
            let mut random = Prng::new(seed);
            let mut pair = Pair::open(&path, &native)?;
            for step in 0..steps {
                let size = pair.theirs.metadata()?.len();
                let place = random.below(size + 2 * MIB).min(40 * MIB);
                match random.below(20) {
                    // On and on from its end, from a border of blocks, or from anywhere.
                    0..8 => {
                        let mut content = vec![0; usize::try_from(random.below(9 * MIB)).unwrap_or(0)];
                        random.fill(&mut content);
                        let from = [size.min(40 * MIB), place / MIB * MIB, place];
                        let from = from[usize::try_from(random.below(3)).unwrap_or(0)];
                        pair.both(|file| write(file, &content, from))?;
                    }
                    8..11 => {
                        let mut content = vec![0; usize::try_from(random.below(200_000)).unwrap_or(0)];
                        random.fill(&mut content);
                        pair.both(|file| file.write_all_at(&content, place))?;
                    }
                    11..13 => pair.both(|file| file.set_len(place))?,
                    13 => {
                        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                        let length = random.below(3 * MIB) + 1;
                        pair.both(|file| Ok(fallocate(file, punch, place, length)?))?;
                    }
                    14 => pair.both(File::sync_all)?,
                    15 => {
                        pair.close()?;
                        pair = Pair::open(&path, &native)?;
                    }
                    _ => {
                        let mut read = [vec![0; 300_000], vec![0; 300_000]];
                        let ours = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path)?;
                        let mut bytes = [0; 2];
                        for ((file, read), bytes) in [&ours, &pair.theirs].into_iter().zip(&mut read).zip(&mut bytes) {
                            while let more @ 1.. = file.read_at(&mut read[*bytes..], place + *bytes as u64)? {
                                *bytes += more;
                            }
                        }
                        assert!(bytes[0] == bytes[1] && read[0] == read[1], "seed {seed}, step {step}, at {place}");
                    }
                }
            }
            assert!(past_the_cache(&path)? == fs::read(&native)?, "seed {seed}");
            pair.close()?;
            assert!(disk_use(&data) > before, "nothing was written");
            Ok(())
        })?;
        ground.with(|at| {
            assert!(fs::read(at.join("long"))? == fs::read(&native)?, "seed {seed}, by the next mount");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn what_a_killed_mount_sealed_for_nothing_is_given_back() -> Outcome {
    let ground = Ground::new()?;
    let data = ground.options().data().to_owned();
    let drive = ground.mount(&[])?;
    let closed = random(1, 20 * MIB);
    fs::write(drive.at().join("closed"), &closed)?;
    let before = disk_use(&data);
    // By another process: what this one has open is closed, and so saved, when a test beside this one starts a program.
    let mut writer = Command::new("python3");
    writer.args(["-c", "import os, sys\nfile = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\nfor _ in range(40): os.write(file, os.urandom(1 << 20))\nsys.stdin.read()"]);
    let mut writer = writer.arg(drive.at().join("open")).stdin(Stdio::piped()).spawn()?;
    let grew = until_it_grew(&data, before, 40 * MIB - AT_THE_END_MIB * MIB);
    let killed = drive.kill_9();
    drop(writer.stdin.take());
    writer.wait()?;
    grew.and(killed)?;
    ground.with(|at| {
        assert!(fs::read(at.join("closed"))? == closed);
        assert_eq!(fs::metadata(at.join("open"))?.len(), 0, "nobody closed it");
        Ok(())
    })?;
    reclaim(&ground.options())?;
    let after = disk_use(&data);
    assert!(after < before + 4 * MIB, "{after} bytes, and {before} without what nobody has");
    expect_clean(&ground.options())
}

#[test]
fn a_file_that_its_quota_has_no_room_for_does_not_fill_the_disk_first() -> Outcome {
    let ground = Ground::new()?;
    ground.options().run_ok(&["space", "set", NAME, "--quota", "32MiB"], b"")?;
    let data = ground.options().data().to_owned();
    let drive = ground.mount(&[])?;
    let before = disk_use(&data);
    let file = File::create(drive.at().join("large"))?;
    write(&file, &random(1, 200 * MIB), 0)?;
    // A look at the room every 64 MiB.
    let grown = disk_use(&data) - before;
    assert!(grown < 80 * MIB, "{grown} bytes were sealed that there is no room for");
    let code = close(file).err().and_then(|error| error.raw_os_error());
    assert!(matches!(code, Some(libc::EDQUOT | libc::ENOSPC)), "it was closed with {code:?}");
    fs::remove_file(drive.at().join("large"))?;
    fs::write(drive.at().join("small"), random(2, 20 * MIB))?;
    // It says in its log what was lost.
    drive.unmount()?;
    reclaim(&ground.options())?;
    let left = disk_use(&data);
    assert!(left < 40 * MIB, "{left} bytes");
    expect_clean(&ground.options())
}

#[test]
fn a_disk_that_fills_up_under_a_long_file_is_told_and_the_next_one_is_whole() -> Outcome {
    for arguments in [&["--write-behind"], &["--write-behind=no"]] {
        let disk = Template::make()?.mount()?;
        let mountpoint = tempfile::tempdir()?;
        let drive = Mount::of_drive(&disk.options()?, mountpoint.path().into(), arguments)?;
        let kept = random(1, 10 * MIB);
        fs::write(drive.at().join("kept"), &kept)?;
        disk.disk.set_capacity(disk.disk.used_bytes() + (60 << 20));
        let file = File::create(drive.at().join("large"))?;
        let written = write(&file, &random(2, 100 * MIB), 0);
        let closed = close(file);
        let told = written.err().or(closed.err()).and_then(|error| error.raw_os_error());
        assert_eq!(told, Some(libc::ENOSPC));
        fs::remove_file(drive.at().join("large"))?;
        disk.disk.set_capacity(1 << 30);
        let next = random(3, 30 * MIB);
        fs::write(drive.at().join("next"), &next)?;
        File::open(drive.at())?.sync_all()?;
        drive.kill_9()?;
        let drive = Mount::of_drive(&disk.options()?, mountpoint.path().into(), arguments)?;
        assert!(fs::read(drive.at().join("kept"))? == kept);
        assert!(fs::read(drive.at().join("next"))? == next);
        drive.stop()?;
        empty_trash(&disk.options()?)?;
        expect_clean(&disk.options()?)?;
    }
    Ok(())
}
