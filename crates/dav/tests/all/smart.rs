//! Saved searches as folders.

use crate::rig::{Reply, Rig};
use holdfast_base::{DrivePath, ManualClock, NodeName};
use holdfast_drive::{Drive, Location, SearchQuery, SearchToSave, Tag, TagChange, WhichSearch};
use std::sync::Arc;

const TOP: &str = "/dav/Saved%20searches/";
const BILLS: &str = "/dav/Saved%20searches/Bills/";

async fn rig() -> Rig {
    Rig::new(Arc::new(ManualClock::new(1_700_000_000_000))).await
}

fn location(path: &str) -> Location {
    Location { space: "ana".into(), path: DrivePath::parse(path).expect("a path") }
}

fn tags(texts: &[&str]) -> Vec<Tag> {
    texts.iter().map(|text| Tag::new(text).expect("a tag")).collect()
}

/// Saves a search for words and tags.
async fn save(rig: &Rig, name: &str, words: &str, tagged: &[&str], folder: Option<&str>) {
    let query = SearchQuery { text: words.into(), tags: tags(tagged), ..SearchQuery::default() };
    let name = NodeName::new(name).expect("a name");
    let wanted = SearchToSave { name, space: None, query, folder: folder.map(location) };
    rig.engine.save_search(&rig.who, wanted).await.expect("saves");
}

/// What bills are: found by the word, tagged, and put into a folder of their own.
async fn bills(rig: &Rig) {
    rig.send("MKCOL", "/dav/ana/in", &[], "").await;
    save(rig, "Bills", "bill", &["Paid"], Some("in")).await;
}

async fn put(rig: &Rig, path: &str, body: &str) -> u16 {
    rig.send("PUT", path, &[], body.to_owned()).await.status
}

async fn get(rig: &Rig, path: &str) -> (u16, String) {
    let reply = rig.send("GET", path, &[], "").await;
    (reply.status, reply.text().to_owned())
}

async fn find(rig: &Rig, path: &str, depth: &str, prop: &str) -> Reply {
    let body =
        format!("<D:propfind xmlns:D='DAV:' xmlns:oc='http://owncloud.org/ns'><D:prop>{prop}</D:prop></D:propfind>");
    rig.send("PROPFIND", path, &[("depth", depth)], body).await
}

/// Hrefs of an answer, decoded as far as these tests need it.
fn hrefs(reply: &Reply) -> Vec<String> {
    let parts = reply.text().split("<D:href>").skip(1).filter_map(|part| part.split_once("</D:href>"));
    parts.map(|(href, _)| href.replace("%20", " ").replace("%5B", "[").replace("%5D", "]")).collect()
}

async fn members(rig: &Rig, path: &str) -> Vec<String> {
    let reply = find(rig, path, "1", "<D:displayname/>").await;
    assert_eq!(reply.status, 207, "{}", reply.text());
    hrefs(&reply).split_off(1)
}

async fn tag(rig: &Rig, path: &str, add: &[&str]) {
    let change = TagChange { add: tags(add), remove: Vec::new() };
    let done = rig.engine.change_tags(&rig.who, &[location(path)], &change).await.expect("answers");
    for one in done {
        one.expect("tags");
    }
}

