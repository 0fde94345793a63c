//! What a browser does at the API: sessions in cookies, visits of links, uploads in parts.
//!
//! A [`Page`] is a browser at one node; [`Page::at`] is the same browser, with the same cookie, at another. An [`Upload`] knows the address of an
//! upload and nothing else: where it stands it asks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_testkit::http::{Client, RawConnection, Request, Response};
use holdfast_testkit::server::TestServer;
use serde_json::{Value, json};

use crate::Outcome;

/// Where the API is.
const API: &str = "/api/v1";
/// By what name the drive is spoken to, whatever the node's port: passkeys are bound to it.
pub const HOST: &str = "drive.example";

/// A browser at a node, signed in or not, or at a link.
#[derive(Debug, Clone)]
pub struct Page {
    /// Speaks to the node.
    pub client: Client,
    /// What the node has set.
    pub cookie: Option<String>,
    base: String,
}

impl Page {
    /// Nobody yet.
    pub fn new(server: &TestServer) -> Self {
        Self { client: server.client(), cookie: None, base: API.to_owned() }
    }

    /// Somebody who has signed in.
    pub fn signed_in(server: &TestServer, name: &str, password: &str) -> Outcome<Self> {
        let mut page = Self::new(server);
        page.call("POST", "/session", &json!({"name": name, "password": password}))?.expect_status(200)?;
        Ok(page)
    }

    /// The visitor of a link, who has opened it.
    pub fn visit(server: &TestServer, share: &Value, password: Option<&str>) -> Outcome<Self> {
        Self::new(server).visiting(share, password)
    }

    /// The same at the node of this page, whose own session stays out of it.
    pub fn visiting(&self, share: &Value, password: Option<&str>) -> Outcome<Self> {
        let link = share["link"].as_str().ok_or("this share is no link")?;
        let (path, secret) = link.split_once('#').ok_or("the link has no secret")?;
        let id = path.strip_prefix("/l/").ok_or("the link is no page")?;
        let mut page = Self { base: format!("{API}/links/{id}"), cookie: None, client: self.client.clone() };
        page.call("POST", "/session", &json!({"secret": secret, "password": password}))?.expect_status(200)?;
        Ok(page)
    }

    /// The same browser at another node.
    #[must_use]
    pub fn at(&self, server: &TestServer) -> Self {
        Self { client: server.client(), ..self.clone() }
    }

    /// The same browser with another cookie.
    #[must_use]
    pub fn with_cookie(&self, cookie: Option<String>) -> Self {
        Self { cookie, ..self.clone() }
    }

    /// A request below the API, or the link, as its page makes it.
    pub fn request(&self, method: &str, path: &str) -> Request {
        self.absolute(method, &format!("{}{path}", self.base))
    }

    fn absolute(&self, method: &str, target: &str) -> Request {
        Request::with_target(method, target)
            .header("Host", HOST)
            .header("Sec-Fetch-Site", "same-origin")
            .header("X-Requested-With", "holdfast")
            .maybe_header("Cookie", self.cookie.as_deref())
    }

    /// Sends JSON, or nothing where that is null, and keeps the cookie that comes back.
    pub fn call(&mut self, method: &str, path: &str, body: &Value) -> Outcome<Response> {
        let mut request = self.request(method, path);
        if !body.is_null() {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let answer = self.client.send(&request)?;
        if let Some(set) = answer.header("Set-Cookie") {
            self.cookie = set.split(';').next().map(ToOwned::to_owned);
        }
        Ok(answer)
    }

    /// The same; the answer's JSON, if it has this status.
    pub fn json(&mut self, method: &str, path: &str, body: &Value, status: u16) -> Outcome<Value> {
        let answer = self.call(method, path, body)?.expect_status(status)?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// GET.
    pub fn get(&mut self, path: &str) -> Outcome<Response> {
        self.call("GET", path, &Value::Null)
    }

    /// Writes a file whole.
    pub fn put(&mut self, path: &str, content: &[u8]) -> Outcome<Response> {
        Ok(self.client.send(&self.request("PUT", path).body(content))?)
    }

    /// Shares a place, as `more` says.
    pub fn share(&mut self, space: &str, path: &str, more: &Value) -> Outcome<Value> {
        let mut body = more.clone();
        body["space"] = space.into();
        body["path"] = path.into();
        self.json("POST", "/shares", &body, 201)
    }

    /// Bytes that uploads have reserved in a space.
    pub fn reserved(&mut self, space: &str) -> Outcome<u64> {
        let space = self.json("GET", &format!("/spaces/{space}"), &Value::Null, 200)?;
        Ok(space["reserved_bytes"].as_u64().ok_or("no reserved_bytes")?)
    }

    /// Asks for an upload; what it answers, whatever that is.
    pub fn creation(&mut self, length: impl std::fmt::Display, pairs: &[(&str, &str)]) -> Outcome<Response> {
        let request = self
            .request("POST", "/uploads")
            .header("Tus-Resumable", "1.0.0")
            .header("Upload-Length", format!("{length}"))
            .header("Upload-Metadata", metadata(pairs));
        Ok(self.client.send(&request)?)
    }

    /// Begins an upload.
    pub fn begin(&mut self, length: usize, pairs: &[(&str, &str)]) -> Outcome<Upload> {
        let begun = self.creation(length, pairs)?.expect_status(201)?;
        Ok(Upload { address: begun.header("Location").ok_or("no address")?.to_owned(), length })
    }

    /// A part of an upload, to be sent, perhaps with more headers.
    pub fn part(&self, upload: &Upload, offset: usize, content: &[u8]) -> Request {
        self.tus("PATCH", upload)
            .header("Upload-Offset", offset.to_string())
            .header("Content-Type", "application/offset+octet-stream")
            .body(content)
    }

    /// A request about an upload.
    pub fn tus(&self, method: &str, upload: &Upload) -> Request {
        self.absolute(method, &upload.address).header("Tus-Resumable", "1.0.0")
    }

    /// Sends a part.
    pub fn send_part(&mut self, upload: &Upload, offset: usize, content: &[u8]) -> Outcome<Response> {
        Ok(self.client.send(&self.part(upload, offset, content))?)
    }

    /// Where an upload stands.
    pub fn offset(&mut self, upload: &Upload) -> Outcome<usize> {
        let answer = self.client.send(&self.tus("HEAD", upload))?.expect_status(200)?;
        Ok(answer.header("Upload-Offset").ok_or("no offset")?.parse()?)
    }

    /// Sends the head of a part that goes from `offset` to the end, and nothing of its body yet.
    pub fn open_part(&self, upload: &Upload, offset: usize) -> Outcome<RawConnection> {
        let mut connection = self.client.raw()?;
        let cookie = self.cookie.as_ref().map(|cookie| format!("Cookie: {cookie}\r\n")).unwrap_or_default();
        let (address, length) = (&upload.address, upload.length - offset);
        let head = format!(
            "PATCH {address} HTTP/1.1\r\nHost: {HOST}\r\nSec-Fetch-Site: same-origin\r\nX-Requested-With: holdfast\r\n{cookie}\
             Tus-Resumable: 1.0.0\r\nUpload-Offset: {offset}\r\nContent-Type: application/offset+octet-stream\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        connection.write(head.as_bytes())?;
        Ok(connection)
    }
}

/// An upload.
#[derive(Debug, Clone)]
pub struct Upload {
    /// Where it is.
    pub address: String,
    /// Bytes it is to have.
    pub length: usize,
}

/// `Upload-Metadata` of these pairs.
pub fn metadata(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key} {}", STANDARD.encode(value))).collect();
    pairs.join(",")
}
