//! Programs that ask much of a file system, on a drive mounted as a folder: a database server, a verifying load, the build of a real project.
//!
//! `make mount-long` runs them at their full size.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::{Ground, run};
use holdfast_testkit::postgres::{PostgresServer, name_of};
use holdfast_testkit::services::need;

/// A load that writes and reads back everything it wrote: in any order, past the cache, through mappings, with syncs. `HOLDFAST_FIO_MIB` is the size of each file.
#[test]
fn fio_finds_what_it_wrote() -> Outcome {
    need(&["fio"])?;
    let size = format!("{}m", knob("HOLDFAST_FIO_MIB", 16));
    let common = ["--verify=xxhash", "--verify_fatal=1", "--do_verify=1", "--minimal", "--fallocate=none"];
    Ground::new()?.with(|at| {
        for (name, options) in [
            ("random", ["--rw=randwrite", "--bsrange=512-128k", "--ioengine=psync", "--fsync=32"]),
            ("mixed", ["--rw=randrw", "--bs=4k", "--ioengine=psync", "--numjobs=4"]),
            ("mapped", ["--rw=randwrite", "--bs=4k", "--ioengine=mmap", "--fsync=64"]),
            ("past-the-cache", ["--rw=randwrite", "--bs=16k", "--ioengine=psync", "--direct=1"]),
            ("in-order", ["--rw=write", "--bs=1m", "--ioengine=psync", "--end_fsync=1"]),
        ] {
            let mut fio = Command::new("fio");
            fio.arg(format!("--name={name}")).arg(format!("--size={size}")).arg("--directory").arg(at);
            run(fio.args(common).args(options).current_dir(at.parent().unwrap_or(at)))?;
        }
        Ok(())
    })
}

/// The C sources of a library that this program is built with.
fn c_sources() -> Outcome<PathBuf> {
    let listed = run(Command::new(env!("CARGO")).args(["metadata", "--format-version=1", "--locked", "--offline"]))?;
    let listed: serde_json::Value = serde_json::from_str(&listed)?;
    let packages = listed["packages"].as_array().ok_or("cargo lists no packages")?;
    let sys =
        packages.iter().find(|package| package["name"] == "zstd-sys").ok_or("zstd-sys is no dependency any more")?;
    let manifest = sys["manifest_path"].as_str().ok_or("a package without a path")?;
    Ok(Path::new(manifest).parent().ok_or("a manifest in no folder")?.join("zstd"))
}

/// Compiles every source below `lib` that needs no assembler, and puts them in a library.
const MAKEFILE: &str = "objects := $(patsubst %.c,%.o,$(wildcard lib/common/*.c lib/compress/*.c lib/dictBuilder/*.c))\n\
    libzstd.a: $(objects)\n\t$(AR) rcsD $@ $^\n\
    %.o: %.c\n\t$(CC) -O0 -DZSTD_DISABLE_ASM -Ilib -c $< -o $@\n";

/// Unpacked and built on the mount, every file is what it is when it is built natively.
#[test]
fn a_c_project_is_what_it_is_when_it_is_built_natively() -> Outcome {
    need(&["cc"])?;
    let ground = Ground::new()?;
    let archive = ground.scratch().join("sources.tar.gz");
    run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(c_sources()?).arg("."))?;
    let build = |at: &Path| -> Outcome {
        fs::create_dir(at)?;
        run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(at))?;
        fs::write(at.join("Makefile"), MAKEFILE)?;
        run(Command::new("make").arg("-s").arg("-j2").arg("-C").arg(at))?;
        // There is nothing to be made again: times are what they should be.
        run(Command::new("make").arg("-q").arg("-C").arg(at)).map(drop)
    };
    let native = tempfile::tempdir()?;
    build(&native.path().join("p"))?;
    ground.with(|at| {
        build(&at.join("p"))?;
        let same = run(Command::new("diff").arg("-r").arg(native.path().join("p")).arg(at.join("p")))?;
        assert_eq!(same, "");
        assert!(at.join("p/libzstd.a").metadata()?.len() > 500_000, "something was built");
        Ok(())
    })
}

/// A bank of `pgbench` whose server is ended as by a crash under its clients: after recovery all sums agree, and indexes and tables with each other.
/// `HOLDFAST_PGBENCH_SECONDS` is how long each round, `HOLDFAST_PGBENCH_ROUNDS` how many.
#[test]
fn postgresql_keeps_its_data_on_it() -> Outcome {
    need(&["postgresql"])?;
    let ground = Ground::new()?;
    // The server refuses to run as root.
    let others: &[&str] = if rustix::process::geteuid().is_root() { &["--allow-other"] } else { &[] };
    ground.with_mount(others, keeps_a_bank)
}

fn keeps_a_bank(at: &Path) -> Outcome {
    // As a folder for temporary files is: the account that it runs as makes its own there, and takes it away.
    let at = &at.join("everybody's");
    fs::create_dir(at)?;
    fs::set_permissions(at, fs::Permissions::from_mode(0o1777))?;
    let mut postgres = PostgresServer::start_in(at)?;
    assert!(postgres.folder().starts_with(at));
    let url = postgres.database()?;
    let name = name_of(&url)?;
    let scale = knob("HOLDFAST_PGBENCH_SCALE", 1).to_string();
    run(postgres.program("pgbench").args(["-i", "-q", "-s", &scale]).arg(&url))?;
    let seconds = knob("HOLDFAST_PGBENCH_SECONDS", 3_u64);
    for round in 0..knob("HOLDFAST_PGBENCH_ROUNDS", 2) {
        // Longer than the server lives.
        let mut clients = postgres.program("pgbench");
        clients.args(["-n", "-c", "4", "-j", "2", "-T", &(seconds + 60).to_string()]).arg(&url);
        let mut clients = clients.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_secs(seconds));
        assert!(clients.try_wait()?.is_none(), "clients ended by themselves");
        postgres.crash()?;
        clients.wait()?;
        postgres.resume()?;
        let sums = postgres.sql(
            name,
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
             (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(tbalance) FROM pgbench_tellers), \
             (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history), \
             (SELECT count(*) FROM pgbench_history) > 0",
        )?;
        assert_eq!(sums, "t|t|t|t", "round {round}");
        run(postgres.program("pg_amcheck").args(["--heapallindexed", "--install-missing"]).arg(&url))?;
    }
    Ok(())
}
