//! Shared folders and links, at the built program.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::TestServer;
use serde_json::{Value, json};

const VIEW: &str = "trip%20(ana)";

/// A drive with ana's `trip` (two files, a folder) in `private`, and something beside it.
pub(crate) struct Stage {
    _drive: Drive,
    pub(crate) server: TestServer,
    pub(crate) ana: Client,
    ben: Client,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let drive = Drive::new();
        let server = drive.start();
        let (mut ana, ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
        for folder in ["private", "private/trip", "private/trip/day"] {
            assert_eq!(call(&mut ana, "POST", &format!("/api/v1/folders/ana/{folder}"), None).status, 201);
        }
        for (path, content) in
            [("private/diary.txt", "secret"), ("private/trip/map.txt", "a map"), ("private/trip/day/one.txt", "one")]
        {
            assert_eq!(put(&mut ana, &format!("/api/v1/content/ana/{path}"), content).status, 201);
        }
        Self { _drive: drive, server, ana, ben }
    }

    pub(crate) fn share(&mut self, more: &Value) -> Value {
        let mut body = json!({"space": "ana", "path": "/private/trip"});
        let object = body.as_object_mut().expect("an object");
        object.extend(more.as_object().expect("an object").clone());
        json(&call(&mut self.ana, "POST", "/api/v1/shares", Some(&body)), 201)
    }

    pub(crate) fn change(&mut self, share: &Value, change: &Value) -> Response {
        call(&mut self.ana, "PATCH", &address(share), Some(change))
    }

    pub(crate) fn visitor(&self, share: &Value) -> Visitor {
        let link = share["link"].as_str().expect("has an address");
        let (path, secret) = link.split_once('#').expect("has a secret");
        let id = path.strip_prefix("/l/").expect("is a page").to_owned();
        Visitor { client: self.server.client(), id, secret: secret.to_owned(), cookie: None }
    }

    pub(crate) fn opened(&self, share: &Value) -> Visitor {
        let mut visitor = self.visitor(share);
        json(&visitor.open(None), 200);
        visitor
    }
}

pub(crate) fn address(share: &Value) -> String {
    format!("/api/v1/shares/{}", share["id"].as_str().expect("has an id"))
}

fn put(client: &mut Client, path: &str, content: &str) -> Response {
    client.send(&Request::with_target("PUT", path).body(content)).expect("answers")
}

fn names(answer: &Response) -> Vec<String> {
    let folder = json(answer, 200);
    let entries = folder["entries"].as_array().expect("a list");
    entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
}

/// A browser without an account, at a link.
pub(crate) struct Visitor {
    pub(crate) client: Client,
    pub(crate) id: String,
    pub(crate) secret: String,
    cookie: Option<String>,
}

impl Visitor {
    pub(crate) fn open(&mut self, password: Option<&str>) -> Response {
        let mut body = json!({"secret": self.secret});
        if let Some(password) = password {
            body["password"] = password.into();
        }
        let answer = self.call("POST", "/session", Some(&body));
        if let Some(set) = answer.header("set-cookie") {
            assert!(
                set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains(&self.secret),
                "{set}"
            );
            self.cookie = set.split(';').next().map(ToOwned::to_owned);
        }
        answer
    }

    fn request(&self, method: &str, path: &str) -> Request {
        let target = format!("/api/v1/links/{}{path}", self.id);
        Request::with_target(method, &target)
            .header("sec-fetch-site", "same-origin")
            .maybe_header("cookie", self.cookie.as_deref())
    }

    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.client.send(&request).expect("answers")
    }

    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.call("GET", path, None)
    }

    /// Sends a file as tus does; the answer to its creation.
    fn upload(&mut self, path: &str, content: &str, conflict: &str) -> Response {
        let pairs = [("space", "link"), ("path", path), ("conflict", conflict)];
        let metadata: Vec<String> =
            pairs.iter().map(|(key, value)| format!("{key} {}", STANDARD.encode(value))).collect();
        let request = self
            .request("POST", "/uploads")
            .header("tus-resumable", "1.0.0")
            .header("upload-length", content.len().to_string())
            .header("upload-metadata", metadata.join(","))
            .header("content-type", "application/offset+octet-stream")
            .body(content);
        self.client.send(&request).expect("answers")
    }
}