#[tokio::test]
async fn saved_searches_are_beside_the_spaces_and_show_what_they_find_now() {
    let rig = rig().await;
    assert_eq!(members(&rig, "/dav/").await, ["/dav/ana/"], "without any there is nothing more");
    assert!(members(&rig, TOP).await.is_empty());
    bills(&rig).await;
    assert_eq!(members(&rig, "/dav/").await, ["/dav/ana/", "/dav/Saved searches/"]);
    assert_eq!(members(&rig, TOP).await, ["/dav/Saved searches/Bills/"]);
    assert!(members(&rig, BILLS).await.is_empty());
    put(&rig, "/dav/ana/bill.pdf", "1").await;
    assert!(members(&rig, BILLS).await.is_empty(), "it has no tag");
    tag(&rig, "bill.pdf", &["paid"]).await;
    assert_eq!(members(&rig, BILLS).await, ["/dav/Saved searches/Bills/bill.pdf"]);
    rig.send(
        "MOVE",
        "/dav/ana/bill.pdf",
        &[("destination", "/dav/ana/in/bill 2.pdf".replace(' ', "%20").as_str())],
        "",
    )
    .await;
    assert_eq!(members(&rig, BILLS).await, ["/dav/Saved searches/Bills/bill 2.pdf"]);
    rig.send("DELETE", "/dav/ana/in/bill%202.pdf", &[], "").await;
    assert!(members(&rig, BILLS).await.is_empty());
    let ben = rig.account("ben").await;
    let others = rig.send_as(&ben, "PROPFIND", BILLS, &[("depth", "1")], "").await;
    assert_eq!(others.status, 404, "they are nobody else's");
}

#[tokio::test]
async fn a_hit_is_the_file_itself() {
    let rig = rig().await;
    bills(&rig).await;
    rig.send("MKCOL", "/dav/ana/deep", &[], "").await;
    put(&rig, "/dav/ana/deep/bill.txt", "0123456789").await;
    tag(&rig, "deep/bill.txt", &["paid"]).await;
    let (real, shown) = ("/dav/ana/deep/bill.txt", "/dav/Saved%20searches/Bills/bill.txt");
    let own = rig.send("GET", real, &[], "").await;
    let seen = rig.send("GET", shown, &[], "").await;
    assert_eq!((seen.status, seen.text(), seen.header("etag")), (200, "0123456789", own.header("etag")));
    let head = rig.send("HEAD", shown, &[], "").await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "10", 0));
    let part = rig.send("GET", shown, &[("range", "bytes=2-4")], "").await;
    assert_eq!((part.status, part.text()), (206, "234"));
    let tag = own.header("etag").to_owned();
    assert_eq!(rig.send("GET", shown, &[("if-none-match", &tag)], "").await.status, 304);
    let described = find(&rig, shown, "0", "<D:getetag/><D:getcontentlength/><D:displayname/>").await;
    assert_eq!(hrefs(&described), ["/dav/Saved searches/Bills/bill.txt"]);
    assert!(described.text().contains("<D:getcontentlength>10<") && described.text().contains(&tag));

    // Its next version, on conditions.
    assert_eq!(rig.send("PUT", shown, &[("if-match", "\"x\"")], "lost").await.status, 412);
    assert_eq!(rig.send("PUT", shown, &[("if-match", &tag)], "next").await.status, 204);
    assert_eq!(rig.send("PUT", shown, &[("if-match", &tag)], "lost").await.status, 412);
    assert_eq!(get(&rig, real).await, (200, "next".to_owned()));
    let versions = rig.engine.versions(&rig.who, &location("deep/bill.txt")).await.expect("reads");
    assert_eq!(versions.len(), 1);

    // Properties, locks, copies.
    let set = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><n:x xmlns:n='urn:n'>v</n:x></D:prop></D:set></D:propertyupdate>";
    let patched = rig.send("PROPPATCH", shown, &[], set).await;
    assert!(patched.status == 207 && patched.text().contains("200 OK"), "{}", patched.text());
    assert_eq!(hrefs(&patched), ["/dav/Saved searches/Bills/bill.txt"]);
    assert!(rig.send("PROPFIND", real, &[("depth", "0")], "").await.text().contains(">v</"));
    let info = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let locked = rig.send("LOCK", shown, &[], info).await;
    assert_eq!(locked.status, 200, "{}", locked.text());
    let token = locked.header("lock-token").to_owned();
    assert_eq!(put(&rig, real, "x").await, 423);
    assert_eq!(put(&rig, shown, "x").await, 423);
    for held in [format!("({token})"), format!("<{shown}> ({token})"), format!("<{real}> ({token})")] {
        assert_eq!(rig.send("PUT", shown, &[("if", &held)], "held").await.status, 204, "{held}");
    }
    assert!(find(&rig, BILLS, "1", "<D:lockdiscovery/>").await.text().contains(token.trim_matches(['<', '>'])));
    assert_eq!(rig.send("UNLOCK", shown, &[("lock-token", &token)], "").await.status, 204);
    assert_eq!(rig.send("COPY", shown, &[("destination", "/dav/ana/out.txt")], "").await.status, 201);
    assert_eq!(get(&rig, "/dav/ana/out.txt").await, (200, "held".to_owned()));
}

