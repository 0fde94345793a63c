//! `holdfast pull` of folders of nginx and Apache by their listing pages, of lists of files, and of Metalinks: with a password, and with sums.

use holdfast_e2e::Outcome;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use holdfast_testkit::services::process::{Kept, hand_over};
use holdfast_testkit::services::{find_program, free_port, need};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const MIB: usize = 1 << 20;
const START_LIMIT: Duration = Duration::from_secs(30);
const PASSWORD: &str = "open sesame";

/// nginx and Apache over the same folder.
struct Servers {
    _processes: Vec<Kept>,
    _runs: Vec<tempfile::TempDir>,
    folder: tempfile::TempDir,
    nginx: u16,
    apache: u16,
}

impl Servers {
    fn start() -> Outcome<Self> {
        need(&["nginx", "apache2", "openssl"])?;
        let folder = tempfile::tempdir()?;
        make_tree(&folder.path().join("site"))?;
        let root = folder.path().join("site").display().to_string();
        hand_over(folder.path())?;
        let (nginx, apache) = (free_port()?, free_port()?);
        let (first, process) = start_nginx(nginx, apache, &root)?;
        let (second, other) = start_apache(apache, &root)?;
        Ok(Self { _processes: vec![process, other], _runs: vec![first, second], folder, nginx, apache })
    }

    fn site(&self, path: &str) -> PathBuf {
        self.folder.path().join("site").join(path)
    }

    fn password(&self) -> Outcome<String> {
        let file = self.folder.path().join("password");
        fs::write(&file, format!("{PASSWORD}\n"))?;
        Ok(file.display().to_string())
    }
}

fn start_nginx(port: u16, other: u16, root: &str) -> Outcome<(tempfile::TempDir, Kept)> {
    let folder = tempfile::tempdir()?;
    let at = folder.path().display().to_string();
    let hash = Command::new("openssl").args(["passwd", "-apr1", PASSWORD]).output()?;
    fs::write(folder.path().join("users"), format!("ann:{}", String::from_utf8(hash.stdout)?))?;
    let configuration = format!(
        "daemon off; master_process off; pid {at}/pid; events {{ worker_connections 256; }}\n\
         http {{ access_log off; client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3;\n\
         uwsgi_temp_path {at}/4; scgi_temp_path {at}/5; server {{ listen 127.0.0.1:{port}; root {root}; autoindex on;\n\
         location /json/ {{ alias {root}/tree/; autoindex_format json; }} location /whole/ {{ alias {root}/tree/; max_ranges 0; }}\n\
         location /secret/ {{ alias {root}/tree/; auth_basic all; auth_basic_user_file {at}/users; }}\n\
         location /away/ {{ auth_basic all; auth_basic_user_file {at}/users; return 302 http://127.0.0.1:{other}/heard/$uri; }}\n\
         location /digest/ {{ alias {root}/tree/; add_header Repr-Digest \"sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\"; }}\n\
         location /nolist/ {{ alias {root}/tree/; autoindex off; }} }} }}\n"
    );
    fs::write(folder.path().join("conf"), configuration)?;
    hand_over(folder.path())?;
    let program = find_program("nginx").ok_or("there is no nginx")?;
    let arguments = ["-c".to_owned(), format!("{at}/conf"), "-p".into(), at.clone(), "-e".into(), format!("{at}/log")];
    let mut process = Kept::start("nginx", &program, &arguments, folder.path(), folder.path().join("out"))?;
    process.wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok((folder, process))
}

fn start_apache(port: u16, root: &str) -> Outcome<(tempfile::TempDir, Kept)> {
    let folder = tempfile::tempdir()?;
    let at = folder.path().display().to_string();
    let modules = ["mpm_event", "authz_core", "autoindex", "dir", "mime", "alias", "headers"];
    let modules =
        modules.map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")).concat();
    let configuration = format!(
        "ServerRoot {at}\nServerName 127.0.0.1\nListen 127.0.0.1:{port}\nPidFile {at}/pid\nErrorLog {at}/log\nDefaultRuntimeDir {at}\n\
         {modules}TypesConfig /dev/null\nDocumentRoot {root}\n<Directory {root}>\nOptions Indexes\nIndexOptions FancyIndexing HTMLTable\n\
         IndexIgnore nothing\nRequire all granted\n</Directory>\n\
         Alias /plain {root}/tree\n<Location /plain>\nIndexOptions -FancyIndexing -HTMLTable\nHeader set Accept-Ranges none\nRequestHeader unset Range\n</Location>\n\
         # Whoever shows a password here gets a file, and others do not.\n\
         <Location /heard>\nRequire expr \"%{{HTTP:Authorization}} != ''\"\n</Location>\n"
    );
    fs::write(folder.path().join("conf"), configuration)?;
    hand_over(folder.path())?;
    let program = find_program("apache2").ok_or("there is no apache2")?;
    let arguments = ["-f".to_owned(), format!("{at}/conf"), "-DFOREGROUND".into()];
    let mut process = Kept::start("apache2", &program, &arguments, folder.path(), folder.path().join("out"))?;
    process.wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok((folder, process))
}