#[test]
fn a_folder_is_shared_with_an_account_and_nothing_beside_it() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"account": "ben", "access": "read", "label": "for the trip"}));
    assert_eq!((&share["account"], &share["link"]), (&json!("ben"), &Value::Null));
    let me = json(&call(&mut stage.ben, "GET", "/api/v1/me", None), 200);
    let seen: Vec<&Value> = me["spaces"].as_array().expect("a list").iter().map(|space| &space["name"]).collect();
    assert_eq!(seen, ["ben", "trip (ana)"]);
    assert_eq!((&me["spaces"][1]["shared_by"], &me["spaces"][1]["used_bytes"]), (&json!("ana"), &json!(0)));
    let listed = call(&mut stage.ben, "GET", &format!("/api/v1/folders/{VIEW}/"), None);
    assert_eq!(names(&listed), ["day", "map.txt"]);
    assert!(!listed.text().contains("private"), "{}", listed.text());
    let content = call(&mut stage.ben, "GET", &format!("/api/v1/content/{VIEW}/day/one.txt"), None);
    assert_eq!((content.status, content.text().as_str()), (200, "one"));
    // The names above and beside it lead nowhere.
    for place in ["nodes/ana/private/trip", "nodes/ana/", "content/ana/private/diary.txt"] {
        assert_eq!(call(&mut stage.ben, "GET", &format!("/api/v1/{place}"), None).status, 404, "{place}");
    }
    assert_eq!(call(&mut stage.ben, "GET", &format!("/api/v1/nodes/{VIEW}/../diary.txt"), None).status, 400);
    // Reading is all that was given.
    assert_eq!(put(&mut stage.ben, &format!("/api/v1/content/{VIEW}/new.txt"), "x").status, 403);
    assert_eq!(call(&mut stage.ben, "GET", &format!("/api/v1/spaces/{VIEW}/trash"), None).status, 403);
    let again = json!({"space": "trip (ana)", "path": "/", "access": "read"});
    assert_eq!(call(&mut stage.ben, "POST", "/api/v1/shares", Some(&again)).status, 404, "it is not shared on");
    assert_eq!(call(&mut stage.ben, "PATCH", &address(&share), Some(&json!({"access": "write"}))).status, 404);
    // Over WebDAV it is a folder beside the spaces.
    let dav = stage.ben.send(&Request::with_target("PROPFIND", "/dav/").header("depth", "1")).expect("answers");
    assert!(
        dav.text().contains("<D:displayname>trip (ana)</D:displayname>") && !dav.text().contains("/dav/ana/"),
        "{}",
        dav.text()
    );
    let file = call(&mut stage.ben, "GET", &format!("/dav/{VIEW}/map.txt"), None);
    assert_eq!(file.text(), "a map");
    assert_eq!(put(&mut stage.ben, &format!("/dav/{VIEW}/new.txt"), "x").status, 403);
    let listed = json(&call(&mut stage.ben, "GET", "/api/v1/shares", None), 200);
    assert_eq!((&listed["with_me"][0]["space"], &listed["with_me"][0]["path"]), (&json!("trip (ana)"), &json!("/")));
    // Taking it back ends it at once.
    assert_eq!(call(&mut stage.ana, "DELETE", &address(&share), None).status, 204);
    assert_eq!(call(&mut stage.ben, "GET", &format!("/api/v1/folders/{VIEW}/"), None).status, 404);
    assert_eq!(call(&mut stage.ben, "GET", &format!("/dav/{VIEW}/map.txt"), None).status, 404);
}

