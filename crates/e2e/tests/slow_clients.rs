//! Clients whose network is slow hold up nobody: while hundreds of transfers trickle, a fast client's uploads and downloads
//! go on, the server's memory stays within its bounds, and the slow transfers end well when they are let go.
//!
//! Nothing here asserts on speed. What is proved is order: the fast transfers end while every slow one is still going on.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::disk::{Template, mount};
use holdfast_e2e::engines::Store;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, Rig};
use holdfast_e2e::wait::Over;
use holdfast_testkit::crashdisk::Config;
use holdfast_testkit::data::{Kind, Stream, incompressible, source_text, stream};
use holdfast_testkit::http::Client;
use holdfast_testkit::scan::Needles;
use holdfast_testkit::server::TestServer;

/// Slow transfers in each direction.
const SLOW_CLIENTS: u64 = 200;
/// What a slow upload sends before it trickles: more than a small body, less than a block.
const FIRST_BYTES: usize = 70_000;
/// Bytes a slow upload sends each time it is its turn.
const SENT_BYTES: usize = 100;
/// Bytes a slow download takes: 80 KB a second, so that a third of what lies in the server's socket (when it may write again) is taken
/// long before the server gives such a transfer up.
const TAKEN_BYTES: usize = 16 << 10;
/// What a slow upload sends in all: a block and a part of one.
const UPLOAD_BYTES: usize = 1_300_000;
/// What a slow download reads: more than the sockets on its way hold, so that the server is held up.
const DOWNLOAD_BYTES: usize = 24 << 20;
/// How many different ones there are.
const LARGE_FILES: u64 = 4;
/// What the fast client writes and reads.
const FAST_BYTES: usize = 10 << 20;
/// How often it does.
const ROUNDS: u64 = 20;
/// A slow client's socket takes this much unread.
const RECEIVE_BUFFER_BYTES: usize = 32 << 10;
/// The same when it is let go.
const LET_GO_BUFFER_BYTES: usize = 256 << 10;
/// Peak of what it has in memory besides the program itself, at most: that of many connections, and of large uploads.
const PEAK_BYTES: u64 = 210 << 20;
/// Half of the memory for content in one direction.
const CLIENT_BOUND_BYTES_MAX: f64 = 24.0 * 1_048_576.0;
/// How long the drips rest in between: a slow network, not a busy one.
const DRIP_EVERY: Duration = Duration::from_millis(200);

/// A transfer that trickles.
struct Slow {
    number: u64,
    stream: TcpStream,
    /// Of an upload: what is still to be sent.
    content: Option<Stream>,
    /// Of a download: what was taken.
    taken: Vec<u8>,
}

/// The content of a slow upload: every fifth is a file that the drive has already, every third is text.
fn upload_stream(number: u64) -> Stream {
    let (kind, seed) = match number {
        n if n.is_multiple_of(5) => (Kind::Incompressible, 5),
        n if n.is_multiple_of(3) => (Kind::SourceText, n),
        n => (Kind::Incompressible, 1_000 + n),
    };
    stream(kind, seed, UPLOAD_BYTES as u64)
}

fn upload_content(number: u64) -> Outcome<Vec<u8>> {
    let mut content = Vec::new();
    upload_stream(number).read_to_end(&mut content)?;
    Ok(content)
}

fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    // A hung server must fail the test.
    stream.set_read_timeout(Some(Duration::from_mins(2)))?;
    stream.set_write_timeout(Some(Duration::from_mins(2)))?;
    Ok(stream)
}

