//! MKCOL, DELETE, COPY, MOVE, the list of spaces, the page of a folder, and who may do what.

use crate::rig::Rig;
use holdfast_base::ManualClock;
use holdfast_drive::Role;
use std::sync::Arc;

async fn rig() -> Rig {
    Rig::new(Arc::new(ManualClock::new(1_700_000_000_000))).await
}

#[tokio::test]
async fn folders_are_made_one_at_a_time_and_without_a_body() {
    let rig = rig().await;
    for (path, body, status) in [
        ("/dav/ana/a", "", 201),
        ("/dav/ana/a", "", 405),
        ("/dav/ana/a/", "", 405),
        ("/dav/ana/b/c", "", 409),
        ("/dav/ana/d", "<body/>", 415),
        ("/dav/ana", "", 405),
        ("/dav/new-space", "", 403),
        ("/dav/", "", 403),
    ] {
        assert_eq!(rig.send("MKCOL", path, &[], body).await.status, status, "{path}");
    }
    rig.send("PUT", "/dav/ana/file", &[], "x").await;
    assert_eq!(rig.send("MKCOL", "/dav/ana/file", &[], "").await.status, 405);
    assert_eq!(rig.send("MKCOL", "/dav/ana/file/below", &[], "").await.status, 409);
}

#[tokio::test]
async fn a_folder_is_deleted_with_everything_below_it() {
    let rig = rig().await;
    rig.send("MKCOL", "/dav/ana/a", &[], "").await;
    rig.send("PUT", "/dav/ana/a/b", &[], "x").await;
    assert_eq!(rig.send("DELETE", "/dav/ana/a", &[("depth", "1")], "").await.status, 400);
    assert_eq!(rig.send("DELETE", "/dav/ana/a/", &[], "").await.status, 204);
    assert_eq!(rig.send("GET", "/dav/ana/a/b", &[], "").await.status, 404);
    assert_eq!(rig.send("DELETE", "/dav/ana/a", &[], "").await.status, 404);
    assert_eq!(rig.send("DELETE", "/dav/ana/", &[], "").await.status, 403);
    assert_eq!(rig.send("DELETE", "/dav/", &[], "").await.status, 403);
}

#[tokio::test]
async fn copies_and_moves_obey_overwrite_depth_and_place() {
    let rig = rig().await;
    rig.send("MKCOL", "/dav/ana/a", &[], "").await;
    rig.send("PUT", "/dav/ana/a/f", &[], "x").await;
    rig.send("PUT", "/dav/ana/g", &[], "y").await;
    for (method, from, to, headers, status) in [
        ("COPY", "/dav/ana/g", "/dav/ana/h", vec![], 201),
        ("COPY", "/dav/ana/g", "/dav/ana/h", vec![], 204),
        ("COPY", "/dav/ana/g", "/dav/ana/h", vec![("overwrite", "F")], 412),
        ("MOVE", "/dav/ana/g", "/dav/ana/h", vec![("overwrite", "f")], 412),
        ("COPY", "/dav/ana/g", "/dav/ana/h", vec![("overwrite", "maybe")], 400),
        ("COPY", "/dav/ana/g", "/dav/ana/g", vec![], 403),
        ("COPY", "/dav/ana/g", "/dav/ana/missing/h", vec![], 409),
        ("COPY", "/dav/ana/g", "/dav/ana/h/below", vec![], 409),
        ("COPY", "/dav/ana/missing", "/dav/ana/z", vec![], 404),
        ("COPY", "/dav/ana/a", "/dav/ana/shallow", vec![("depth", "0")], 201),
        ("COPY", "/dav/ana/a", "/dav/ana/x", vec![("depth", "1")], 400),
        ("MOVE", "/dav/ana/a", "/dav/ana/x", vec![("depth", "0")], 400),
        ("MOVE", "/dav/ana/a", "/dav/ana/a/below", vec![], 403),
        ("MOVE", "/dav/ana/a/f", "/dav/ana/a", vec![], 403),
        ("MOVE", "/dav/ana", "/dav/ana/x", vec![], 403),
        ("MOVE", "/dav/ana/a", "/dav/ana", vec![], 403),
        ("MOVE", "/dav/ana/a", "/dav/", vec![], 403),
        ("MOVE", "/dav/ana/a", "http://elsewhere/dav/ana/b", vec![("host", "here")], 502),
        ("MOVE", "/dav/ana/a", "http://here:80/dav/ana/b", vec![("host", "here")], 201),
        ("MOVE", "/dav/ana/b", "/files/b", vec![], 502),
        ("MOVE", "/dav/ana/b", "b", vec![], 400),
        ("MOVE", "/dav/ana/b", "/dav/ana/%zz", vec![], 400),
        ("MOVE", "/dav/ana/b", "/dav/ana/h", vec![("depth", "infinity")], 204),
    ] {
        let headers: Vec<_> = headers.into_iter().chain([("destination", to)]).collect();
        let reply = rig.send(method, from, &headers, "").await;
        assert_eq!(reply.status, status, "{method} {from} {to} {}", reply.text());
    }
    assert_eq!(rig.send("GET", "/dav/ana/h/f", &[], "").await.text(), "x");
    assert_eq!(rig.send("GET", "/dav/ana/shallow/f", &[], "").await.status, 404);
    assert_eq!(rig.send("COPY", "/dav/ana/h", &[], "").await.status, 400);
}