#[tokio::test]
async fn a_file_put_into_it_goes_to_its_folder_with_its_tags() {
    let rig = rig().await;
    bills(&rig).await;
    let made = rig.send("PUT", "/dav/Saved%20searches/Bills/bill%201.txt", &[("if-none-match", "*")], "one").await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(get(&rig, "/dav/ana/in/bill%201.txt").await, (200, "one".to_owned()));
    assert_eq!(members(&rig, BILLS).await, ["/dav/Saved searches/Bills/bill 1.txt"]);
    let walk = rig.engine.walk(&rig.who, &location("in/bill 1.txt")).await.expect("walks");
    let node = walk.node().expect("is there").clone();
    assert_eq!(made.header("etag"), node.entity_tag(), "what the answer says is what is there");
    let kept = rig.engine.tags(&rig.who, std::slice::from_ref(&node)).await.expect("reads");
    assert_eq!(kept, [["Paid"]]);
    assert!(rig.engine.versions(&rig.who, &location("in/bill 1.txt")).await.expect("reads").is_empty());

    // What does not fit is not shown, and yet the client that put it there finds and changes it.
    let other = "/dav/Saved%20searches/Bills/letter.txt";
    assert_eq!(put(&rig, other, "first").await, 201);
    assert_eq!(members(&rig, BILLS).await.len(), 1);
    assert_eq!(get(&rig, other).await, (200, "first".to_owned()));
    assert_eq!(put(&rig, other, "second").await, 204);
    assert_eq!(get(&rig, "/dav/ana/in/letter.txt").await, (200, "second".to_owned()));

    // Clients that make an empty file first, or lock a name before they write.
    let empty = "/dav/Saved%20searches/Bills/bill%202.txt";
    assert_eq!((put(&rig, empty, "").await, put(&rig, empty, "two").await), (201, 204));
    let info = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let name = "/dav/Saved%20searches/Bills/bill%203.txt";
    let locked = rig.send("LOCK", name, &[], info).await;
    assert_eq!(locked.status, 201, "{}", locked.text());
    let held = format!("({})", locked.header("lock-token"));
    assert_eq!(rig.send("PUT", name, &[("if", &held)], "three").await.status, 204);
    assert_eq!(members(&rig, BILLS).await.len(), 3, "it got its tags with its content");
}

#[tokio::test]
async fn nothing_that_is_not_shown_is_overwritten() {
    let rig = rig().await;
    bills(&rig).await;
    put(&rig, "/dav/ana/in/bill.txt", "kept").await;
    let name = "/dav/Saved%20searches/Bills/bill.txt";
    for headers in [&[][..], &[("if-none-match", "*")]] {
        let refused = rig.send("PUT", name, headers, "lost").await;
        assert_eq!(refused.status, 409);
        assert!(refused.text().contains("/ana/in/bill.txt"), "{}", refused.text());
    }
    assert_eq!(get(&rig, "/dav/ana/in/bill.txt").await, (200, "kept".to_owned()));
    assert_eq!(get(&rig, name).await.0, 404);
    // A search without tags has nothing by which it would know what was put into it.
    save(&rig, "Plain", "invoice", &[], None).await;
    put(&rig, "/dav/ana/note.txt", "kept").await;
    assert_eq!(put(&rig, "/dav/Saved%20searches/Plain/note.txt", "lost").await, 409);
    assert_eq!(put(&rig, "/dav/Saved%20searches/Plain/invoice.txt", "new").await, 201);
    assert_eq!(put(&rig, "/dav/Saved%20searches/Plain/invoice.txt", "newer").await, 204);
    assert_eq!(get(&rig, "/dav/ana/invoice.txt").await, (200, "newer".to_owned()));
    // The folder it goes to is gone.
    rig.send("DELETE", "/dav/ana/in", &[], "").await;
    assert_eq!(put(&rig, "/dav/Saved%20searches/Bills/bill%209.txt", "x").await, 409);
    assert_eq!(get(&rig, "/dav/Saved%20searches/Bills/bill%209.txt").await.0, 404);
}

