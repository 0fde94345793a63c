//! How `push` and its like come to an SFTP server, over the machine's own ssh: who is believed and let in, jump hosts, and an ssh that is missing, hangs or
//! outlives the program.

use holdfast_e2e::Outcome;
use holdfast_e2e::sftp::{MIB, Rig, random, said, wait_for};
use holdfast_testkit::server::program;
use holdfast_testkit::services::process::is_root;
use holdfast_testkit::services::sshd::{PASSWORD, Sshd, make_key, user};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Whoever it is may not.
const NOT_LET_IN: i32 = 77;

#[test]
fn a_host_is_believed_only_if_it_is_known_or_new_ones_are_wanted() -> Outcome {
    let rig = Rig::start("")?;
    fs::write(rig.at("here/x"), "x")?;
    let known = rig.at("home/.ssh/known_hosts");
    let push = |more: &[&str]| -> Outcome<Output> {
        Ok(rig.command(&[&["push", &rig.here("/x"), &rig.there("")], more].concat())?.output()?)
    };
    fs::write(&known, "")?;
    let unknown = push(&[])?;
    assert_eq!(unknown.status.code(), Some(NOT_LET_IN), "{unknown:?}");
    let fingerprint = Command::new("ssh-keygen").arg("-lf").arg(rig.sshd.key().with_file_name("host.pub")).output()?;
    let fingerprint = String::from_utf8(fingerprint.stdout)?;
    let fingerprint = fingerprint.split(' ').nth(1).ok_or("a fingerprint")?;
    assert!(said(&unknown).contains(fingerprint) && said(&unknown).contains("--accept-new-host-key"), "{unknown:?}");
    assert!(fs::read(&known)?.is_empty() && !rig.at("there/x").exists());
    // Another key of this host, and then the one that it is known by among others, hashed.
    make_key(&rig.at("other"), "")?;
    let other = fs::read_to_string(rig.at("other.pub"))?;
    fs::write(&known, format!("[127.0.0.1]:{} {other}", rig.sshd.port()))?;
    for more in [&[][..], &["--accept-new-host-key"]] {
        let refused = push(more)?;
        assert_eq!(refused.status.code(), Some(NOT_LET_IN), "{refused:?}");
        assert!(said(&refused).contains("another host key") && said(&refused).contains(fingerprint), "{refused:?}");
    }
    fs::remove_file(&known)?;
    assert!(push(&["--accept-new-host-key"])?.status.success());
    assert_eq!(fs::read_to_string(&known)?.trim(), rig.sshd.known_host()?.trim());
    assert!(Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(&known).output()?.status.success());
    assert!(!fs::read_to_string(&known)?.contains("127.0.0.1"));
    let output = push(&["--if-exists", "fail"])?;
    assert!(output.status.success(), "{output:?}");
    Ok(())
}

#[test]
fn keys_of_files_and_agents_let_one_in_and_others_do_not() -> Outcome {
    let rig = Rig::start("")?;
    fs::write(rig.at("here/x"), "x")?;
    let (here, there) = (rig.here("/x"), rig.there(""));
    let push = |more: &[&str]| rig.bare(&[&["push", &here, &there][..], more].concat());
    let (other, locked) = (rig.at("other"), rig.at("locked"));
    make_key(&other, "")?;
    make_key(&locked, "a phrase")?;
    rig.sshd.authorize(&locked)?;
    let [other, locked] = [other, locked].map(|path| path.display().to_string());
    let refused = [
        (vec![], "nothing to sign in with"),
        (vec!["-i", &other], "is not taken"),
        (vec!["-i", &locked], "has a passphrase"),
    ];
    for (more, why) in refused {
        let output = push(&more)?.output()?;
        assert!(output.status.code() == Some(NOT_LET_IN) && said(&output).contains(why), "{more:?}: {output:?}");
    }
    let wrong = rig.secret("another phrase")?;
    let output = push(&["-i", &locked, "--password-file", &wrong])?.output()?;
    assert!(output.status.code() == Some(NOT_LET_IN) && said(&output).contains("passphrase"), "{output:?}");
    let right = rig.secret("a phrase")?;
    let output = push(&["-i", &locked, "--password-file", &right])?.output()?;
    assert!(output.status.success(), "{output:?}");
    // The usual files, and an agent.
    fs::copy(rig.sshd.key(), rig.at("home/.ssh/id_ed25519"))?;
    assert!(push(&[])?.output()?.status.success());
    fs::remove_file(rig.at("home/.ssh/id_ed25519"))?;
    let socket = rig.at("agent");
    let mut agent = Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn()?;
    let done = (|| -> Outcome {
        while !socket.exists() {
            assert!(agent.try_wait()?.is_none(), "the agent ended");
            sleep(Duration::from_millis(5));
        }
        let add = Command::new("ssh-add").arg(rig.sshd.key()).env("SSH_AUTH_SOCK", &socket).output()?;
        assert!(add.status.success(), "{add:?}");
        let output = push(&[])?.env("SSH_AUTH_SOCK", &socket).output()?;
        assert!(output.status.success(), "{output:?}");
        Ok(())
    })();
    agent.kill()?;
    agent.wait()?;
    done
}