#[test]
fn who_may_write_writes_below_the_folder_only() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"account": "ben", "access": "write"}));
    let ben = &mut stage.ben;
    assert_eq!(put(ben, &format!("/api/v1/content/{VIEW}/new.txt"), "by ben").status, 201);
    assert_eq!(put(ben, &format!("/dav/{VIEW}/dav.txt"), "by ben").status, 201);
    let taken = call(ben, "POST", &format!("/api/v1/folders/{VIEW}/day"), None);
    assert!(taken.status == 409 && !taken.text().contains("private"), "{}", taken.text());
    let to = |space: &str, path: &str| json!({"space": space, "path": path});
    let moved = json!({"items": [{"from": to("trip (ana)", "/new.txt"), "to": to("trip (ana)", "/day/new.txt")}]});
    let moved = json(&call(ben, "POST", "/api/v1/move", Some(&moved)), 200);
    assert_eq!(moved["results"][0]["node"]["name"], "new.txt");
    let root = json!({"items": [{"from": to("trip (ana)", "/"), "to": to("ben", "/mine")}]});
    let refused = json(&call(ben, "POST", "/api/v1/move", Some(&root)), 200);
    assert_eq!(refused["results"][0]["problem"]["status"], 403, "the shared folder itself stays");
    let copied = json(&call(ben, "POST", "/api/v1/copy", Some(&root)), 200);
    assert_eq!(copied["results"][0]["node"]["kind"], "folder", "a copy of all of it may be made");
    assert_eq!(call(ben, "GET", "/api/v1/content/ben/mine/day/one.txt", None).text(), "one");
    // What is removed goes to the space's trash, and whoever removed it can undo that.
    let removed = json!({"items": [to("trip (ana)", "/map.txt")]});
    let removed = json(&call(ben, "POST", "/api/v1/remove", Some(&removed)), 200);
    let entry = removed["results"][0]["trash"].as_i64().expect("is in the trash");
    let back = call(ben, "POST", &format!("/api/v1/spaces/{VIEW}/trash/{entry}"), Some(&json!({})));
    assert_eq!(back.status, 200, "{}", back.text());
    let theirs = json!({"items": [to("ana", "/private/diary.txt")]});
    let theirs = json(&call(&mut stage.ana, "POST", "/api/v1/remove", Some(&theirs)), 200);
    let entry = theirs["results"][0]["trash"].as_i64().expect("is in the trash");
    let ben = &mut stage.ben;
    let back = call(ben, "POST", &format!("/api/v1/spaces/{VIEW}/trash/{entry}"), Some(&json!({})));
    assert_eq!(back.status, 404, "what others removed is not theirs to see");
    let lock = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let locked = ben.send(&Request::with_target("LOCK", &format!("/dav/{VIEW}/map.txt")).body(lock)).expect("answers");
    assert!(locked.status == 200 && !locked.text().contains("private"), "{}", locked.text());
    assert_eq!(put(&mut stage.ana, "/api/v1/content/ana/private/trip/map.txt", "x").status, 423);
    let ben = &mut stage.ben;
    let lock_token = locked.header("lock-token").expect("a token").to_owned();
    let unlock = Request::with_target("UNLOCK", &format!("/dav/{VIEW}/map.txt")).header("lock-token", lock_token);
    assert_eq!(ben.send(&unlock).expect("answers").status, 204);
    // A search finds what is below, and says where it is for them.
    let found = json(&call(ben, "GET", &format!("/api/v1/search?q=new&space={VIEW}"), None), 200);
    let places: Vec<&Value> = found["hits"].as_array().expect("hits").iter().map(|hit| &hit["path"]).collect();
    assert_eq!(places, ["/day/new.txt"]);
    assert_eq!(json(&call(ben, "GET", "/api/v1/search?q=diary", None), 200)["hits"], json!([]));
    assert_eq!(json(&call(ben, "GET", "/api/v1/search?q=private", None), 200)["hits"], json!([]));
    // It goes with the folder, wherever that is moved, and comes back with it from the trash.
    let away = json!({"items": [{"from": to("ana", "/private/trip"), "to": to("ana", "/elsewhere")}]});
    json(&call(&mut stage.ana, "POST", "/api/v1/move", Some(&away)), 200);
    let ben = &mut stage.ben;
    assert_eq!(call(ben, "GET", &format!("/api/v1/content/{VIEW}/day/new.txt"), None).text(), "by ben");
    let gone =
        json(&call(&mut stage.ana, "POST", "/api/v1/remove", Some(&json!({"items": [to("ana", "/elsewhere")]}))), 200);
    assert_eq!(put(&mut stage.ben, &format!("/api/v1/content/{VIEW}/late.txt"), "x").status, 404);
    let me = json(&call(&mut stage.ben, "GET", "/api/v1/me", None), 200);
    assert_eq!(me["spaces"].as_array().map(Vec::len), Some(1), "a folder in the trash is not shown");
    let entry = &gone["results"][0]["trash"];
    let back = call(&mut stage.ana, "POST", &format!("/api/v1/spaces/ana/trash/{entry}"), Some(&json!({})));
    assert_eq!(back.status, 200, "{}", back.text());
    assert_eq!(put(&mut stage.ben, &format!("/api/v1/content/{VIEW}/late.txt"), "x").status, 201);
    // Less from now on.
    json(&stage.change(&share, &json!({"access": "read"})), 200);
    assert_eq!(put(&mut stage.ben, &format!("/api/v1/content/{VIEW}/late.txt"), "y").status, 403);
    // Whom it was shared with may leave.
    assert_eq!(call(&mut stage.ben, "DELETE", &address(&share), None).status, 204);
    assert_eq!(call(&mut stage.ben, "GET", &format!("/api/v1/folders/{VIEW}/"), None).status, 404);
}