fn random(size: usize, seed: u64) -> Vec<u8> {
    let mut rng = Prng::new(seed);
    (0..=size / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(size).collect()
}

fn make_tree(root: &Path) -> Outcome {
    let names = [
        "plain.txt",
        "a b",
        "é ü",
        "50%25 [x]{y}",
        "semi;colon",
        "a&b<c>",
        "q?x#y",
        "c:d",
        "empty",
        "+plus+",
        "'quotes'",
    ];
    fs::create_dir_all(root.join("tree/sub folder/deep"))?;
    fs::create_dir_all(root.join("heard/away"))?;
    fs::write(root.join("heard/away/x"), b"heard")?;
    for (number, name) in names.iter().enumerate() {
        for folder in ["", "sub folder", "sub folder/deep"] {
            let size = if *name == "empty" { 0 } else { 1_000 * number + 1 };
            fs::write(root.join("tree").join(folder).join(name), random(size, number as u64))?;
        }
    }
    Ok(fs::write(root.join("tree/large.bin"), random(3 * MIB + 77, 9))?)
}

fn pull(words: &[&str], to: &Path) -> Outcome<Output> {
    let (from, more) = words.split_first().ok_or("nothing is to be pulled")?;
    Ok(Command::new(program()?)
        .args(["pull", from])
        .arg(to)
        .args(more)
        .args(["--json", "--retry-for", "5s"])
        .output()?)
}

fn end_of(output: &Output) -> Outcome<Value> {
    let text = std::str::from_utf8(&output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().ok_or_else(|| format!("nothing was said: {output:?}"))?)?)
}