/// Needs root, for a password that is not the machine's.
#[test]
fn a_password_lets_one_in_by_either_way_and_a_wrong_one_ends_the_command() -> Outcome {
    if !is_root() {
        println!("not root: no password can be set for the server alone");
        return Ok(());
    }
    for more in ["", "UsePAM yes\nKbdInteractiveAuthentication yes\nPasswordAuthentication no"] {
        let rig = Rig::start(more)?;
        fs::write(rig.at("here/x"), "x")?;
        let (here, there) = (rig.here("/x"), rig.there(""));
        let wrong = rig.secret("not this one")?;
        let output = rig.bare(&["push", &here, &there, "--password-file", &wrong])?.output()?;
        assert_eq!(output.status.code(), Some(NOT_LET_IN), "{output:?}");
        assert!(said(&output).contains("the password is not taken") && !rig.at("there/x").exists(), "{output:?}");
        let right = rig.secret(PASSWORD)?;
        let output = rig.bare(&["push", &here, &there, "--password-file", &right])?.output()?;
        assert!(output.status.success() && rig.at("there/x").exists(), "{more:?}: {output:?}");
    }
    Ok(())
}

#[test]
fn a_server_that_is_away_for_a_while_is_waited_for() -> Outcome {
    let mut rig = Rig::start("")?;
    fs::write(rig.at("here/large"), random(20 * MIB, 8)?)?;
    let (from, to) = (rig.here("/large"), rig.there(""));
    let mut child = rig.command(&["push", &from, &to, "--json", "--limit-rate", "20M"])?.spawn()?;
    assert!(wait_for(&mut child, &rig.at("there"), 4 * MIB)?, "it was done too soon");
    rig.sshd.kill()?;
    // Until it has tried in vain.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().ok_or("its output")?));
    let tried = lines.by_ref().map_while(Result::ok).filter(|line| line.contains("\"retry\"")).take(2).count();
    assert_eq!(tried, 2, "it was tried again");
    rig.sshd.start_again()?;
    let last = lines.map_while(Result::ok).last();
    assert!(child.wait()?.success(), "{last:?}");
    assert!(fs::read(rig.at("here/large"))? == fs::read(rig.at("there/large"))?);
    rig.sshd.kill()?;
    let output = rig.command(&["push", &from, &to])?.output()?;
    assert!(output.status.code() == Some(69) && said(&output).contains("cannot be reached"), "{output:?}");
    Ok(())
}

/// A configuration in which the server is `inner`, behind another.
fn behind(rig: &Rig, jump: &Sshd, more: &str) -> Outcome {
    let (inner, outer, user) = (rig.sshd.port(), jump.port(), user());
    fs::write(rig.at("home/.ssh/known_hosts"), rig.sshd.known_host()? + &jump.known_host()?)?;
    rig.configure(&format!(
        "Host inner outer\nHostName 127.0.0.1\nUser {user}\n{more}\nHost inner\nPort {inner}\nProxyJump outer\nHost outer\nPort {outer}\n"
    ))
}