#[test]
fn a_link_opens_what_it_leads_to_and_nothing_else() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"access": "read", "label": "photos"}));
    let mut visitor = stage.visitor(&share);
    assert_eq!(visitor.get("/folders/link/").status, 401, "it is to be opened first");
    let opened = json(&visitor.open(None), 200);
    assert_eq!((&opened["name"], &opened["access"], &opened["by"]), (&json!("trip"), &json!("read"), &json!("ana")));
    assert_eq!(names(&visitor.get("/folders/link/")), ["day", "map.txt"]);
    let content = visitor.get("/content/link/day/one.txt?download=1");
    assert_eq!((content.status, content.text().as_str()), (200, "one"));
    assert!(content.header("content-disposition").is_some_and(|value| value.starts_with("attachment")));
    assert!(content.header("content-security-policy").is_some_and(|value| value.contains("sandbox")));
    assert_eq!(content.header("x-robots-tag"), Some("noindex, nofollow"));
    assert_eq!(content.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(visitor.get("/archive/link/day").status, 200);
    assert_eq!(json(&visitor.get("/search?q=diary"), 200)["hits"], json!([]));
    assert_eq!(json(&visitor.get("/search?q=one"), 200)["hits"][0]["path"], "/day/one.txt");
    // Neither other spaces nor what belongs to an account.
    for other in ["/nodes/ana/", "/folders/ana/private", "/content/ana/private/diary.txt"] {
        assert_eq!(visitor.get(other).status, 404, "{other}");
    }
    for other in ["/me", "/shares", "/sessions", "/tokens", "/spaces/ana/members", "/spaces/link/trash", "/tags"] {
        assert_eq!(visitor.get(other).status, 404, "{other}");
    }
    assert_eq!(visitor.get("/content/link/map.txt?version=1").status, 403);
    for (method, path) in [("PUT", "/content/link/map.txt"), ("POST", "/folders/link/new")] {
        assert_eq!(visitor.call(method, path, None).status, 403, "{method}");
    }
    assert_eq!(visitor.upload("/x.txt", "x", "fail").status, 403);
    // The cookie is good here alone, and for a page of ours alone.
    let cookie = visitor.cookie.clone().expect("has one");
    let elsewhere = Request::with_target("GET", "/api/v1/me").header("cookie", cookie.as_str());
    assert_eq!(visitor.client.send(&elsewhere).expect("answers").status, 401);
    let other = stage.share(&json!({"access": "read"}));
    let mut wrong = stage.visitor(&other);
    wrong.cookie = cookie.split_once('=').map(|(_, value)| format!("holdfast-link-{}={value}", wrong.id));
    assert_eq!(wrong.get("/folders/link/").status, 401);
    let target = format!("/api/v1/links/{}/folders/link/", visitor.id);
    let evil =
        Request::with_target("GET", &target).header("cookie", cookie.as_str()).header("sec-fetch-site", "cross-site");
    assert_eq!(visitor.client.send(&evil).expect("answers").status, 403);
    // A visit is over when its visitor says so, or when the link is taken back.
    assert_eq!(visitor.call("DELETE", "/session", None).status, 204);
    assert_eq!(visitor.get("/folders/link/").status, 401);
    json(&visitor.open(None), 200);
    assert_eq!(call(&mut stage.ana, "DELETE", &address(&share), None).status, 204);
    assert_eq!(visitor.get("/folders/link/").status, 401);
    assert_eq!(visitor.open(None).status, 404);
}

