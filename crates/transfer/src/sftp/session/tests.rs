//! A session against servers that answer out of order, say what nobody asked, or lie about lengths.

use super::super::wire::OPEN_READ;
use super::*;
use holdfast_base::ErrorKind;
use std::future::ready;
use tokio::io::{AsyncReadExt, DuplexStream, duplex, split};

/// The server's end of a session.
struct Server(DuplexStream);

impl Server {
    async fn send(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len()).expect("short").to_be_bytes();
        self.0.write_all(&[&length, body].concat()).await.expect("the client is there");
    }

    async fn status(&mut self, number: u32, code: u32) {
        let body = [&[101][..], &number.to_be_bytes(), &code.to_be_bytes(), &[0; 8]].concat();
        self.send(&body).await;
    }

    /// The next request's type, number and fields.
    async fn request(&mut self) -> (u8, u32, Vec<u8>) {
        let length = self.0.read_u32().await.expect("a request");
        let mut body = vec![0; length as usize];
        self.0.read_exact(&mut body).await.expect("a whole request");
        (body[0], u32::from_be_bytes(body[1..5].try_into().expect("four bytes")), body[5..].to_vec())
    }

    async fn asked(&mut self) -> (u8, u32) {
        let (kind, number, _) = self.request().await;
        (kind, number)
    }
}

fn pair(room: usize) -> (DuplexStream, Server) {
    let (client, server) = duplex(room);
    (client, Server(server))
}

async fn begin(client: DuplexStream) -> Result<Session> {
    let (from, to) = split(client);
    Session::begin(from, to, ready(Error::unavailable("it ended"))).await
}

async fn begun(hello: &[u8]) -> (Result<Session>, Server) {
    let (client, mut server) = pair(1 << 16);
    server.send(hello).await;
    (begin(client).await, server)
}

async fn session() -> (Arc<Session>, Server) {
    let (session, mut server) = begun(&[2, 0, 0, 0, 3]).await;
    assert_eq!(server.asked().await, (Ask::Init as u8, VERSION));
    (Arc::new(session.expect("begins")), server)
}

fn removing(path: &str) -> Request {
    Request::new(Ask::Remove).bytes(path.as_bytes())
}

#[tokio::test]
async fn answers_find_who_asked_in_whatever_order_they_come() {
    let (session, mut server) = session().await;
    let (mut a, mut b) = (session.send(removing("a")).await.expect("a"), session.send(removing("b")).await.expect("b"));
    let ((_, first), (_, second)) = (server.asked().await, server.asked().await);
    server.status(second, code::OK).await;
    server.status(first, code::PERMISSION_DENIED).await;
    assert_eq!(b.come().await.expect("answered"), Ok(()));
    let refused = a.come().await.expect("answered").expect_err("refused");
    assert_eq!(refused.error("removing", "a").kind(), ErrorKind::Forbidden);
    assert_eq!(session.load(), Some(0));
}

#[tokio::test]
async fn what_is_no_answer_ends_the_session_and_all_that_wait_may_try_again() {
    let lies: [&[u8]; 4] = [
        &[101, 0, 0, 0, 99, 0, 0, 0, 0],
        &[103, 0, 0, 0, 0, 255, 255, 255, 255],
        &[42],
        &[104, 0, 0, 0, 0, 0, 0, 0, 9],
    ];
    for lie in lies {
        let (session, mut server) = session().await;
        let waiting = session.send(removing("a")).await.expect("sent");
        assert_eq!(server.asked().await.1, 0);
        server.send(lie).await;
        let error = waiting.reply().await.expect_err("it is over");
        assert!(error.is_temporary() && error.message().contains("no SFTP"), "{error}");
        assert_eq!(session.load(), None);
        assert!(session.send(removing("b")).await.is_err());
    }
}

#[tokio::test]
async fn a_frame_of_an_absurd_length_is_not_waited_for() {
    let (session, mut server) = session().await;
    let waiting = session.send(removing("a")).await.expect("sent");
    server.asked().await;
    server.0.write_all(&[0x7f, 255, 255, 255, 103]).await.expect("sends");
    assert!(waiting.reply().await.expect_err("it is over").message().contains("2147483647"));
}