#[tokio::test]
async fn nothing_is_lost_through_it() {
    let rig = rig().await;
    bills(&rig).await;
    rig.send("MKCOL", "/dav/ana/bills", &[], "").await;
    put(&rig, "/dav/ana/bills/bill.txt", "x").await;
    for path in ["bills", "bills/bill.txt"] {
        tag(&rig, path, &["paid"]).await;
    }
    let (file, folder) = (format!("{BILLS}bill.txt"), format!("{BILLS}bills/"));
    let to = [("destination", "/dav/ana/elsewhere")];
    for (method, path, headers) in [
        ("DELETE", file.as_str(), &[][..]),
        ("DELETE", &folder, &[]),
        ("DELETE", &format!("{folder}bill.txt"), &[]),
        ("MOVE", &file, &to),
        ("MOVE", &folder, &to),
        ("MOVE", "/dav/ana/bills", &[("destination", "/dav/Saved%20searches/Bills/b")]),
        ("COPY", "/dav/ana/bills", &[("destination", "/dav/Saved%20searches/Bills/b")]),
        ("MOVE", "/dav/ana/bills", &[("destination", "/dav/Saved%20searches/b")]),
        ("COPY", "/dav/ana/bills/bill.txt", &[("destination", "/dav/Saved%20searches/Bills")]),
        ("MOVE", "/dav/ana/bills/bill.txt", &[("destination", "/dav/Saved%20searches/")]),
        ("MKCOL", &format!("{BILLS}new"), &[]),
        ("MKCOL", "/dav/Saved%20searches/new", &[]),
        ("PUT", "/dav/Saved%20searches/new", &[]),
        ("DELETE", TOP, &[]),
        ("MOVE", TOP, &to),
        ("MOVE", BILLS, &to),
        ("COPY", BILLS, &to),
        ("LOCK", BILLS, &[]),
        ("PROPPATCH", BILLS, &[]),
    ] {
        assert_eq!(rig.send(method, path, headers, "").await.status, 403, "{method} {path}");
    }
    for (method, path, status) in [
        ("MKCOL", file.as_str(), 405),
        ("MKCOL", BILLS, 405),
        ("MKCOL", TOP, 405),
        ("PUT", BILLS, 405),
        ("POST", &file, 405),
        ("DELETE", &format!("{BILLS}none"), 404),
        ("PUT", &format!("{BILLS}none/x"), 409),
        ("MKCOL", &format!("{BILLS}none/x"), 409),
        ("PUT", "/dav/Saved%20searches/none/x", 403),
        ("GET", "/dav/Saved%20searches/none/", 404),
        ("PROPFIND", &format!("{BILLS}none"), 404),
    ] {
        assert_eq!(rig.send(method, path, &[("depth", "infinity")], "x").await.status, status, "{method} {path}");
    }
    for path in [TOP, BILLS] {
        let endless = rig.send("PROPFIND", path, &[("depth", "infinity")], "").await;
        assert!(endless.status == 403 && endless.text().contains("propfind-finite-depth"));
    }
    assert_eq!(get(&rig, "/dav/ana/bills/bill.txt").await, (200, "x".to_owned()));
}