#[test]
fn a_link_to_a_file_shows_that_file() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"path": "/private/trip/map.txt", "access": "read"}));
    let mut visitor = stage.visitor(&share);
    assert_eq!(json(&visitor.open(None), 200)["kind"], "file");
    let content = visitor.get("/content/link/");
    assert_eq!((content.status, content.text().as_str()), (200, "a map"));
    assert!(content.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
    let more = json!({"space": "ana", "path": "/private/trip/map.txt", "access": "write"});
    assert_eq!(call(&mut stage.ana, "POST", "/api/v1/shares", Some(&more)).status, 400);
}

#[test]
fn wrong_secrets_and_passwords_say_nothing_and_are_slowed() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"access": "read", "password": "a plain word"}));
    let mut visitor = stage.visitor(&share);
    let needed = visitor.open(None);
    assert!(needed.status == 401 && needed.text().contains("needs a password"), "{}", needed.text());
    assert_eq!(visitor.open(Some("another word")).status, 401);
    json(&visitor.open(Some("a plain word")), 200);
    assert_eq!(names(&visitor.get("/folders/link/")), ["day", "map.txt"]);
    // What is not there and what is not told are alike.
    let mut guessed = stage.visitor(&share);
    guessed.secret = "a".repeat(52);
    let mut absent = stage.visitor(&share);
    absent.id = "0".repeat(32);
    let (one, other) = (guessed.open(None), absent.open(None));
    assert_eq!((one.status, one.text()), (404, other.text()));
    assert_eq!(guessed.open(Some("a plain word")).status, 404, "a password alone opens nothing");
    let slowed = (0..20).any(|_| guessed.open(None).status == 429);
    assert!(slowed, "guessing is slowed");
    // A new password ends the visits under the old one; without one the same address goes on.
    json(&stage.change(&share, &json!({"password": null})), 200);
    assert_eq!(visitor.get("/folders/link/").status, 401);
}