/// An upload whose first bytes are sent.
fn begin_upload(address: SocketAddr, authorization: &str, number: u64) -> Outcome<Slow> {
    let mut stream = connect(address)?;
    let head = format!(
        "PUT {HOME}/slow{number} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut content = upload_stream(number);
    send(&mut content, FIRST_BYTES, &mut stream)?;
    Ok(Slow { number, stream, content: Some(content), taken: Vec::new() })
}

fn send(content: &mut Stream, bytes: usize, stream: &mut TcpStream) -> Outcome {
    let mut piece = vec![0; bytes];
    content.read_exact(&mut piece)?;
    Ok(stream.write_all(&piece)?)
}

/// A download of which nothing is taken yet.
fn begin_download(address: SocketAddr, authorization: &str, number: u64) -> Outcome<Slow> {
    let mut stream = connect(address)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, RECEIVE_BUFFER_BYTES)?;
    let path = format!("{HOME}/large{}", number % LARGE_FILES);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nConnection: close\r\n\r\n")?;
    Ok(Slow { number, stream, content: None, taken: Vec::new() })
}

impl Slow {
    /// Moves a few bytes.
    fn drip(&mut self) -> Outcome {
        match &mut self.content {
            Some(content) => send(content, SENT_BYTES, &mut self.stream),
            None => self.take(),
        }
    }

    fn take(&mut self) -> Outcome {
        let mut piece = [0; TAKEN_BYTES];
        let bytes = self.stream.read(&mut piece)?;
        assert!(bytes > 0, "download {} broke off", self.number);
        self.taken.extend_from_slice(&piece[..bytes]);
        Ok(())
    }

    /// Whether the server has neither answered the upload nor sent all of the download.
    fn is_going_on(&self) -> Outcome<bool> {
        if self.content.is_none() {
            return Ok(self.taken.len() < DOWNLOAD_BYTES);
        }
        self.stream.set_nonblocking(true)?;
        let silent = self.stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false)?;
        Ok(silent)
    }

    /// Moves the rest as fast as it goes, and checks what came of it; `large` is what the downloads must be.
    fn finish(self, mut client: Client, large: &[Vec<u8>]) -> Outcome {
        if self.content.is_some() { self.finish_upload(&mut client) } else { self.finish_download(large) }
    }

    fn finish_upload(mut self, client: &mut Client) -> Outcome {
        std::io::copy(&mut self.content.take().ok_or("no upload")?, &mut self.stream)?;
        let mut line = String::new();
        BufReader::new(&self.stream).read_line(&mut line)?;
        assert!(line.starts_with("HTTP/1.1 201"), "upload {}: {line}", self.number);
        let stored = client.get(&format!("{HOME}/slow{}", self.number))?.expect_status(200)?.body;
        assert!(stored == upload_content(self.number)?, "upload {} differs", self.number);
        Ok(())
    }

    fn finish_download(mut self, large: &[Vec<u8>]) -> Outcome {
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.stream, LET_GO_BUFFER_BYTES)?;
        let end = loop {
            if let Some(at) = self.taken.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.take()?;
        };
        assert!(self.taken.starts_with(b"HTTP/1.1 200"));
        let content = &large[usize::try_from(self.number % large.len() as u64)?];
        let mut at = self.taken.len() - end;
        assert!(self.taken[end..] == content[..at], "download {} begins otherwise", self.number);
        let mut piece = vec![0; LET_GO_BUFFER_BYTES];
        loop {
            let bytes = self.stream.read(&mut piece)?;
            if bytes == 0 {
                break;
            }
            assert!(content.get(at..at + bytes) == Some(&piece[..bytes]), "download {} differs", self.number);
            at += bytes;
        }
        assert_eq!(at, content.len(), "download {} is short", self.number);
        Ok(())
    }
}

fn large_content(number: u64) -> Vec<u8> {
    if number == 0 { source_text(7, DOWNLOAD_BYTES) } else { incompressible(number, DOWNLOAD_BYTES) }
}

