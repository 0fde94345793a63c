//! PROPFIND and PROPPATCH.

use crate::rig::{Reply, Rig};
use futures_util::{StreamExt, stream};
use holdfast_base::ManualClock;
use holdfast_dav::DavOptions;
use holdfast_dav::limits::{ANSWER_PIECE_BYTES, LIST_PAGE_NODES};
use std::fmt::Write;
use std::sync::Arc;

const FILE: &str = "/dav/ana/a.txt";

async fn rig() -> Rig {
    Rig::new(Arc::new(ManualClock::new(1_700_000_000_000))).await
}

async fn find(rig: &Rig, path: &str, depth: &str, prop: &str) -> Reply {
    let body = format!(
        "<D:propfind xmlns:D=\"DAV:\" xmlns:oc=\"http://owncloud.org/ns\" xmlns:n=\"urn:n\"><D:prop>{prop}</D:prop></D:propfind>"
    );
    rig.send("PROPFIND", path, &[("depth", depth)], body).await
}

async fn patch(rig: &Rig, path: &str, instructions: &str) -> Reply {
    let body = format!("<D:propertyupdate xmlns:D=\"DAV:\" xmlns:n=\"urn:n\">{instructions}</D:propertyupdate>");
    rig.send("PROPPATCH", path, &[], body).await
}

#[tokio::test]
async fn named_properties_are_found_or_listed_as_missing() {
    let rig = rig().await;
    let made = rig.send("PUT", FILE, &[], "12345").await;
    let names = "<D:getcontentlength/><D:getetag/><D:getlastmodified/><D:resourcetype/><D:displayname/><n:x/>";
    let found = find(&rig, FILE, "0", names).await;
    assert_eq!((found.status, found.header("content-type")), (207, "application/xml; charset=utf-8"));
    assert_eq!(found.header("content-length"), found.body.len().to_string());
    let expected = format!(
        "<D:response><D:href>/dav/ana/a.txt</D:href><D:propstat><D:prop>\
         <D:getcontentlength>5</D:getcontentlength><D:getetag>{}</D:getetag>\
         <D:getlastmodified>Tue, 14 Nov 2023 22:13:20 GMT</D:getlastmodified><D:resourcetype></D:resourcetype>\
         <D:displayname>a.txt</D:displayname></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
         <D:propstat><D:prop><x:x xmlns:x=\"urn:n\"/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>\
         </D:response>",
        made.header("etag")
    );
    assert!(found.text().contains(&expected), "{}", found.text());
    let only_missing = find(&rig, "/dav/ana/", "0", "<D:getcontentlength/>").await;
    assert!(!only_missing.text().contains("200 OK") && only_missing.text().contains("404 Not Found"));
}

#[tokio::test]
async fn everything_and_all_names_can_be_asked_for() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    patch(&rig, FILE, "<D:set><D:prop><n:x>v</n:x></D:prop></D:set>").await;
    let all = rig.send("PROPFIND", FILE, &[("depth", "0")], "").await;
    for part in
        ["<D:creationdate>2023-11-14T22:13:20Z", "<D:supportedlock><D:lockentry>", "<D:lockdiscovery></", ">v</n:x>"]
    {
        assert!(all.text().contains(part), "{part} {}", all.text());
    }
    assert!(!all.text().contains("404") && !all.text().contains("quota"));
    let include = "<D:propfind xmlns:D='DAV:'><D:allprop/><D:include><D:quota-used-bytes/></D:include></D:propfind>";
    let more = rig.send("PROPFIND", FILE, &[("depth", "0")], include).await;
    assert!(more.text().contains("<D:quota-used-bytes>1</D:quota-used-bytes>"));
    let names = "<D:propfind xmlns:D='DAV:'><D:propname/></D:propfind>";
    let names = rig.send("PROPFIND", FILE, &[("depth", "0")], names).await;
    assert!(names.text().contains("<D:getetag/>") && names.text().contains("<x:x xmlns:x=\"urn:n\"/>"));
    assert!(!names.text().contains("22:13:20"));
}

