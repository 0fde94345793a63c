//! Against servers of this machine that say what they are told to; real ones are in the tests of the whole program.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

/// Greets, and answers each command, until it is dropped with the test.
fn serve(answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address");
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(std::result::Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || -> std::io::Result<()> {
                let reader = BufReader::new(stream.try_clone()?);
                stream.write_all(b"220 ready\r\n")?;
                for line in reader.lines() {
                    answer(&line?, &mut stream)?;
                }
                Ok(())
            });
        }
    });
    format!("ftp://{address}/")
}

/// What every server answers alike.
fn usual(command: &str) -> Option<&'static str> {
    Some(match command.split(' ').next()? {
        "USER" => "331 who?\r\n",
        "PASS" => "230 hello\r\n",
        "TYPE" => "200 yes\r\n",
        "PWD" => "257 \"/\"\r\n",
        "CWD" => "250 there\r\n",
        "FEAT" => "211-\r\n MLST type*;size*;\r\n REST STREAM\r\n211 End\r\n",
        _ => return None,
    })
}

fn site(address: &str, login: &Login) -> FtpSite {
    FtpSite::new(&SiteUrl::parse(address).expect("an address"), login).expect("a site")
}

/// Listens for one connection for content, on which `content` is sent.
fn data(content: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || listener.accept().and_then(|(mut stream, _)| stream.write_all(&content)));
    port
}

async fn listed(content: &'static [u8], before: &'static str, after: &'static str) -> Result<Listed> {
    let url = serve(move |command, stream| match usual(command) {
        Some(text) => stream.write_all(text.as_bytes()),
        None if command == "EPSV" => stream.write_all(b"502 no such thing\r\n"),
        None if command == "PASV" => {
            let port = data(content.to_vec());
            // Somebody else's address, of which no notice may be taken.
            write!(stream, "227 at (192,0,2,1,{},{})\r\n", port >> 8, port & 255)
        }
        None if command == "MLSD" => write!(stream, "{before}{after}"),
        None => stream.write_all(b"500 what?\r\n"),
    });
    site(&url, &Login::default()).list(&DrivePath::root(), None).await
}

#[tokio::test]
async fn content_comes_from_the_server_itself_whatever_address_it_says() {
    let listed = listed(b"type=file;size=3; a\r\ntype=dir; b\r\n", "150 now\r\n", "226 done\r\n").await;
    let names: Vec<String> = listed.expect("lists").items.iter().map(|item| item.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_listing_that_the_server_does_not_confirm_is_none() {
    let broken = listed(b"type=file;size=3; a\r\n", "150 now\r\n", "426 it broke\r\n").await;
    assert!(broken.expect_err("broken").is_temporary());
    let refused = listed(b"", "550 no such folder\r\n", "").await;
    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn names_that_cannot_be_carried_are_told_beside_the_rest_and_lead_nowhere() {
    let lines = b"type=file;size=1; ../../etc/passwd\r\ntype=file;size=1; \xff\r\ntype=file; x\r\ntype=file;size=1; ok\r\ntype=cdir; .\r\n";
    let listed = listed(lines, "150 now\r\n", "226 done\r\n").await.expect("lists");
    let names: Vec<String> = listed.items.iter().map(|item| item.name.to_string()).collect();
    assert_eq!((names, listed.refused.len()), (vec!["ok".to_owned(), "passwd".to_owned()], 2));
}

#[tokio::test]
async fn lines_without_end_are_refused() {
    static LONG: [u8; 100_000] = [b'x'; 100_000];
    let error = listed(&LONG, "150 now\r\n", "226 done\r\n").await.expect_err("long");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

fn named(password: &str) -> Login {
    Login { user: Some("ann".into()), password: Some(Secret::new(password)), ..Login::default() }
}

#[tokio::test]
async fn a_password_is_not_sent_in_the_clear_unless_that_was_said() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let url = serve(move |command, stream| {
        ear.lock().push(command.to_owned());
        stream.write_all(usual(command).unwrap_or("502 no such thing\r\n").as_bytes())
    });
    let refused = site(&url, &named("hush")).look(&DrivePath::root()).await.expect_err("no TLS");
    assert!(refused.kind() == ErrorKind::Forbidden && refused.message().contains("--plain-ftp"), "{refused}");
    assert_eq!(*heard.lock(), ["AUTH TLS"]);
    let plain = Login { plain_ftp: true, ..named("hush") };
    site(&url, &plain).look(&DrivePath::root()).await.expect("signs in");
    assert!(heard.lock().contains(&"PASS hush".to_owned()));
    heard.lock().clear();
    site(&url, &Login::default()).look(&DrivePath::root()).await.expect("signs in");
    assert!(heard.lock().contains(&"USER anonymous".to_owned()));
}

#[tokio::test]
async fn what_is_said_in_the_clear_behind_the_word_for_tls_ends_the_connection() {
    let url = serve(|_, stream| stream.write_all(b"234 go on\r\n331 who?\r\n"));
    let error = site(&url, &named("hush")).look(&DrivePath::root()).await.expect_err("injected");
    assert!(error.kind() == ErrorKind::Forbidden && error.message().contains("in the clear"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_told_as_such() {
    let url = serve(|command, stream| {
        let text =
            if command.starts_with("PASS") { "530 Login incorrect\r\n" } else { usual(command).unwrap_or_default() };
        stream.write_all(text.as_bytes())
    });
    let plain = Login { plain_ftp: true, ..named("wrong") };
    let error = site(&url, &plain).look(&DrivePath::root()).await.expect_err("refused");
    assert!(error.kind() == ErrorKind::Unauthenticated && !error.message().contains("wrong"), "{error}");
}

#[test]
fn addresses_of_this_kind_are_known() {
    assert!(
        is_ftp("ftp://h/a") && is_ftp("FTPS://h") && is_ftp("ftpes://h") && !is_ftp("sftp://h") && !is_ftp("/ftp:")
    );
    let missing = FtpSite::new(&SiteUrl::parse("ftp://ann@h/").expect("an address"), &Login::default()).map(|_| ());
    assert!(missing.expect_err("no password").message().contains("--password-file"));
    let no_file = Login { ca: Some(PathBuf::from("/nowhere")), ..Login::default() };
    assert!(FtpSite::new(&SiteUrl::parse("ftps://h/").expect("an address"), &no_file).is_err());
    assert_eq!(site("ftp://ann@h/", &named("x")).address(), "ftp://ann@h");
}