#[test]
fn a_server_behind_a_jump_host_is_reached_as_the_configuration_says() -> Outcome {
    let (rig, mut jump) = (Rig::start("")?, Sshd::start("")?);
    fs::write(rig.at("here/x"), random(3 * MIB, 4)?)?;
    jump.authorize(&rig.sshd.key())?;
    behind(&rig, &jump, &format!("IdentityFile {}", rig.sshd.key().display()))?;
    let there = format!("sftp://inner{}", rig.at("there").display());
    let push = || -> Outcome<Output> { Ok(rig.bare(&["push", &rig.here("/x"), &there])?.output()?) };
    let output = push()?;
    assert!(output.status.success() && fs::read(rig.at("here/x"))? == fs::read(rig.at("there/x"))?, "{output:?}");
    // That it is known is asked of both.
    fs::write(rig.at("home/.ssh/known_hosts"), rig.sshd.known_host()?)?;
    let output = push()?;
    assert!(output.status.code() == Some(NOT_LET_IN) && said(&output).contains("on the way"), "{output:?}");
    behind(&rig, &jump, &format!("IdentityFile {}", rig.sshd.key().display()))?;
    jump.kill()?;
    let output = push()?;
    assert!(output.status.code() == Some(69) && said(&output).contains("refused"), "{output:?}");
    Ok(())
}

/// Needs root, for a password that is not the machine's.
#[test]
fn a_jump_host_is_not_given_the_password_of_the_server_behind_it() -> Outcome {
    if !is_root() {
        println!("not root: no password can be set for the server alone");
        return Ok(());
    }
    let (rig, jump) = (Rig::start("PubkeyAuthentication no")?, Sshd::start("")?);
    fs::write(rig.at("here/x"), "x")?;
    behind(&rig, &jump, "")?;
    let (here, there, right) =
        (rig.here("/x"), format!("sftp://inner{}", rig.at("there").display()), rig.secret(PASSWORD)?);
    let push = || -> Outcome<Output> { Ok(rig.bare(&["push", &here, &there, "--password-file", &right])?.output()?) };
    // It has the same password, and would have let one in.
    let output = push()?;
    assert!(output.status.code() == Some(NOT_LET_IN) && !rig.at("there/x").exists(), "{output:?}");
    // With a key for it, the server behind it gets the password.
    fs::copy(rig.sshd.key(), rig.at("home/.ssh/id_ed25519"))?;
    jump.authorize(&rig.sshd.key())?;
    let output = push()?;
    assert!(output.status.success() && rig.at("there/x").exists(), "{output:?}");
    Ok(())
}

#[test]
fn jobs_sign_in_with_the_password_or_key_of_their_site() -> Outcome {
    let rig = Rig::start("")?;
    fs::write(rig.at("here/x"), "x")?;
    let login = if is_root() {
        rig.secret(PASSWORD)?;
        format!("user = '{}', password-file = 'secret'", user())
    } else {
        format!("user = '{}', identity = '{}'", user(), rig.sshd.key().display())
    };
    let jobs = format!(
        "[sites.s]\naddress = 'sftp://127.0.0.1:{}{}'\nssh-config = 'home/.ssh/config'\nlogin = {{ {login} }}\n[jobs.j]\nfrom = 'here/x'\nto = 's:in'\n",
        rig.sshd.port(),
        rig.at("there").display()
    );
    fs::write(rig.at("jobs.toml"), jobs)?;
    let mut job = Command::new(program()?);
    job.args(["job", "start", "j", "jobs.toml"]).current_dir(rig.at("")).env("HOLDFAST_JOBS_STATE", rig.at("state"));
    let output = job.env_remove("SSH_AUTH_SOCK").output()?;
    assert!(output.status.success() && rig.at("there/in/x").exists(), "{output:?}");
    Ok(())
}

