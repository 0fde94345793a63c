//! HTTP over the plane.

use crate::relay::Harm;
use crate::{connected, serving};
use bytes::Bytes;
use holdfast_plane::http::{Client, Incoming};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use std::time::Duration;

/// Answers with what it is sent, from `/echo`; with so many bytes as `/bytes/N` says; never, from `/never`.
async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let method = request.method().to_string();
    let body = match path.as_str() {
        "/echo" => request.into_body().collect().await.expect("whole").to_bytes(),
        "/never" => std::future::pending().await,
        path => Bytes::from(vec![7; path.strip_prefix("/bytes/").and_then(|n| n.parse().ok()).expect("a number")]),
    };
    Response::builder().status(StatusCode::ACCEPTED).header("was", method).body(Full::new(body)).expect("sound")
}

async fn client(harm: Harm) -> (Client, impl Sized) {
    let (at, relay) = serving(harm, |plane| async move { holdfast_plane::http::serve(plane, answer).await }).await;
    let (plane, endpoint) = connected(&at).await;
    (Client::new(plane), (relay, endpoint))
}

fn content(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at * 7 / 3) as u8).collect::<Vec<_>>().into()
}

async fn echo(client: &Client, bytes: usize) {
    let request = Request::put("/echo").body(Full::new(content(bytes))).expect("sound");
    let answer = client.request(request).await.expect("answered");
    assert_eq!((answer.status(), &answer.headers()["was"]), (StatusCode::ACCEPTED, &"PUT".parse::<http::HeaderValue>().expect("sound")));
    let got = answer.into_body().collect().await.expect("whole").to_bytes();
    assert!(got == content(bytes), "{} bytes came back of {bytes}", got.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_all_sizes_go_there_and_back_side_by_side() {
    let (client, _kept) = client(Harm { lost: 0.2, delay: Duration::from_millis(2), late: 0.1, ..Harm::default() }).await;
    let sizes = [0, 1, 1_000, 70_000, 1 << 20, (1 << 20) - 9, 3_000_000];
    let all = sizes.map(|bytes| {
        let client = client.clone();
        tokio::spawn(async move { echo(&client, bytes).await })
    });
    for one in all {
        one.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_dropped_is_taken_back_and_others_go_on() {
    let (client, _kept) = client(Harm::default()).await;
    for _ in 0..2_000 {
        let never = client.request(Request::get("/never").body(Full::<Bytes>::default()).expect("sound"));
        // More than may be under way at once, each given up.
        assert!(tokio::time::timeout(Duration::from_micros(200), never).await.is_err());
    }
    echo(&client, 10_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_that_fails_half_way_is_told_to_both_ends() {
    let (client, _kept) = client(Harm::default()).await;
    let parts = [Ok(http_body::Frame::data(content(2_000_000))), Err(std::io::Error::other("the disk is on fire"))];
    let stream = StreamBody::new(futures_util::stream::iter(parts));
    let failed = client.request(Request::put("/echo").body(stream).expect("sound")).await.expect_err("failed");
    assert!(failed.to_string().contains("on fire") || failed.to_string().contains("broke off"), "{failed}");
    echo(&client, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_not_read_holds_up_no_other_while_it_fits_the_window() {
    let (client, _kept) = client(Harm::default()).await;
    let unread = client.request(Request::get("/bytes/20000000").body(Full::<Bytes>::default()).expect("sound")).await.expect("answered");
    echo(&client, 2_000_000).await;
    assert_eq!(unread.into_body().collect().await.expect("whole").to_bytes().len(), 20_000_000);
}