#[tokio::test]
async fn a_file_copied_or_moved_into_it_goes_to_its_folder_with_its_tags() {
    let rig = rig().await;
    bills(&rig).await;
    let into = |name: &str| format!("{BILLS}{name}");
    let send = async |method: &str, from: &str, name: &str, more: &[(&str, &str)]| {
        let to = into(name);
        let headers: Vec<(&str, &str)> = [("destination", to.as_str())].iter().chain(more).copied().collect();
        rig.send(method, &format!("/dav/ana/{from}"), &headers, "").await.status
    };
    let tags_of = async |path: &str| {
        let node = rig.engine.walk(&rig.who, &location(path)).await.expect("walks").node().cloned().expect("is there");
        rig.engine.tags(&rig.who, &[node]).await.expect("reads").pop().expect("one")
    };
    put(&rig, "/dav/ana/bill 1.txt".replace(' ', "%20").as_str(), "one").await;
    tag(&rig, "bill 1.txt", &["Mine"]).await;
    assert_eq!(send("COPY", "bill%201.txt", "bill%20a.txt", &[]).await, 201);
    assert_eq!(tags_of("in/bill a.txt").await, ["Mine", "Paid"]);
    assert_eq!(tags_of("bill 1.txt").await, ["Mine"], "the original stays as it was");
    assert_eq!(send("MOVE", "bill%201.txt", "bill%20b.txt", &[]).await, 201);
    assert_eq!((get(&rig, "/dav/ana/bill%201.txt").await.0, tags_of("in/bill b.txt").await.len()), (404, 2));
    assert_eq!(
        members(&rig, BILLS).await,
        ["/dav/Saved searches/Bills/bill a.txt", "/dav/Saved searches/Bills/bill b.txt"]
    );

    // What is there is replaced as anywhere, and keeps being found; what is not shown is not replaced.
    put(&rig, "/dav/ana/bill2", "two").await;
    assert_eq!(send("COPY", "bill2", "bill%20a.txt", &[("overwrite", "F")]).await, 412);
    assert_eq!(send("COPY", "bill2", "bill%20a.txt", &[]).await, 204);
    assert_eq!(
        (get(&rig, &into("bill%20a.txt")).await.1, tags_of("in/bill a.txt").await),
        ("two".into(), vec!["Paid".into()])
    );
    put(&rig, "/dav/ana/in/bill%20hidden", "hidden").await;
    assert_eq!(send("COPY", "bill2", "bill%20hidden", &[]).await, 409);
    assert_eq!(get(&rig, "/dav/ana/in/bill%20hidden").await.1, "hidden");
    assert_eq!(send("COPY", "none", "bill%20c", &[]).await, 404);

    // Locks hold, by their address here, too.
    let exclusive = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let locked = rig.send("LOCK", &into("bill%20a.txt"), &[], exclusive).await;
    let token = locked.header("lock-token").to_owned();
    assert_eq!(send("COPY", "bill2", "bill%20a.txt", &[]).await, 423);
    let held = format!("<{}> ({token})", into("bill%20a.txt"));
    assert_eq!(send("COPY", "bill2", "bill%20a.txt", &[("if", &held)]).await, 204);

    // Below a folder that was found it is a place as any other.
    rig.send("MKCOL", "/dav/ana/bills", &[], "").await;
    tag(&rig, "bills", &["paid"]).await;
    assert_eq!(send("COPY", "bill2", "bills", &[]).await, 409, "a folder is not replaced");
    assert_eq!(send("COPY", "in", "bills/all", &[]).await, 201);
    assert_eq!(get(&rig, "/dav/ana/bills/all/bill%20hidden").await.1, "hidden");
}