#[tokio::test]
async fn a_tree_moves_between_spaces() {
    let rig = rig().await;
    let bert = rig.account("bert").await;
    rig.let_in(&bert, Role::Editor).await;
    rig.send("MKCOL", "/dav/ana/a", &[], "").await;
    rig.send("PUT", "/dav/ana/a/f", &[], "x").await;
    let moved = rig.send_as(&bert, "MOVE", "/dav/ana/a", &[("destination", "/dav/bert/b")], "").await;
    assert_eq!(moved.status, 201, "{}", moved.text());
    assert_eq!(rig.send_as(&bert, "GET", "/dav/bert/b/f", &[], "").await.text(), "x");
    assert_eq!(rig.send("GET", "/dav/ana/a/f", &[], "").await.status, 404);
}

#[tokio::test]
async fn strangers_see_nothing_and_readers_change_nothing() {
    let rig = rig().await;
    rig.send("PUT", "/dav/ana/f", &[], "secret").await;
    let (reader, stranger) = (rig.account("rita").await, rig.account("stan").await);
    rig.let_in(&reader, Role::Reader).await;
    for (method, headers) in [
        ("PUT", vec![]),
        ("DELETE", vec![]),
        ("MOVE", vec![("destination", "/dav/ana/g")]),
        ("LOCK", vec![]),
        ("PROPPATCH", vec![]),
    ] {
        let body = match method {
            "LOCK" => LOCK,
            "PROPPATCH" => "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><a/></D:prop></D:set></D:propertyupdate>",
            _ => "",
        };
        assert_eq!(rig.send_as(&reader, method, "/dav/ana/f", &headers, body).await.status, 403, "{method}");
        let unseen = rig.send_as(&stranger, method, "/dav/ana/f", &headers, body).await;
        let missing = rig.send_as(&stranger, method, "/dav/none/f", &headers, body).await;
        assert_eq!(unseen.status, 404, "{method}");
        assert_eq!(unseen.text().replace("ana", "none"), missing.text(), "{method}");
    }
    assert_eq!(rig.send_as(&reader, "GET", "/dav/ana/f", &[], "").await.text(), "secret");
    assert_eq!(rig.send_as(&stranger, "GET", "/dav/ana/f", &[], "").await.status, 404);
    assert_eq!(rig.send_as(&stranger, "PROPFIND", "/dav/ana/", &[("depth", "1")], "").await.status, 404);
    assert!(!rig.send_as(&stranger, "PROPFIND", "/dav/", &[("depth", "1")], "").await.text().contains("/ana/"));
}

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope>\
    <D:locktype><D:write/></D:locktype></D:lockinfo>";

#[tokio::test]
async fn the_list_of_spaces_is_a_collection_that_cannot_be_changed() {
    let rig = rig().await;
    let bert = rig.account("bert").await;
    rig.let_in(&bert, Role::Reader).await;
    for path in ["/dav", "/dav/"] {
        let list = rig.send_as(&bert, "PROPFIND", path, &[("depth", "1")], "").await;
        assert_eq!(list.status, 207);
        for href in ["<D:href>/dav/</D:href>", "<D:href>/dav/ana/</D:href>", "<D:href>/dav/bert/</D:href>"] {
            assert!(list.text().contains(href), "{}", list.text());
        }
        let page = rig.send_as(&bert, "GET", path, &[], "").await;
        assert!(page.text().contains("<a href=\"/dav/ana/\">ana/</a>"));
    }
    assert!(!rig.send("PROPFIND", "/dav/", &[("depth", "0")], "").await.text().contains("/dav/ana/"));
    assert!(rig.send("PROPFIND", "/dav/", &[("depth", "infinity")], "").await.text().contains("/dav/ana/"));
}

#[tokio::test]
async fn a_folder_has_a_page_that_escapes_its_names() {
    let rig = rig().await;
    rig.send("MKCOL", "/dav/ana/a%20%26%20b", &[], "").await;
    rig.send("PUT", "/dav/ana/a%20%26%20b/%3Cscript%3E%22", &[], "12345").await;
    let page = rig.send("GET", "/dav/ana/a%20%26%20b", &[], "").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.text().contains("<a href=\"a%20%26%20b/%3Cscript%3E%22\">&lt;script&gt;&quot;</a>"));
    let slashed = rig.send("GET", "/dav/ana/a%20%26%20b/", &[], "").await;
    assert!(slashed.text().contains("<a href=\"%3Cscript%3E%22\">&lt;script&gt;&quot;</a>"));
    assert!(page.text().contains("<h1>/ana/a &amp; b</h1>") && page.text().contains(">5 B<"));
    assert!(page.text().contains("<a href=\"/dav/ana/\">../</a>"));
    assert!(!page.text().contains("<script>"));
    let head = rig.send("HEAD", "/dav/ana/a%20%26%20b", &[], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn options_name_the_classes_and_methods_and_other_methods_are_refused() {
    let rig = rig().await;
    let options = rig.send("OPTIONS", "/dav/ana/whatever", &[], "").await;
    assert_eq!((options.status, options.header("dav"), options.header("ms-author-via")), (200, "1, 2, 3", "DAV"));
    assert!(options.header("allow").contains("PROPFIND"));
    for method in ["POST", "PATCH", "TRACE", "REPORT", "BREW"] {
        let reply = rig.send(method, "/dav/ana/", &[], "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, options.header("allow")), "{method}");
    }
}