/// The fast client: writes, reads, compares.
fn fast_rounds(client: &mut Client, rounds: u64) -> Outcome {
    for round in 0..rounds {
        let content = incompressible(500 + round, FAST_BYTES);
        let path = format!("{HOME}/fast{}", round % 2);
        let status = client.put(&path, content.clone())?.status;
        assert!(matches!(status, 201 | 204), "round {round}: {status}");
        assert!(client.get(&path)?.expect_status(200)?.body == content, "round {round}");
        let small = source_text(round, 30_000);
        client.put(&format!("{HOME}/small{round}"), small.clone())?.expect_status(201)?;
        assert!(client.get(&format!("{HOME}/small{round}"))?.expect_status(200)?.body == small);
    }
    Ok(())
}

/// A port for the metrics that nobody listens on.
fn free_port() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A gauge of the server, summed over its labels that contain `label`.
fn gauge(metrics: SocketAddr, name: &str, label: &str) -> Outcome<f64> {
    let mut stream = connect(metrics)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Looks into every file without a name that the server has open. Needs no more rights than the test has: the server is its child.
fn nameless_files(server: &TestServer) -> Outcome<Vec<File>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{}/fd", server.pid()))? {
        let path = entry?.path();
        // One may be closed meanwhile.
        let Ok(target) = std::fs::read_link(&path) else { continue };
        if target.starts_with("/") && target.to_string_lossy().ends_with("(deleted)") {
            found.extend(File::open(&path));
        }
    }
    Ok(found)
}

/// Bytes of `file`, of which some are a hole or are being written.
fn contents(file: &File) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len())?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Lets all drip in turns until told to stop; answers them.
fn drip_on(mut slow: Vec<Slow>, stop: &AtomicBool) -> Outcome<Vec<Slow>> {
    while !stop.load(Ordering::Relaxed) {
        slow.iter_mut().try_for_each(Slow::drip)?;
        thread::sleep(DRIP_EVERY);
    }
    Ok(slow)
}

/// `HOLDFAST_SLOW_CLIENTS` sets how many there are in each direction.
#[test]
fn hundreds_of_slow_transfers_stop_nobody_and_end_well() -> Outcome {
    let count = knob("HOLDFAST_SLOW_CLIENTS", SLOW_CLIENTS);
    let metrics = free_port()?;
    let mut rig = Rig::with(|options| options.argument("--metrics-listen").argument(&metrics.to_string()))?;
    let mut client = rig.client();
    let large: Vec<_> = (0..LARGE_FILES).map(large_content).collect();
    for (number, content) in large.iter().enumerate() {
        client.put(&format!("{HOME}/large{number}"), content.clone())?.expect_status(201)?;
    }
    client.put(&format!("{HOME}/known"), upload_content(5)?)?.expect_status(201)?;
    let (address, authorization) = (rig.server.address(), client.authorization().ok_or("no account")?.to_owned());
    let uploads = (0..count).map(|number| begin_upload(address, &authorization, number));
    let downloads = (0..count).map(|number| begin_download(address, &authorization, number));
    let slow = uploads.chain(downloads).collect::<Outcome<Vec<_>>>()?;

    let stop = AtomicBool::new(false);
    let slow = thread::scope(|scope| {
        let dripping = scope.spawn(|| drip_on(slow, &stop));
        let over = Over(&stop);
        let begun = std::time::Instant::now();
        let fast = fast_rounds(&mut client, ROUNDS);
        println!("the fast transfers took {:.1} s", begun.elapsed().as_secs_f64());
        let fast = fast.and_then(|()| look_within(&rig.server, metrics, count));
        drop(over);
        let slow = dripping.join().map_err(|_| "the drips panicked")??;
        fast.map(|()| slow)
    })?;
    for transfer in &slow {
        assert!(transfer.is_going_on()?, "transfer {} ended before the fast ones did", transfer.number);
    }
    // All at once: one that had to wait for the others would be silent for too long.
    thread::scope(|scope| {
        let finish = |transfer: Slow| {
            let (client, large) = (client.clone(), &large);
            scope.spawn(move || transfer.finish(client, large))
        };
        let ends: Vec<_> = slow.into_iter().map(finish).collect();
        ends.into_iter().try_for_each(|end| end.join().map_err(|_| "a transfer panicked")?)
    })?;
    let peak = rig.server.rss_peak()?.saturating_sub(rig.server.rss_file()?);
    println!("{count} slow uploads and {count} slow downloads: peak {} MiB", peak >> 20);
    assert!(peak <= PEAK_BYTES, "{} MiB", peak >> 20);
    expect_clean(rig.server.options())?;
    rig.stop()
}