#[tokio::test]
async fn a_listing_shows_locks_on_hits_and_above_them() {
    let rig = rig().await;
    bills(&rig).await;
    for folder in ["a", "a/b", "c"] {
        rig.send("MKCOL", &format!("/dav/ana/{folder}"), &[], "").await;
    }
    for file in ["a/b/bill1", "a/bill2", "c/bill3"] {
        put(&rig, &format!("/dav/ana/{file}"), "x").await;
        tag(&rig, file, &["paid"]).await;
    }
    let info = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let lock = async |path: &str, depth: &str| {
        let locked = rig.send("LOCK", path, &[("depth", depth)], info).await;
        assert_eq!(locked.status, 200, "{}", locked.text());
        locked.header("lock-token").trim_matches(['<', '>']).to_owned()
    };
    let (deep, shallow) = (lock("/dav/ana/a", "infinity").await, lock("/dav/ana/c", "0").await);
    let own = lock(&format!("{BILLS}bill3"), "0").await;
    let listed = find(&rig, BILLS, "1", "<D:lockdiscovery/><D:supportedlock/>").await;
    let of = |name: &str| {
        let at = listed.text().find(&format!("Bills/{name}</D:href>")).expect("is listed");
        listed.text()[at..].split("</D:response>").next().unwrap_or_default().to_owned()
    };
    for name in ["bill1", "bill2"] {
        assert!(of(name).contains(&deep) && of(name).contains("<D:href>/dav/ana/a/</D:href>"), "{}", of(name));
    }
    assert!(of("bill3").contains(&own) && !of("bill3").contains(&deep) && !of("bill3").contains(&shallow));
    assert!(["bill1", "bill2", "bill3"].iter().all(|name| of(name).contains("<D:lockentry>")));
    assert!(of("").contains("<D:supportedlock></D:supportedlock>"), "a smart folder cannot be locked: {}", of(""));
}

#[tokio::test]
async fn days_are_counted_from_each_look() {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let rig = Rig::new(clock.clone()).await;
    let query = SearchQuery { text: "bill".into(), within_days: Some(7), ..SearchQuery::default() };
    let wanted = SearchToSave { name: NodeName::new("Week").expect("a name"), space: None, query, folder: None };
    rig.engine.save_search(&rig.who, wanted).await.expect("saves");
    let seen = async || members(&rig, "/dav/Saved%20searches/Week/").await.len();
    put(&rig, "/dav/ana/bill1", "x").await;
    assert_eq!(seen().await, 1);
    clock.advance(6 * 86_400_000);
    put(&rig, "/dav/ana/bill2", "x").await;
    assert_eq!(seen().await, 2);
    clock.advance(2 * 86_400_000);
    assert_eq!(seen().await, 1, "though nothing changed");
}

#[tokio::test]
async fn a_folder_that_was_found_can_be_entered() {
    let rig = rig().await;
    bills(&rig).await;
    rig.send("MKCOL", "/dav/ana/bills", &[], "").await;
    rig.send("MKCOL", "/dav/ana/bills/2024", &[], "").await;
    put(&rig, "/dav/ana/bills/2024/a%5B.txt", "x").await;
    tag(&rig, "bills", &["paid"]).await;
    let folder = format!("{BILLS}bills/");
    assert_eq!(members(&rig, BILLS).await, ["/dav/Saved searches/Bills/bills/"]);
    assert_eq!(members(&rig, &folder).await, ["/dav/Saved searches/Bills/bills/2024/"]);
    let all = find(&rig, &folder, "infinity", "<D:displayname/>").await;
    assert_eq!(hrefs(&all).last().map(String::as_str), Some("/dav/Saved searches/Bills/bills/2024/a[.txt"));
    let inside = format!("{folder}2024/new.txt");
    assert_eq!((put(&rig, &inside, "1").await, put(&rig, &inside, "2").await), (201, 204));
    assert_eq!(get(&rig, "/dav/ana/bills/2024/new.txt").await, (200, "2".to_owned()));
    assert_eq!(rig.send("MKCOL", &format!("{folder}2025"), &[], "").await.status, 201);
    let page = get(&rig, &folder).await.1;
    assert!(page.contains("href=\"/dav/Saved%20searches/Bills/\""), "back to the search, not above the folder: {page}");
    assert!(!page.contains("/dav/ana"), "{page}");
}