#[test]
fn a_link_ends_in_time_and_counts_downloads() {
    let mut stage = Stage::new();
    let past = json!({"space": "ana", "path": "/private/trip", "access": "read", "expires_ms": 1_000});
    assert_eq!(call(&mut stage.ana, "POST", "/api/v1/shares", Some(&past)).status, 400);
    let share = stage.share(&json!({"access": "read", "downloads_max": 2}));
    let (mut one, mut two) = (stage.opened(&share), stage.opened(&share));
    assert_eq!(one.get("/content/link/map.txt").status, 200);
    assert_eq!(one.get("/content/link/map.txt").status, 200, "the same once more is the same download");
    let rest = one.request("GET", "/content/link/map.txt").header("range", "bytes=2-");
    assert_eq!(one.client.send(&rest).expect("answers").status, 206);
    let second = two.request("GET", "/content/link/map.txt").header("range", "bytes=1-");
    assert_eq!(two.client.send(&second).expect("answers").status, 206, "a part counts as well");
    let over = two.get("/archive/link/day");
    assert!(over.status == 403 && over.text().contains("as many downloads"), "{}", over.text());
    assert_eq!(one.get("/content/link/day/one.txt").status, 403);
    assert_eq!(one.get("/content/link/map.txt").status, 200, "what was counted can be finished");
    let listed = json(&call(&mut stage.ana, "GET", "/api/v1/shares", None), 200);
    assert_eq!(listed["by_me"][0]["downloads"], 2);
    let reopened = json(&one.open(None), 200);
    assert_eq!(reopened["downloads_left"], 0);
    json(&stage.change(&share, &json!({"downloads_max": null})), 200);
    assert_eq!(two.get("/content/link/day/one.txt").status, 200);
    // It ends while somebody is there.
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let soon = i64::try_from(soon).expect("fits") + 400;
    json(&stage.change(&share, &json!({"expires_ms": soon})), 200);
    let ended = (0..50_000).any(|_| two.get("/folders/link/").status == 401);
    assert!(ended, "the visit is over with the link");
    let late = two.open(None);
    assert!(late.status == 403 && late.text().contains("expired"), "{}", late.text());
}

#[test]
fn a_drop_box_takes_files_and_shows_nothing() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"access": "upload"}));
    let mut visitor = stage.opened(&share);
    for path in ["/nodes/link/", "/folders/link/", "/content/link/map.txt", "/archive/link/", "/nodes/link/map.txt"] {
        assert_eq!(visitor.get(path).status, 403, "{path}");
    }
    assert_eq!(json(&visitor.get("/search?q=map"), 200)["hits"], json!([]));
    let sent = visitor.upload("/map.txt", "mine", "replace");
    assert_eq!(sent.status, 201, "{}", sent.text());
    let at = sent.header("location").expect("has an address");
    assert!(at.starts_with(&format!("/api/v1/links/{}/uploads/", visitor.id)), "{at}");
    assert!(!sent.header("content-location").is_some_and(|at| at.contains("map")), "which name was free is not told");
    assert_eq!(visitor.upload("/day/deep.txt", "x", "fail").status, 403);
    let body = json!({"items": [{"space": "link", "path": "/map.txt"}]});
    let removed = json(&visitor.call("POST", "/remove", Some(&body)), 200);
    assert_eq!(removed["results"][0]["problem"]["status"], 403);
    let read = |stage: &mut Stage, name: &str| {
        call(&mut stage.ana, "GET", &format!("/api/v1/content/ana/private/trip/{name}"), None).text()
    };
    assert_eq!(read(&mut stage, "map.txt"), "a map", "nothing is overwritten");
    assert_eq!(read(&mut stage, "map%20(2).txt"), "mine");
    // Its uploads are nobody else's.
    let id = at.rsplit('/').next().expect("an id");
    assert_eq!(call(&mut stage.ana, "GET", &format!("/api/v1/uploads/{id}"), None).status, 404);
    assert_eq!(stage.opened(&share).get(&format!("/uploads/{id}")).status, 404);
}

#[test]
fn a_link_with_write_access_is_bound_by_the_space_s_quota_and_its_owner() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"access": "write"}));
    let mut visitor = stage.opened(&share);
    assert_eq!(visitor.upload("/new.txt", "new", "fail").status, 201);
    assert_eq!(visitor.upload("/new.txt", "again", "fail").status, 409);
    assert_eq!(names(&visitor.get("/folders/link/")), ["day", "map.txt", "new.txt"]);
    let quota = call(&mut stage.ana, "PATCH", "/api/v1/accounts/ana", Some(&json!({"quota_bytes": 20})));
    assert_eq!(quota.status, 200);
    assert_eq!(visitor.upload("/large.txt", &"x".repeat(100), "fail").status, 507);
    // Somebody else administers; ana is disabled, and with her what she shares by link.
    assert_eq!(call(&mut stage.ana, "PATCH", "/api/v1/accounts/ben", Some(&json!({"admin": true}))).status, 200);
    assert_eq!(call(&mut stage.ben, "PATCH", "/api/v1/accounts/ana", Some(&json!({"disabled": true}))).status, 200);
    assert_eq!(visitor.get("/folders/link/").status, 401);
    assert_eq!(visitor.open(None).status, 403);
    assert_eq!(call(&mut stage.ben, "PATCH", "/api/v1/accounts/ana", Some(&json!({"disabled": false}))).status, 200);
    json(&visitor.open(None), 200);
}

