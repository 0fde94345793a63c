//! Files that a mount from a server closes before the server has them: what waits in its spool when the server is away, when either machine goes down, when
//! the disk is full and when the network is slow.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::closed::close;
use holdfast_e2e::disk::{MountedDisk, Template, mount};
use holdfast_e2e::far::{Far, Moving, as_root, link};
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::Mount;
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::HOME;
use holdfast_e2e::wait::{Over, until};
use holdfast_testkit::crashdisk::{Config, CrashDisk, Image};
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::TestServer;
use holdfast_testkit::services::free_port;
use holdfast_wan::Impairments;

/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_mins(1);

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Prng::new(seed).fill(&mut content);
    content
}

/// Files of the spools below a cache.
fn spooled(cache: impl AsRef<Path>) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(cache.as_ref().join("mounts"))? {
        for file in fs::read_dir(folder?.path())? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with("spool-") {
                found.push(file.path());
            }
        }
    }
    Ok(found)
}

#[test]
fn files_of_up_to_16_mib_are_closed_while_the_server_is_away_and_survive_kills() -> Outcome {
    let (mut net, mount, folder) = Net::with_folder("3")?;
    fs::write(folder.join("before"), "x")?;
    // Nobody locks anything, as the mount knows from now on.
    fs::remove_file(folder.join("before"))?;
    File::open(mount.at())?.sync_all()?;
    net.rig.server.kill_9()?;
    // For some seconds it is not known that it will not answer.
    std::thread::sleep(Duration::from_secs(8));
    let sizes = [5_000, 70_000, 1 << 20, (1 << 20) + 1, 5_000_000, 16 << 20];
    let content = |number: usize| {
        let mut bytes = vec![0; sizes[number]];
        Prng::new(number as u64).fill(&mut bytes);
        bytes
    };
    for number in 0..sizes.len() {
        fs::write(folder.join(number.to_string()), content(number)).map_err(|error| format!("{number}: {error}"))?;
    }
    for number in 0..sizes.len() {
        let found = fs::read(folder.join(number.to_string())).map_err(|error| format!("{number}: {error}"))?;
        assert!(found == content(number), "{number}");
    }
    // What is removed again needs no server, and what is larger goes there before it is answered.
    fs::write(folder.join("scratch"), content(3))?;
    fs::remove_file(folder.join("scratch"))?;
    let mut large = File::create_new(folder.join("large"))?;
    large.write_all(&vec![1; (16 << 20) + 1])?;
    assert_eq!(close(large).map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
    assert!(!spooled(&net.first("mnt")[2])?.is_empty());
    mount.kill_9()?;
    // The next one hands it over, and is killed as well.
    net.rig.start_again()?;
    let first = net.first("mnt");
    let mount = net.mount("mnt", &[&first[1], &first[2]])?;
    mount.kill_9()?;
    let mount = net.mount_first("mnt", &[])?;
    for number in 0..sizes.len() {
        assert!(fs::read(folder.join(number.to_string()))? == content(number), "{number}");
        let got = net.client().get(&format!("{HOME}/d/{number}"))?;
        assert!(got.status == 200 && got.body == content(number), "{number}");
    }
    assert!(!folder.join("scratch").exists());
    assert_eq!(spooled(&net.first("mnt")[2])?, Vec::<PathBuf>::new());
    // And so when it was written with the server there.
    fs::write(folder.join("last"), content(4))?;
    assert!(fs::read(folder.join("last"))? == content(4));
    File::open(&folder)?.sync_all()?;
    assert!(net.client().get(&format!("{HOME}/d/last"))?.body == content(4));
    until("nothing waits any more", SOON, || spooled(&net.first("mnt")[2]).is_ok_and(|left| left.is_empty()))?;
    net.end([mount])
}

#[test]
fn a_part_of_a_file_is_closed_while_the_server_is_away_if_the_rest_is_here() -> Outcome {
    let (mut net, mount, folder) = Net::with_folder("3")?;
    let (known, unknown) = (random(1, 5_000_000), random(2, 5_000_000));
    fs::write(folder.join("known"), &known)?;
    File::open(&folder)?.sync_all()?;
    net.client().put(&format!("{HOME}/d/unknown"), unknown.clone())?.expect_status(201)?;
    assert!(fs::read(folder.join("known"))? == known);
    until("the other is seen", SOON, || fs::metadata(folder.join("unknown")).is_ok())?;
    net.rig.server.kill_9()?;
    std::thread::sleep(Duration::from_secs(8));
    let change = |name: &str, at: u64| -> std::io::Result<()> {
        let file = File::options().write(true).open(folder.join(name))?;
        file.write_all_at(b"in the middle", at)?;
        close(file)
    };
    change("known", 3_000_000)?;
    change("known", 100)?;
    let mut expected = known;
    expected[3_000_000..3_000_013].copy_from_slice(b"in the middle");
    expected[100..113].copy_from_slice(b"in the middle");
    assert!(fs::read(folder.join("known"))? == expected);
    // What is not here cannot be written around.
    assert_eq!(change("unknown", 3_000_000).map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
    mount.kill_9()?;
    net.rig.start_again()?;
    let mount = net.mount_first("mnt", &[])?;
    for (name, content) in [("known", &expected), ("unknown", &unknown)] {
        assert!(fs::read(folder.join(name))? == *content, "{name}");
        assert!(net.client().get(&format!("{HOME}/d/{name}"))?.body == *content, "{name}");
    }
    let names: Vec<_> = fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    net.end([mount])
}

/// A server on a disk that forgets, and a mount from it. They come back at the same address.
struct Pair {
    disk: MountedDisk,
    server: TestServer,
    mount: Mount,
}

fn pair(image: Image, template: &Template, port: u16, at: &Path, cache: &Path) -> Outcome<Pair> {
    let disk = mount(image, &template.place)?;
    let url = format!("https://127.0.0.1:{port}");
    let options = disk.options()?.argument("--tls-self-signed").argument("--listen").argument(&url);
    let server = options.start()?;
    let mut command = server.options().command()?;
    command.arg("mount").arg(&url).arg(at).args(["--token-file", "-", "--write-behind", "--cache"]).arg(cache);
    command.arg("--ca").arg(disk.disk.path().join("data/tls/self-signed.pem"));
    let mount = Mount::begin(command, template.token(), at.into())?;
    Ok(Pair { disk, server, mount })
}

/// `HOLDFAST_SPOOL_CUTS` times the server's machine goes down right after the spool has let go of what was closed, and the mount is killed: the server has all of it.
#[test]
fn what_the_spool_let_go_outlives_a_power_cut_of_the_server() -> Outcome {
    let (template, port) = (Template::make()?, free_port()?);
    let (at, cache) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut image = template.image(Config::default());
    let size = |number: u64| [70_000, 300_000, 3_000_000][usize::try_from(number % 3).unwrap_or(0)];
    let cuts = knob("HOLDFAST_SPOOL_CUTS", 6_u64);
    for round in 0..=cuts {
        let Pair { disk, mut server, mount } = pair(image, &template, port, at.path(), cache.path())?;
        for before in 0..round {
            let found = fs::read(at.path().join(before.to_string())).map_err(|error| format!("{before}: {error}"))?;
            assert!(found == random(before, size(before)), "{before} in round {round}");
        }
        if round == cuts {
            mount.stop()?;
            server.terminate()?;
            return expect_clean(&disk.options()?);
        }
        fs::write(at.path().join(round.to_string()), random(round, size(round)))?;
        until("the server has it", SOON, || spooled(cache.path()).is_ok_and(|left| left.is_empty()))?;
        image = disk.disk.power_cut(round);
        mount.kill_9()?;
        server.kill_9()?;
    }
    Ok(())
}

#[test]
fn where_the_disk_of_the_spool_is_full_a_file_goes_to_the_server_before_it_is_closed() -> Outcome {
    let (net, folder) = (Net::new()?, tempfile::tempdir()?);
    let disk = CrashDisk::mount_image(folder.path(), Image::empty(Config::default()))?;
    let cache = disk.path().join("cache");
    fs::create_dir(&cache)?;
    let shown = cache.display().to_string();
    let mount = net.mount("mnt", &["--write-behind", "--cache", &shown, "--cache-size", "0"])?;
    fs::write(mount.at().join("first"), random(1, 300_000))?;
    disk.set_capacity(disk.used_bytes() + (4 << 20));
    for number in 2..12 {
        fs::write(mount.at().join(number.to_string()), random(number, 1_000_000))?;
        let got = net.client().get(&format!("{HOME}/{number}"))?;
        assert!(got.status == 200 && got.body == random(number, 1_000_000), "{number} is there when it is closed");
    }
    assert!(fs::read(mount.at().join("first"))? == random(1, 300_000));
    net.end([mount])
}

/// A mount in a network namespace of its own, and what it keeps.
struct Slow {
    far: Far,
    at: PathBuf,
    cache: PathBuf,
    _mounting: Moving,
}

impl Slow {
    /// At 40 KB/s. Its deadline in seconds is shorter than anything takes here, and longer than a question waits behind what was sent before it.
    fn begin(plane: &str, deadline: &str) -> Outcome<Self> {
        let far = Far::new(Impairments { rate: Some(40_000), ..link(1, Duration::from_millis(15)) })?;
        let (at, cache) = (far.rig.scratch().join("mnt"), far.rig.scratch().join("cache"));
        fs::create_dir(&at)?;
        let url = far.url("");
        let url = url.trim_end_matches('/').trim_end_matches("ann").trim_end_matches('/');
        let (shown, shown_cache) = (at.display().to_string(), cache.display().to_string());
        let mut words = vec!["mount", url, &shown, "--foreground", "--deadline", deadline, "--plane", plane];
        words.extend(["--write-behind", "--cache", &shown_cache]);
        let (below, mounting) = (fs::metadata(&at)?.dev(), far.start(&words)?);
        until("it is mounted", SOON, || fs::metadata(&at).is_ok_and(|now| now.dev() != below))?;
        Ok(Self { far, at, cache, _mounting: mounting })
    }

    /// Does something, and asks meanwhile for names that nobody has, each of which only the server knows; how long the longest answer took.
    fn ask_beside(&self, work: impl FnOnce() -> Outcome) -> Outcome<Duration> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let asking = scope.spawn(|| -> Outcome<Duration> {
                let mut longest = Duration::ZERO;
                for number in 0.. {
                    let began = Instant::now();
                    let found = fs::metadata(self.at.join(format!("nobody-{number}")));
                    assert_eq!(found.map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::NotFound), "{number}");
                    longest = longest.max(began.elapsed());
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(200));
                }
                Ok(longest)
            });
            let over = Over(&done);
            let worked = work();
            drop(over);
            let longest = asking.join().map_err(|_| "a question was not answered")??;
            worked.map(|()| longest)
        })
    }

    fn end(self) -> Outcome {
        assert!(Command::new("umount").arg(&self.at).status()?.success());
        Ok(())
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // It is there still if the test failed.
        let _ = Command::new("umount").args(["--lazy", "--quiet"]).arg(&self.at).status();
    }
}