#[tokio::test]
async fn files_of_one_name_are_told_apart_and_keep_their_names() {
    let rig = rig().await;
    bills(&rig).await;
    for folder in ["a", "b"] {
        rig.send("MKCOL", &format!("/dav/ana/{folder}"), &[], "").await;
        put(&rig, &format!("/dav/ana/{folder}/bill.txt"), folder).await;
        tag(&rig, &format!("{folder}/bill.txt"), &["paid"]).await;
    }
    let shown = members(&rig, BILLS).await;
    let [second, first] = shown.as_slice() else { panic!("{shown:?}") };
    assert_eq!(first, "/dav/Saved searches/Bills/bill.txt");
    assert!(second.starts_with("/dav/Saved searches/Bills/bill [") && second.ends_with("].txt"), "{second}");
    let path = second.replace(' ', "%20").replace('[', "%5B").replace(']', "%5D");
    assert_eq!(get(&rig, &path).await, (200, "b".to_owned()));
    assert_eq!(put(&rig, "/dav/ana/a/bill.txt", "a newer one").await, 204);
    assert_eq!(members(&rig, BILLS).await, shown, "what is newer does not change names");
    assert_eq!(put(&rig, &path, "b 2").await, 204);
    assert_eq!(get(&rig, "/dav/ana/b/bill.txt").await, (200, "b 2".to_owned()));
    rig.send("DELETE", "/dav/ana/a/bill.txt", &[], "").await;
    assert_eq!(get(&rig, &path).await, (200, "b 2".to_owned()), "an open name goes on to lead to its file");
}

#[tokio::test]
async fn it_is_renamed_and_removed_without_what_it_finds() {
    let rig = rig().await;
    bills(&rig).await;
    save(&rig, "Other", "other", &[], None).await;
    put(&rig, &format!("{BILLS}bill.txt"), "x").await;
    let to = |name: &'static str| [("destination", name)];
    assert_eq!(rig.send("MOVE", BILLS, &to("/dav/Saved%20searches/Other"), "").await.status, 412);
    assert_eq!(rig.send("MOVE", BILLS, &to("/dav/Saved%20searches/Bills"), "").await.status, 403);
    assert_eq!(rig.send("MOVE", BILLS, &to("/dav/Saved%20searches/Paid%20bills/"), "").await.status, 201);
    let paid = "/dav/Saved%20searches/Paid%20bills/";
    assert_eq!(members(&rig, paid).await, ["/dav/Saved searches/Paid bills/bill.txt"]);
    assert_eq!(rig.send("DELETE", paid, &[("depth", "0")], "").await.status, 400);
    assert_eq!(rig.send("DELETE", paid, &[], "").await.status, 204);
    let gone = rig.engine.saved_search(&rig.who, &WhichSearch::Name("Paid bills".into())).await;
    assert!(gone.is_err());
    assert_eq!(get(&rig, "/dav/ana/in/bill.txt").await, (200, "x".to_owned()));
}

#[tokio::test]
async fn clients_that_compare_tags_or_times_look_again() {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let rig = Rig::new(clock.clone()).await;
    bills(&rig).await;
    let props = "<D:getetag/><D:getlastmodified/><D:resourcetype/><D:creationdate/>";
    let seen = async || find(&rig, BILLS, "0", props).await.text().to_owned();
    let before = seen().await;
    assert!(before.contains("<D:getetag>\"s-") && before.contains("<D:collection/>"), "{before}");
    assert!(before.contains("Tue, 14 Nov 2023 22:13:20 GMT"), "{before}");
    assert_eq!(seen().await, before, "and nothing happened");
    put(&rig, "/dav/ana/bill.txt", "x").await;
    let after = seen().await;
    assert_ne!(after, before);
    clock.advance(60_000);
    assert!(seen().await.contains("22:14:20 GMT"));
}