#[tokio::test]
async fn quota_and_the_properties_of_owncloud_are_answered_when_named() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    let names = "<D:quota-used-bytes/><D:quota-available-bytes/><oc:size/><oc:permissions/><oc:checksums/>";
    let found = find(&rig, FILE, "0", names).await;
    let (present, missing) = found.text().split_once("200 OK").expect("something is present");
    for part in [
        "<D:quota-used-bytes>1</D:quota-used-bytes>",
        "<oc:size>1</oc:size>",
        "<oc:permissions>GDNVW</oc:permissions>",
        "<oc:checksums><oc:checksum>SHA1:11f6ad8ec52a2984abaafd7c3b516503785c2072 MD5:9dd4e461268c8034f5c8564e155c67a6\
         </oc:checksum></oc:checksums>",
    ] {
        assert!(present.contains(part), "{part} {present}");
    }
    // Without a quota nothing bounds the bytes available (RFC 4331 section 3).
    assert!(missing.contains("<D:quota-available-bytes/>"));
    // In a listing, checksums would read every file.
    assert!(find(&rig, "/dav/ana/", "1", "<oc:checksums/>").await.text().matches("<oc:checksums/>").count() == 2);
}

#[tokio::test]
async fn a_minimal_answer_leaves_out_what_is_missing() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    let body = "<D:propfind xmlns:D='DAV:'><D:prop><D:getetag/><D:nothing/></D:prop></D:propfind>";
    for header in [("prefer", "return=minimal"), ("brief", "t")] {
        let found = rig.send("PROPFIND", FILE, &[("depth", "0"), header], body).await;
        assert!(found.text().contains("getetag") && !found.text().contains("nothing"), "{}", found.text());
    }
}

#[tokio::test]
async fn dead_properties_come_back_as_they_were_set() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    let before = rig.send("HEAD", FILE, &[], "").await.header("etag").to_owned();
    let value = "<n:deep xml:lang=\"de\" n:a=\"1 &amp; 2\">text <b xmlns=\"\">ü💾</b>&lt;</n:deep>";
    let set = patch(&rig, FILE, &format!("<D:set><D:prop>{value}</D:prop></D:set>")).await;
    assert_eq!(set.status, 207);
    assert!(set.text().contains("<x:deep xmlns:x=\"urn:n\"/></D:prop><D:status>HTTP/1.1 200 OK"), "{}", set.text());
    let kept = "<n:deep xmlns:n=\"urn:n\" xml:lang=\"de\" n:a=\"1 &amp; 2\">text <b xmlns=\"\">ü💾</b>&lt;</n:deep>";
    assert!(find(&rig, FILE, "0", "<n:deep/>").await.text().contains(kept));
    assert!(find(&rig, "/dav/ana/", "1", "<n:deep/>").await.text().contains(kept));
    assert_ne!(rig.send("HEAD", FILE, &[], "").await.header("etag"), before);
    rig.send("COPY", FILE, &[("destination", "/dav/ana/b.txt")], "").await;
    assert!(find(&rig, "/dav/ana/b.txt", "0", "<n:deep/>").await.text().contains(kept));
    patch(&rig, FILE, "<D:remove><D:prop><n:deep/></D:prop></D:remove>").await;
    assert!(find(&rig, FILE, "0", "<n:deep/>").await.text().contains("404"));
}

#[tokio::test]
async fn a_display_name_replaces_the_name_where_it_is_shown() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    patch(&rig, FILE, "<D:set><D:prop><D:displayname>Shown</D:displayname></D:prop></D:set>").await;
    for request in ["<D:displayname/>", "<D:displayname/><D:getetag/>"] {
        let found = find(&rig, FILE, "0", request).await;
        assert_eq!(found.text().matches("Shown").count(), 1, "{}", found.text());
        assert!(!found.text().contains(">a.txt<"));
    }
    assert_eq!(rig.send("PROPFIND", FILE, &[("depth", "0")], "").await.text().matches("displayname").count(), 2);
}

#[tokio::test]
async fn a_refused_instruction_takes_the_others_with_it() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    let instructions = "<D:set><D:prop><n:x>v</n:x><D:getetag>\"mine\"</D:getetag></D:prop></D:set>";
    let refused = patch(&rig, FILE, instructions).await;
    let text = refused.text();
    assert_eq!(refused.status, 207);
    assert!(text.contains("403 Forbidden</D:status><D:error><D:cannot-modify-protected-property/>"), "{text}");
    assert!(text.contains("424 Failed Dependency") && !text.contains("200 OK"));
    assert!(find(&rig, FILE, "0", "<n:x/>").await.text().contains("404"));
    assert_eq!(patch(&rig, "/dav/ana/none", instructions).await.status, 404);
    assert_eq!(patch(&rig, "/dav/", instructions).await.status, 403);
}