/// While the slow ones are going on: memory that waits for clients is within its half, and the scratch file says nothing.
fn look_within(server: &TestServer, metrics: SocketAddr, count: u64) -> Outcome {
    for budget in ["uploads", "downloads"] {
        let bytes = gauge(metrics, "holdfast_memory_client_bound_bytes", budget)?;
        println!("{budget}: {:.1} MiB wait for clients", bytes / 1_048_576.0);
        assert!(bytes <= CLIENT_BOUND_BYTES_MAX, "{budget}: {bytes}");
    }
    let slots = gauge(metrics, "holdfast_set_aside_slots", "")?;
    println!("{slots} blocks are set aside");
    assert!(slots >= count as f64 / 2.0, "most slow uploads are on the disk: {slots}");
    let files = nameless_files(server)?;
    let scratch = files.iter().map(contents).collect::<Outcome<Vec<_>>>()?.concat();
    assert!(scratch.len() >= FIRST_BYTES, "the scratch file was found");
    // Samples of all that was sent: pieces of 16 bytes do not occur by chance.
    let mut needles = Needles::new();
    for number in 0..count {
        for piece in upload_content(number)?[..FIRST_BYTES].chunks_exact(16).step_by(101) {
            needles.add(&format!("upload {number}"), piece);
        }
    }
    assert_eq!(needles.find_in(&scratch)?, Vec::<&str>::new(), "plaintext in the scratch file");
    Ok(())
}

/// Where the disk has no room for it, a slow upload fails with 507 and says why; others go on.
#[test]
fn a_full_disk_fails_the_slow_uploads_it_has_no_room_for_and_no_other() -> Outcome {
    let template = Template::make()?;
    let mounted = mount(template.image(Config::default()), &template.place)?;
    if template.place.engines.store != Store::Fs {
        // Packs take no room on the node's disk then: a disk on which blocks are set aside one after the other has room for all, and one so
        // small that it has not (3 MiB were tried) refuses a fast upload too, whose first block has to be set aside like any.
        println!("left out: the packs are not on this disk");
        return Ok(());
    }
    // What the drive leaves for its catalogue, and a few blocks.
    mounted.disk.set_capacity(mounted.disk.used_bytes() + (70 << 20));
    let mut server = mounted.options()?.start()?;
    let mut client = template.client(&server);
    let authorization = client.authorization().ok_or("no account")?.to_owned();
    let begin = |number| begin_upload(server.address(), &authorization, number);
    let slow = (1..=80).map(begin).collect::<Outcome<Vec<_>>>()?;
    let content = incompressible(1, 2 << 20);
    client.put(&format!("{HOME}/fast"), content.clone())?.expect_status(201)?;
    assert!(client.get(&format!("{HOME}/fast"))?.expect_status(200)?.body == content);
    let (mut whole, mut refused) = (0, 0);
    for mut transfer in slow {
        // One that is refused is not read to its end.
        let _ = std::io::copy(&mut transfer.content.take().ok_or("no upload")?, &mut transfer.stream);
        let mut line = String::new();
        BufReader::new(&transfer.stream).read_line(&mut line)?;
        match line.get(9..12) {
            Some("201") => whole += 1,
            Some("507") => refused += 1,
            _ => return Err(format!("upload {}: {line}", transfer.number).into()),
        }
    }
    println!("{whole} slow uploads stored, {refused} refused");
    assert!(whole > 0 && refused > 0);
    expect_clean(server.options())?;
    server.terminate()?;
    Ok(())
}