#[tokio::test]
async fn a_reader_of_a_space_changes_nothing_through_it() {
    let rig = rig().await;
    put(&rig, "/dav/ana/bill.txt", "x").await;
    let ben = rig.account("ben").await;
    rig.let_in(&ben, holdfast_drive::Role::Reader).await;
    let query = SearchQuery { text: "bill".into(), ..SearchQuery::default() };
    let name = NodeName::new("Bills").expect("a name");
    let wanted = SearchToSave { name, space: Some("ana".into()), query, folder: None };
    rig.engine.save_search(&ben, wanted).await.expect("saves");
    let send = async |method: &str, body: &'static str| {
        rig.send_as(&ben, method, &format!("{BILLS}bill.txt"), &[], body).await
    };
    assert_eq!(send("GET", "").await.text(), "x");
    assert_eq!(send("PUT", "lost").await.status, 403);
    let listed = rig
        .send_as(
            &ben,
            "PROPFIND",
            BILLS,
            &[("depth", "1")],
            "<propfind xmlns='DAV:'><prop><oc:permissions xmlns:oc='http://owncloud.org/ns'/></prop></propfind>",
        )
        .await;
    assert!(listed.text().contains("<oc:permissions>G</oc:permissions>"), "{}", listed.text());
    // They lose the space, and with it what is in it.
    rig.let_out(&ben).await;
    assert_eq!(send("GET", "").await.status, 404);
    assert_eq!(rig.send_as(&ben, "PROPFIND", BILLS, &[("depth", "1")], "").await.status, 207);
}

#[tokio::test]
async fn tags_are_neither_shown_nor_written_as_properties() {
    let rig = rig().await;
    bills(&rig).await;
    put(&rig, &format!("{BILLS}bill.txt"), "x").await;
    let set = "<D:propertyupdate xmlns:D='DAV:' xmlns:t='urn:holdfast:tag'><D:set><D:prop><t:fake>fake</t:fake></D:prop></D:set></D:propertyupdate>";
    let take = "<D:propertyupdate xmlns:D='DAV:' xmlns:t='urn:holdfast:tag'><D:remove><D:prop><t:paid/></D:prop></D:remove></D:propertyupdate>";
    for path in ["/dav/ana/in/bill.txt", "/dav/Saved%20searches/Bills/bill.txt"] {
        for change in [set, take] {
            let refused = rig.send("PROPPATCH", path, &[], change).await;
            assert_eq!(refused.status, 207);
            assert!(refused.text().contains("403 Forbidden"), "{}", refused.text());
            assert!(refused.text().contains("cannot-modify-protected-property"), "{}", refused.text());
        }
        let named = "<D:propfind xmlns:D='DAV:' xmlns:t='urn:holdfast:tag'><D:prop><t:paid/></D:prop></D:propfind>";
        let all_names = "<D:propfind xmlns:D='DAV:'><D:propname/></D:propfind>";
        for asked in ["", named, all_names] {
            let found = rig.send("PROPFIND", path, &[("depth", "0")], asked).await;
            assert_eq!(found.status, 207);
            assert!(!found.text().contains("Paid"), "{}", found.text());
            let named_only_as_missing = found.text().matches("urn:holdfast:tag").count();
            assert_eq!(named_only_as_missing, usize::from(asked == named), "{}", found.text());
            assert_eq!(found.text().contains("404 Not Found"), asked == named);
        }
    }
    let node = rig.engine.walk(&rig.who, &location("in/bill.txt")).await.expect("walks").node().cloned();
    let kept = rig.engine.tags(&rig.who, &[node.expect("is there")]).await.expect("reads");
    assert_eq!(kept, [["Paid"]]);
}