#[tokio::test]
async fn three_properties_set_the_modification_time() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    for (property, date) in [
        ("<D:lastmodified>784111777</D:lastmodified>", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("<D:getlastmodified>Mon, 07 Nov 1994 08:49:37 GMT</D:getlastmodified>", "Mon, 07 Nov 1994 08:49:37 GMT"),
        (
            "<Z:Win32LastModifiedTime xmlns:Z='urn:schemas-microsoft-com:'>Tue, 08 Nov 1994 08:49:37 GMT</Z:Win32LastModifiedTime>",
            "Tue, 08 Nov 1994 08:49:37 GMT",
        ),
    ] {
        let set = patch(&rig, FILE, &format!("<D:set><D:prop>{property}</D:prop></D:set>")).await;
        assert!(set.text().contains("200 OK"), "{}", set.text());
        assert_eq!(rig.send("HEAD", FILE, &[], "").await.header("last-modified"), date);
    }
    let bad = patch(&rig, FILE, "<D:set><D:prop><D:getlastmodified>soon</D:getlastmodified></D:prop></D:set>").await;
    assert!(bad.text().contains("409 Conflict"));
}

#[tokio::test]
async fn a_folder_of_several_pages_is_listed_whole_and_streamed() {
    let rig = rig().await;
    let count = 2 * LIST_PAGE_NODES + 7;
    let paths: Vec<_> = (0..count).map(|index| format!("/dav/ana/{index:05}%20%C3%A9")).collect();
    let made = stream::iter(&paths).map(|path| rig.send("MKCOL", path, &[], "")).buffer_unordered(64);
    assert!(made.all(|reply| std::future::ready(reply.status == 201)).await);
    patch(&rig, "/dav/ana/01500%20%C3%A9", "<D:set><D:prop><n:x>here</n:x></D:prop></D:set>").await;
    let all = rig.send("PROPFIND", "/dav/ana/", &[("depth", "1")], "").await;
    assert_eq!(all.status, 207);
    assert_eq!(all.header("content-length"), "");
    assert!(all.body.len() > 10 * ANSWER_PIECE_BYTES);
    let mut missing = String::new();
    for index in 0..count {
        let href = format!("<D:href>/dav/ana/{index:05}%20%C3%A9/</D:href>");
        if all.text().matches(&href).count() != 1 {
            let _ = writeln!(missing, "{href}");
        }
    }
    assert!(missing.is_empty(), "{missing}");
    assert_eq!(all.text().matches(">here</n:x>").count(), 1);
    assert_eq!(all.text().matches("<D:response>").count(), count + 1);
    let page = rig.send("GET", "/dav/ana/", &[], "").await;
    assert_eq!(page.text().matches("<tr><td>").count(), count + 1);
    assert!(page.text().ends_with("</html>\n"));
}

#[tokio::test]
async fn infinity_lists_a_tree_up_to_a_limit() {
    let clock = Arc::new(ManualClock::new(0));
    let options = DavOptions { infinity_nodes_max: 7, clock: clock.clone(), ..DavOptions::default() };
    let rig = Rig::with(clock, options).await;
    rig.send("MKCOL", "/dav/ana/a", &[], "").await;
    rig.send("MKCOL", "/dav/ana/a/b", &[], "").await;
    rig.send("PUT", "/dav/ana/a/b/c", &[], "x").await;
    rig.send("MKCOL", "/dav/ana/a/e", &[], "").await;
    rig.send("PUT", "/dav/ana/a/e/f", &[], "x").await;
    rig.send("MKCOL", "/dav/ana/d", &[], "").await;
    rig.send("PUT", "/dav/ana/d/g", &[], "x").await;
    let all = rig.send("PROPFIND", "/dav/ana", &[], "").await;
    for href in ["/", "/a/", "/a/b/", "/a/b/c", "/a/e/", "/a/e/f", "/d/", "/d/g"] {
        let href = format!("<D:href>/dav/ana{href}</D:href>");
        assert_eq!(all.text().matches(&href).count(), 1, "{href} {}", all.text());
    }
    rig.send("PUT", "/dav/ana/e", &[], "x").await;
    for path in ["/dav/ana", "/dav/"] {
        let over = rig.send("PROPFIND", path, &[("depth", "infinity")], "").await;
        assert_eq!(over.status, 403);
        assert!(over.text().contains("<D:propfind-finite-depth>"), "{}", over.text());
    }
    assert_eq!(rig.send("PROPFIND", "/dav/ana/a", &[("depth", "infinity")], "").await.status, 207);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let rig = rig().await;
    assert_eq!(rig.send("PROPFIND", "/dav/ana/none", &[("depth", "0")], "").await.status, 404);
    assert_eq!(rig.send("PROPFIND", "/dav/none/", &[("depth", "0")], "").await.status, 404);
    assert_eq!(rig.send("PROPFIND", "/dav/ana/", &[("depth", "2")], "").await.status, 400);
}