/// Longer than the deadline and the time that there is for its bytes: what moves is waited for, and what is asked for meanwhile does not wait for all of it.
fn closes_over_a_slow_network(plane: &str, deadline: &str) -> Outcome {
    let slow = Slow::begin(plane, deadline)?;
    let (content, began) = (random(1, 1_500_000), Instant::now());
    fs::write(slow.at.join("file"), &content)?;
    let closed = began.elapsed();
    assert!(closed < Duration::from_secs(10), "it was closed after {closed:?}");
    let longest = slow.ask_beside(|| Ok(File::open(slow.at.join("file"))?.sync_all()?))?;
    println!(
        "{plane}: closed after {closed:?}, on the server after {:?}; answers took {longest:?} at most",
        began.elapsed()
    );
    assert!(spooled(&slow.cache)?.is_empty());
    let [_, came] = slow.far.came();
    let came = came.tcp.bytes + came.udp.bytes;
    assert!(came < 2_000_000, "{came} bytes came");
    assert!(slow.far.fetch("file")? == content);
    slow.end()
}

#[test]
fn over_a_slow_network_a_file_is_closed_at_once_and_arrives_by_one_attempt() -> Outcome {
    as_root("over_a_slow_network_a_file_is_closed_at_once_and_arrives_by_one_attempt", || {
        closes_over_a_slow_network("tcp", "8")
    })
}

#[test]
fn over_a_slow_network_it_arrives_by_quic_as_well() -> Outcome {
    as_root("over_a_slow_network_it_arrives_by_quic_as_well", || closes_over_a_slow_network("quic", "12"))
}

#[test]
fn over_a_slow_network_a_file_is_read_however_long_it_takes() -> Outcome {
    as_root("over_a_slow_network_a_file_is_read_however_long_it_takes", || {
        for plane in ["tcp", "quic"] {
            let slow = Slow::begin(plane, "12")?;
            let content = fs::read(slow.far.stock("large", 700_000)?)?;
            let (began, mut longest) = (Instant::now(), None);
            let read = || {
                assert!(fs::read(slow.at.join("large"))? == content);
                Ok(())
            };
            // By QUIC all that was asked for lies ahead of the next answer.
            if plane == "tcp" {
                longest = Some(slow.ask_beside(read)?);
            } else {
                read()?;
            }
            println!("{plane}: read after {:?}; answers took {longest:?} at most", began.elapsed());
            slow.end()?;
        }
        Ok(())
    })
}