#[tokio::test]
async fn a_connection_that_ends_is_told_to_all_that_wait() {
    let (session, server) = session().await;
    let waiting = session.send(removing("a")).await.expect("sent");
    drop(server);
    assert!(waiting.reply().await.expect_err("it is over").is_temporary());
    assert_eq!(session.load(), None);
}

#[tokio::test]
async fn what_was_opened_for_somebody_who_left_is_closed() {
    let (session, mut server) = session().await;
    let opening = {
        let session = Arc::clone(&session);
        tokio::spawn(async move { session.open("a", OPEN_READ, &Attrs::default()).await.map(|_| ()) })
    };
    let (kind, number) = server.asked().await;
    assert_eq!(kind, Ask::Open as u8);
    opening.abort();
    assert!(opening.await.is_err());
    server.send(&[&[102][..], &number.to_be_bytes(), &[0, 0, 0, 1, 7]].concat()).await;
    assert_eq!(server.asked().await.0, Ask::Close as u8);
}

#[tokio::test]
async fn an_older_version_is_refused_and_limits_of_the_server_are_kept() {
    let (old, _server) = begun(&[2, 0, 0, 0, 2]).await;
    assert_eq!(old.map(|_| ()).expect_err("too old").kind(), ErrorKind::Unsupported);
    for (limit, chunk) in [(0_u64, 32 << 10), (70_000, 64 << 10), (u64::MAX, 128 << 10), (1, 1 << 10)] {
        let name = b"limits@openssh.com";
        let hello = [&[2, 0, 0, 0, 3, 0, 0, 0, 18][..], name, &[0, 0, 0, 1, b'1']].concat();
        let (client, mut server) = pair(1 << 16);
        server.send(&hello).await;
        let beginning = tokio::spawn(begin(client));
        server.asked().await;
        let (kind, number) = server.asked().await;
        assert_eq!(kind, Ask::Extended as u8);
        let numbers = [262_144_u64, limit, limit, 9].map(u64::to_be_bytes).concat();
        server.send(&[&[201][..], &number.to_be_bytes(), &numbers].concat()).await;
        let session = beginning.await.expect("ends").expect("begins");
        assert_eq!(session.chunk, chunk, "{limit}");
    }
}

#[tokio::test]
async fn what_is_written_follows_the_rest_of_its_request() {
    let (session, mut server) = session().await;
    let content: Vec<u8> = (0..70_000_u32).map(|n| (n % 251) as u8).collect();
    let handle = Handle { session: Arc::clone(&session), bytes: Bytes::from_static(b"h") };
    let writing = handle.write(7, content.clone().into());
    let sent = tokio::spawn(async move { session.send(writing).await.map(|_| ()) });
    let (kind, _, fields) = server.request().await;
    let expected = [&[0, 0, 0, 1, b'h'][..], &7_u64.to_be_bytes(), &70_000_u32.to_be_bytes(), &content].concat();
    assert!(kind == Ask::Write as u8 && fields == expected);
    sent.await.expect("ends").expect("is sent");
}

#[tokio::test]
async fn who_waits_to_send_is_told_as_well_when_the_connection_ends_and_why() {
    let (client, mut server) = pair(16);
    let (from, to) = split(client);
    let ended = async { Error::new(ErrorKind::Unavailable, "the cable was cut") };
    let beginning = tokio::spawn(Session::begin(from, to, ended));
    server.asked().await;
    server.send(&[2, 0, 0, 0, 3]).await;
    let session = Arc::new(beginning.await.expect("ends").expect("begins"));
    let many: Vec<_> = (0..2 * FRAMES_WAITING)
        .map(|_| Arc::clone(&session))
        .map(|session| tokio::spawn(async move { session.ask(removing("a")).await }))
        .collect();
    server.asked().await;
    drop(server);
    for one in many {
        let error = one.await.expect("ends").expect_err("it is over");
        assert!(error.is_temporary(), "{error}");
    }
    let last = session.ask(removing("b")).await.expect_err("it is over");
    assert!(last.message().contains("the cable was cut"), "{last}");
}