/// Needs root, for an account of another home: ssh asks the machine for it, and not the environment.
#[test]
fn the_configuration_of_the_account_is_read_without_a_word() -> Outcome {
    if !is_root() {
        println!("not root: no account can have another home");
        return Ok(());
    }
    let rig = Rig::start("")?;
    fs::write(rig.at("here/x"), "x")?;
    let (port, key) = (rig.sshd.port(), rig.sshd.key());
    rig.configure(&format!("Host lab\nHostName 127.0.0.1\nPort {port}\nIdentityFile {}\n", key.display()))?;
    fs::write(rig.at("passwd"), format!("root:x:0:0:root:{}:/bin/sh\n", rig.at("home").display()))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", r#"mount --bind "$0" /etc/passwd && exec "$@""#]).arg(rig.at("passwd"));
    command.arg(program()?).args(["push", &rig.here("/x"), &format!("sftp://lab{}", rig.at("there").display())]);
    let output = command.env_remove("SSH_AUTH_SOCK").output()?;
    assert!(output.status.success() && rig.at("there/x").exists(), "{output:?}");
    Ok(())
}

#[test]
fn without_an_ssh_it_is_said_what_to_install() -> Outcome {
    let rig = Rig::start("")?;
    let output = rig.command(&["pull", &rig.there("/x"), &rig.here("")])?.env("PATH", rig.at("here")).output()?;
    assert!(output.status.code() == Some(64) && said(&output).contains("openssh-client"), "{output:?}");
    Ok(())
}

/// Puts a program named ssh in a folder, which is the real one the first time and then does `then`; answers a PATH with it.
fn other_ssh(rig: &Rig, then: &str) -> Outcome<String> {
    fs::create_dir(rig.at("bin"))?;
    let path = std::env::var("PATH")?;
    let text = format!(
        "#!/bin/sh\ncd '{}'\nPATH='{path}'\nmkdir first 2>/dev/null && exec ssh \"$@\"\n{then}\n",
        rig.at("bin").display()
    );
    fs::write(rig.at("bin/ssh"), text)?;
    fs::set_permissions(rig.at("bin/ssh"), fs::Permissions::from_mode(0o755))?;
    Ok(format!("{}:{path}", rig.at("bin").display()))
}

/// Whether a process runs. One that ended and waits for who took it over does not.
fn runs(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Processes that a program has started, whichever of its threads did.
fn started_by(program: u32) -> Outcome<Vec<String>> {
    let mut all = Vec::new();
    for thread in fs::read_dir(format!("/proc/{program}/task"))? {
        let children = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        all.extend(children.split_ascii_whitespace().map(str::to_owned));
    }
    Ok(all)
}

#[test]
fn an_ssh_that_hangs_is_given_up_after_the_stall_and_killed_and_the_transfer_goes_on() -> Outcome {
    let rig = Rig::start("")?;
    for number in 0..6 {
        fs::write(rig.at(&format!("here/{number}")), random(3 * MIB, number)?)?;
    }
    let path = other_ssh(&rig, "echo $$ >> hung\nexec sleep 1000")?;
    let arguments = ["push", &rig.here("/."), &rig.there(""), "--stall", "3s"];
    let output = rig.command(&arguments)?.env("PATH", path).output()?;
    assert!(output.status.success(), "{output:?}");
    for number in 0..6 {
        let name = format!("{number}");
        assert!(fs::read(rig.at("here").join(&name))? == fs::read(rig.at("there").join(&name))?);
    }
    let hung = fs::read_to_string(rig.at("bin/hung"))?;
    assert!(hung.lines().next().is_some());
    while hung.lines().any(runs) {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[test]
fn no_ssh_outlives_a_program_that_is_killed() -> Outcome {
    let rig = Rig::start("")?;
    fs::write(rig.at("here/large"), random(60 * MIB, 8)?)?;
    let (from, to) = (rig.here("/large"), rig.there(""));
    let mut child = rig.command(&["push", &from, &to, "--quiet", "--limit-rate", "20M"])?.spawn()?;
    assert!(wait_for(&mut child, &rig.at("there"), 4 * MIB)?, "it was done too soon");
    let all = started_by(child.id())?;
    assert!(!all.is_empty() && all.iter().all(|process| runs(process)), "{all:?}");
    child.kill()?;
    child.wait()?;
    while all.iter().any(|process| runs(process)) {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}
