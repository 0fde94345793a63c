//! Connections over an in-memory socket and a clock that runs as soon as everybody waits.

use super::*;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch::Sender;

/// Answers with the length of the body, or with the error that broke it.
struct Measure;

impl Handler for Measure {
    async fn handle(
        self: Arc<Self>,
        _: Peer,
        tally: Arc<Tally>,
        request: Request<RequestBody>,
    ) -> Response<ResponseBody> {
        let (status, text) = if request.uri().path() == "/early" {
            (401, "no".to_owned())
        } else {
            match request.into_body().collect().await {
                Ok(body) => (200, body.to_bytes().len().to_string()),
                Err(error) => (error.kind().status(), error.to_string()),
            }
        };
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
        let mut answer = Response::new(ResponseBody::new(body, tally, None));
        *answer.status_mut() = StatusCode::from_u16(status).expect("status");
        answer
    }

    const HAS_READY: bool = true;

    fn ready(&self, _: Peer, ask: &Ask<'_>) -> Option<Ready> {
        let room = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().expect("free");
        let head = Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n");
        (ask.path == "/ready").then(|| Ready { head, body: Bytes::from_static(b"ready"), room })
    }
}

struct Client {
    stream: DuplexStream,
    stage: Sender<Stage>,
}

impl Client {
    fn connect() -> Self {
        let (stream, far) = tokio::io::duplex(64 << 10);
        let (stage, stages) = tokio::sync::watch::channel(Stage::Running);
        let connector = Arc::new(Connector::new(Arc::new(Measure), Limits::default()));
        let peer = Peer { address: ([127, 0, 0, 1], 1).into(), tls: false };
        tokio::spawn(connector.serve(far, peer, Line::Plain, stages));
        Self { stream, stage }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("sent");
    }

    /// Reads to the end of the stream.
    async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).await.expect("read");
        String::from_utf8(bytes).expect("text")
    }

    /// Reads one answer whose body ends with `last`.
    async fn answer(&mut self, last: &str) -> String {
        let mut text = String::new();
        while !(text.contains("\r\n\r\n") && text.ends_with(last)) {
            let byte = self.stream.read_u8().await.expect("the connection is open");
            text.push(char::from(byte));
        }
        text
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_end_is_answered_408_and_closed() {
    let mut client = Client::connect();
    client.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    assert!(client.rest().await.starts_with("HTTP/1.1 408 "));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_trickles_in_is_answered_408_however_steady_it_is() {
    let mut client = Client::connect();
    client.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    let (mut reader, mut writer) = tokio::io::split(client.stream);
    let trickle = tokio::spawn(async move {
        while writer.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    });
    let mut answer = Vec::new();
    reader.read_to_end(&mut answer).await.expect("read");
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
    trickle.abort();
    drop(client.stage);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_large_is_answered_431() {
    let mut client = Client::connect();
    client.send(b"GET / HTTP/1.1\r\nhost: x\r\n").await;
    let (mut reader, mut writer) = tokio::io::split(client.stream);
    tokio::spawn(async move {
        let line = format!("x: {}\r\n", "a".repeat(8_000));
        while writer.write_all(line.as_bytes()).await.is_ok() {}
    });
    let mut answer = vec![0; 13];
    reader.read_exact(&mut answer).await.expect("read");
    assert_eq!(answer, b"HTTP/1.1 431 ");
}

#[tokio::test(start_paused = true)]
async fn too_many_headers_are_answered_431() {
    let mut client = Client::connect();
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(crate::limits::HEADERS_MAX + 1));
    client.send(head.as_bytes()).await;
    assert!(client.rest().await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed_and_so_is_one_that_falls_silent() {
    let mut silent = Client::connect();
    assert_eq!(silent.rest().await, "");
    let mut once = Client::connect();
    once.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = once.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n0"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_408_and_one_that_creeps_is_taken() {
    let mut stalled = Client::connect();
    stalled.send(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await;
    assert!(stalled.rest().await.starts_with("HTTP/1.1 408 "));

    let mut creeping = Client::connect();
    creeping.send(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n").await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        creeping.send(b"a").await;
    }
    assert!(creeping.answer("5").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(start_paused = true)]
async fn a_broken_or_short_body_is_the_client_s_fault() {
    let mut broken = Client::connect();
    broken.send(b"PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n").await;
    let answer = broken.rest().await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");

    let mut short = Client::connect();
    short.send(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await;
    short.stream.shutdown().await.expect("half closed");
    let answer = short.rest().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_reaches_a_client_that_is_still_sending_and_the_connection_goes_on() {
    let mut client = Client::connect();
    client.send(b"PUT /early HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").await;
    for _ in 0..100 {
        client.send(&[b'x'; 10_000]).await;
    }
    assert!(client.answer("no").await.starts_with("HTTP/1.1 401 "));
    client.send(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc").await;
    assert!(client.answer("3").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(start_paused = true)]
async fn a_drain_closes_idle_connections_and_lets_running_requests_finish() {
    let mut idle = Client::connect();
    idle.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    idle.answer("0").await;
    idle.stage.send_replace(Stage::Draining);
    assert_eq!(idle.rest().await, "");

    let mut running = Client::connect();
    running.send(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\nabc").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    running.stage.send_replace(Stage::Draining);
    tokio::time::sleep(Duration::from_secs(10)).await;
    running.send(b"def").await;
    let answer = running.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with('6'), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_drain_cuts_what_still_runs() {
    let mut client = Client::connect();
    client.send(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\nabc").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    client.stage.send_replace(Stage::Ending);
    assert_eq!(client.rest().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_cut_off() {
    let mut client = Client::connect();
    let watched = client.stage.clone();
    // Requests whose answers nobody reads fill the socket, then hyper's buffer, and then the write is stuck.
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    while client.stream.write_all(&request).await.is_ok() {}
    assert_eq!(watched.receiver_count(), 0, "the connection's task has ended");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_had_ready_answers_is_still_timed_and_drained() {
    let ready = b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut client = Client::connect();
    for _ in 0..3 {
        client.send(ready).await;
        assert!(client.answer("ready").await.contains("\r\ndate: "));
    }
    client.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(client.answer("0").await.starts_with("HTTP/1.1 200 "));
    client.send(ready).await;
    assert!(client.answer("0").await.starts_with("HTTP/1.1 200 "), "what is parsed once is parsed from then on");
    assert_eq!(client.rest().await, "", "closed when it falls silent");

    let mut slow = Client::connect();
    slow.send(ready).await;
    slow.answer("ready").await;
    slow.send(&ready[..20]).await;
    assert!(slow.rest().await.starts_with("HTTP/1.1 408 "));

    let mut idle = Client::connect();
    idle.send(ready).await;
    idle.answer("ready").await;
    let mut begun = Client::connect();
    begun.send(&ready[..20]).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    for client in [&idle, &begun] {
        client.stage.send(Stage::Draining).expect("open");
    }
    assert_eq!(idle.rest().await, "");
    begun.send(&ready[20..]).await;
    assert!(begun.rest().await.starts_with("HTTP/1.1 200 "), "a request that came before the drain is answered");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_of_a_ready_answer_is_cut_off() {
    let client = Client::connect();
    let (mut reader, mut writer) = tokio::io::split(client.stream);
    let asking = tokio::spawn(async move {
        while writer.write_all(b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    asking.await.expect("ends when it is cut");
    let mut taken = Vec::new();
    reader.read_to_end(&mut taken).await.expect("read");
    assert!(taken.starts_with(b"HTTP/1.1 200 "));
    client.stage.send(Stage::Running).ok();
}
