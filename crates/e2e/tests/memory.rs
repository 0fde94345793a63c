//! Bounds on the server's memory: its peak resident set (`VmHWM` of proc(5)) under large uploads and many connections.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use holdfast_e2e::Outcome;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, Rig};
use holdfast_testkit::data::{Kind, stream};
use holdfast_testkit::http::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Clients that upload at once.
const CLIENTS: u64 = 8;
/// Peak resident set while they do, at most.
const UPLOAD_PEAK_BYTES: u64 = 200 << 20;
/// Peak resident set with [`CONNECTIONS`], at most.
const CONNECTIONS_PEAK_BYTES: u64 = 250 << 20;
/// Open connections that have had a request.
const CONNECTIONS: usize = 2_000;
/// Open connections that never say a word.
const IDLE_CONNECTIONS: usize = 10_000;
/// File descriptors that this test program needs beside the connections.
const SPARE_DESCRIPTORS: u64 = 200;

/// `HOLDFAST_UPLOAD_MIB` sets the size of each file.
#[test]
fn eight_large_uploads_at_once_stay_within_200_mib() -> Outcome {
    let bytes = knob("HOLDFAST_UPLOAD_MIB", 128_u64) << 20;
    let mut rig = Rig::new()?;
    rig.client().get(HOME)?;
    let client = rig.client();
    thread::scope(|scope| {
        let upload = |number: u64| {
            let mut client = client.clone();
            // Both kinds: one fills the compressor, the other the disk.
            let kind = if number.is_multiple_of(2) { Kind::Incompressible } else { Kind::SourceText };
            scope.spawn(move || -> Outcome {
                let path = format!("{HOME}/large{number}");
                client.put_stream(&path, bytes, &mut stream(kind, number, bytes))?.expect_status(201)?;
                Ok(())
            })
        };
        let uploads: Vec<_> = (0..CLIENTS).map(upload).collect();
        uploads.into_iter().try_for_each(|upload| upload.join().map_err(|_| "an upload panicked")?)
    })?;
    let peak = rig.server.rss_peak()?;
    println!("{CLIENTS} uploads of {} MiB at once: peak {} MiB", bytes >> 20, peak >> 20);
    let mut client = rig.client();
    for number in 0..CLIENTS {
        let answer = client.head(&format!("{HOME}/large{number}"))?.expect_status(200)?;
        assert_eq!(answer.header("content-length"), Some(bytes.to_string().as_str()));
    }
    assert!(peak <= UPLOAD_PEAK_BYTES, "{} MiB", peak >> 20);
    rig.stop()
}

/// Raises this process's limit of open files; says whether it now suffices.
fn raise_limit(wanted: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // If it may not, the limit that is there decides.
    setrlimit(Resource::Nofile, raised).ok();
    getrlimit(Resource::Nofile).current.is_none_or(|current| current >= wanted)
}

/// A connection that makes a request, reads the answer and stays open.
fn keep_alive(address: SocketAddr, authorization: &str) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET {HOME}/file HTTP/1.1\r\nHost: {address}\r\nAuthorization: {authorization}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    // The body is read too, so that the connection rests: it ends with this line.
    while line.trim_end() != "the end" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err("the connection ended".into());
        }
    }
    drop(reader);
    Ok(stream)
}

#[test]
fn two_thousand_connections_in_use_stay_within_250_mib() -> Outcome {
    assert!(raise_limit(CONNECTIONS as u64 + SPARE_DESCRIPTORS), "the limit of open files is too low");
    let mut rig = Rig::new()?;
    let mut client = rig.client();
    client.put(&format!("{HOME}/file"), "a small file\nthe end\n")?.expect_status(201)?;
    let authorization = client.authorization().ok_or("no account")?.to_owned();
    let open = |_| keep_alive(rig.server.address(), &authorization);
    let connections = (0..CONNECTIONS).map(open).collect::<Outcome<Vec<_>>>()?;
    let peak = rig.server.rss_peak()?;
    println!("{} open connections: peak {} MiB, now {} MiB", connections.len(), peak >> 20, rig.server.rss()? >> 20);
    client.get(&format!("{HOME}/file"))?.expect_status(200)?;
    assert!(peak <= CONNECTIONS_PEAK_BYTES, "{} MiB", peak >> 20);
    drop(connections);
    rig.stop()
}

#[test]
fn ten_thousand_idle_connections_do_not_hinder_anybody() -> Outcome {
    if !raise_limit(IDLE_CONNECTIONS as u64 + SPARE_DESCRIPTORS) {
        println!("left out: the limit of open files is too low");
        return Ok(());
    }
    let mut rig = Rig::new()?;
    let address = rig.server.address();
    let connections = (0..IDLE_CONNECTIONS).map(|_| TcpStream::connect(address)).collect::<Result<Vec<_>, _>>()?;
    let mut client: Client = rig.client();
    client.put(&format!("{HOME}/file"), "content")?.expect_status(201)?;
    assert_eq!(client.get(&format!("{HOME}/file"))?.text(), "content");
    println!("{} idle connections: {} MiB", connections.len(), rig.server.rss()? >> 20);
    drop(connections);
    rig.stop()
}