fn assert_same(a: &Path, b: &Path) -> Outcome {
    let output = Command::new("diff").arg("-r").arg(a).arg(b).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

#[test]
fn a_folder_arrives_by_its_pages_whichever_server_writes_them_and_the_second_time_not() -> Outcome {
    let servers = Servers::start()?;
    let (nginx, apache) = (servers.nginx, servers.apache);
    for (port, path) in
        [(nginx, "tree"), (nginx, "json"), (nginx, "whole"), (apache, "tree"), (apache, "plain"), (nginx, "digest")]
    {
        let (to, url) = (tempfile::tempdir()?, format!("web:http://127.0.0.1:{port}/{path}/"));
        let output = pull(&[&url], to.path())?;
        if path == "digest" {
            assert_eq!(output.status.code(), Some(74), "{output:?}");
            assert!(String::from_utf8(output.stdout)?.contains("SHA-256"));
            for entry in fs::read_dir(to.path().join(path))? {
                let entry = entry?;
                let is_part = entry.file_name().to_string_lossy().starts_with('.');
                assert!(is_part || entry.file_type()?.is_dir(), "{entry:?}");
            }
            continue;
        }
        assert!(output.status.success(), "{url}: {output:?}");
        assert_same(&servers.site("tree"), &to.path().join(path))?;
        let again = end_of(&pull(&[&format!("{url}.")], &to.path().join(path))?)?;
        assert_eq!((again["same"].as_u64(), again["moved_bytes"].as_u64()), (Some(34), Some(0)), "{url}: {again}");
    }
    let none = pull(&[&format!("web:http://127.0.0.1:{nginx}/nolist/")], tempfile::tempdir()?.path())?;
    assert_eq!(none.status.code(), Some(77), "{none:?}");
    let none = pull(&[&format!("web:http://127.0.0.1:{nginx}/nowhere/")], tempfile::tempdir()?.path())?;
    assert_eq!(none.status.code(), Some(66), "{none:?}");
    Ok(())
}

#[test]
fn a_password_opens_its_own_server_and_is_shown_to_no_other() -> Outcome {
    let servers = Servers::start()?;
    let (to, password) = (tempfile::tempdir()?, servers.password()?);
    let url = format!("web:http://127.0.0.1:{}/secret/.", servers.nginx);
    let named = |url: &str, file: &str| pull(&[url, "--user", "ann", "--password-file", file], to.path());
    assert_eq!(pull(&[&url], to.path())?.status.code(), Some(77));
    let output = named(&url, &password)?;
    assert!(output.status.success(), "{output:?}");
    assert_same(&servers.site("tree"), to.path())?;
    let away = named(&format!("web:http://127.0.0.1:{}/away/x", servers.nginx), &password)?;
    assert_eq!(away.status.code(), Some(77), "{away:?}");
    assert!(!to.path().join("x").exists());
    fs::write(servers.folder.path().join("guess"), "guess\n")?;
    let wrong = named(&url, &servers.folder.path().join("guess").display().to_string())?;
    assert_eq!(wrong.status.code(), Some(77), "{wrong:?}");
    let far = named("web:http://drive.example.org/x", &password)?;
    assert!(far.status.code() == Some(64) && String::from_utf8(far.stderr)?.contains("https"));
    Ok(())
}

#[test]
fn sums_beside_files_are_held_against_them() -> Outcome {
    let servers = Servers::start()?;
    let (to, url) = (tempfile::tempdir()?, format!("web:http://127.0.0.1:{}/tree/.", servers.apache));
    let sum = |name: &str| -> Outcome<String> {
        let output = Command::new("sha256sum").arg(servers.site("tree").join(name)).output()?;
        Ok(String::from_utf8(output.stdout)?.split_whitespace().next().unwrap_or_default().to_owned())
    };
    fs::write(servers.site("tree/large.bin.sha256"), format!("{}  large.bin\n", sum("large.bin")?))?;
    fs::write(servers.site("tree/plain.txt.sha256"), format!("{}  plain.txt\n", sum("large.bin")?))?;
    let output = pull(&[&url], to.path())?;
    assert_eq!((output.status.code(), end_of(&output)?["failed"].as_u64()), (Some(74), Some(1)), "{output:?}");
    assert!(to.path().join("large.bin").exists() && !to.path().join("plain.txt").exists());
    let one = pull(&[&format!("web:http://127.0.0.1:{}/tree/plain.txt", servers.nginx)], to.path())?;
    assert_eq!(one.status.code(), Some(74), "{one:?}");
    Ok(())
}

#[test]
fn lists_and_metalinks_bring_files_from_wherever_they_are() -> Outcome {
    let servers = Servers::start()?;
    let (to, list) = (tempfile::tempdir()?, servers.folder.path().join("list"));
    let (nginx, apache) = (servers.nginx, servers.apache);
    let lines = format!(
        "http://127.0.0.1:{nginx}/tree/\nplain.txt\nsub%20folder/a%20b\nhttp://127.0.0.1:{apache}/tree/large.bin\nnowhere\n"
    );
    fs::write(&list, &lines)?;
    let output = pull(&[&format!("web-list:{}", list.display())], to.path())?;
    assert_eq!((output.status.code(), end_of(&output)?["files"].as_u64()), (Some(74), Some(3)), "{output:?}");
    for name in ["plain.txt", "sub folder/a b", "large.bin"] {
        assert!(fs::read(to.path().join(name))? == fs::read(servers.site("tree").join(name))?, "{name}");
    }
    fs::write(servers.site("all.txt"), "tree/plain.txt\ntree/large.bin\n")?;
    let by_url = tempfile::tempdir()?;
    let output = pull(&[&format!("web-list:http://127.0.0.1:{nginx}/all.txt")], by_url.path())?;
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(by_url.path().join("tree/large.bin"))? == fs::read(servers.site("tree/large.bin"))?);
    let output = Command::new("sha256sum").arg(servers.site("tree/large.bin")).output()?;
    let sum = String::from_utf8(output.stdout)?.split_whitespace().next().unwrap_or_default().to_owned();
    let metalink = |sum: &str| {
        format!(
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"got/it.bin\"><size>{}</size><hash type=\"sha-256\">{sum}</hash>\
             <url priority=\"1\">http://127.0.0.1:1/gone</url><url priority=\"2\">http://127.0.0.1:{nginx}/nowhere</url>\
             <url priority=\"3\">http://127.0.0.1:{apache}/tree/large.bin</url></file></metalink>",
            3 * MIB + 77
        )
    };
    fs::write(servers.site("it.meta4"), metalink(&sum))?;
    let address = format!("metalink:http://127.0.0.1:{nginx}/it.meta4");
    let output = pull(&[&address], to.path())?;
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(to.path().join("got/it.bin"))? == fs::read(servers.site("tree/large.bin"))?);
    fs::write(
        servers.site("it.meta4"),
        metalink(&sum.replace(&sum[..1], if sum.starts_with('0') { "1" } else { "0" })),
    )?;
    let other = tempfile::tempdir()?;
    let output = pull(&[&address], other.path())?;
    assert_eq!(output.status.code(), Some(74), "{output:?}");
    assert!(!other.path().join("got/it.bin").exists());
    Ok(())
}