#[test]
fn members_are_set_by_owners_and_bad_shares_are_refused() {
    let mut stage = Stage::new();
    let role = |role: &str| json!({"role": role});
    let member = "/api/v1/spaces/ana/members/ben";
    assert_eq!(call(&mut stage.ben, "PUT", member, Some(&role("owner"))).status, 404);
    assert_eq!(call(&mut stage.ana, "PUT", member, Some(&role("editor"))).status, 204);
    assert_eq!(put(&mut stage.ben, "/api/v1/content/ana/by-ben.txt", "x").status, 201);
    assert_eq!(call(&mut stage.ben, "PUT", member, Some(&role("owner"))).status, 403);
    let body = json!({"space": "ana", "path": "/private", "access": "read"});
    assert_eq!(call(&mut stage.ben, "POST", "/api/v1/shares", Some(&body)).status, 403, "an editor does not share");
    assert_eq!(call(&mut stage.ana, "DELETE", member, None).status, 204);
    assert_eq!(call(&mut stage.ben, "GET", "/api/v1/folders/ana/", None).status, 404);
    let bad = [
        (json!({"account": "nobody"}), 404),
        (json!({"account": "ana"}), 400),
        (json!({"account": "_sites"}), 404),
        (json!({"account": "ben", "password": "a plain word"}), 400),
        (json!({"account": "ben", "access": "upload"}), 400),
        (json!({"path": "/nowhere"}), 404),
        (json!({"password": "short"}), 400),
        (json!({"downloads_max": 0}), 400),
        (json!({"label": "x".repeat(201)}), 400),
        (json!({"label": "a\nb"}), 400),
        (json!({"access": "everything"}), 400),
        (json!({"unknown": 1}), 400),
    ];
    for (more, status) in bad {
        let mut body = json!({"space": "ana", "path": "/private/trip", "access": "read"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let answer = call(&mut stage.ana, "POST", "/api/v1/shares", Some(&body));
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
}

#[test]
fn the_command_line_shares_links_lists_and_revokes() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(call(&mut ana, "POST", "/api/v1/folders/ana/trip", None).status, 201);
    let as_ana = ["--user", "ana", "--password-file", "-"];
    let run = |arguments: &[&str]| drive.json(&[arguments, &as_ana].concat(), PASSWORD);
    let shared = run(&["share", "add", "ana", "/trip", "--with", "ben", "--write", "--days", "3"]);
    assert_eq!((&shared["with"], &shared["access"]), (&json!("ben"), &json!("write")));
    let mut ben = server.client_of("ben", OTHER_PASSWORD);
    assert_eq!(put(&mut ben, &format!("/api/v1/content/{VIEW}/x.txt"), "x").status, 201);
    let link = run(&["share", "link", "ana", "/trip", "--access", "upload", "--label", "box"]);
    assert!(link["link"].as_str().is_some_and(|link| link.starts_with("/l/") && link.contains('#')));
    let listed = run(&["share", "list"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    run(&["share", "revoke", shared["id"].as_str().expect("an id")]);
    assert_eq!(call(&mut ben, "GET", &format!("/api/v1/folders/{VIEW}/"), None).status, 404);
    let (code, message) =
        drive.fails(&[&["share", "add", "ana", "/none", "--with", "ben"], &as_ana[..]].concat(), PASSWORD);
    assert!(code != 0 && message.contains("does not exist"), "{message}");
}
