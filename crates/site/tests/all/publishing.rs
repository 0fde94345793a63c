//! Publishing, from a folder of a real drive to what visitors get.

use crate::rig::{HOUR_MS, Rig, at, noise, request};
use holdfast_auth::Secret;
use holdfast_base::{ErrorKind, Result};
use holdfast_drive::{Conditions, Drive, WriteOptions};
use holdfast_meta::Catalogue;
use holdfast_site::{Access, Publication, SettingsChange};
use std::sync::Arc;

const HOST: &str = "site.example";

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_becomes_a_site_with_composed_and_plain_pages() {
    let rig = Rig::new().await;
    let published = rig.publish_example().await;
    assert!(published.live && published.notes.is_empty(), "{published:?}");

    let home = rig.get(HOST, "/", &[]).await;
    assert_eq!((home.status, home.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(home.text().contains("Published byte for byte"));

    let about = rig.get(HOST, "/en/about", &[]).await;
    assert_eq!(about.status, 200, "{}", about.text());
    assert!(about.text().contains("since 2011"));
    assert!(about.text().contains("<a href=\"/en/about\" aria-current=\"page\">About us</a>"), "{}", about.text());
    assert!(about.text().contains("<a href=\"/en/\">Welcome</a>"), "{}", about.text());
    assert!(about.text().contains("<a hreflang=\"de\" href=\"/de/about\">Über uns</a>"), "{}", about.text());

    let welcome = rig.get(HOST, "/de/", &[]).await;
    assert!(
        welcome.text().contains("Startseite") && welcome.text().contains("<a href=\"about\">"),
        "{}",
        welcome.text()
    );
    assert!(welcome.text().contains("<title>Willkommen – Example &amp; Co</title>"));

    for (path, to) in
        [("/de", "/de/"), ("/de/index.html", "/de/"), ("/old", "/en/about"), ("/archive/first?x=1", "/posts/first?x=1")]
    {
        let moved = rig.get(HOST, path, &[]).await;
        assert_eq!((moved.status / 100, moved.header("location")), (3, to), "{path}");
    }
    assert_eq!(rig.get(HOST, "/css/main.css", &[]).await.header("x-kind"), "style");
    for hidden in ["/site.toml", "/_templates/page.html", "/posts/draft", "/posts/draft.html", "/settings.json"] {
        let answer = rig.get(HOST, hidden, &[]).await;
        assert_eq!(answer.status, 404, "{hidden}");
        assert!(answer.text().contains("This page is not here"));
    }
    let feed = rig.get(HOST, "/feed.xml", &[]).await;
    assert!(feed.text().contains("<id>https://site.example/posts/first</id>") && !feed.text().contains("draft"));
    let map = rig.get(HOST, "/sitemap.xml", &[]).await;
    assert!(
        map.text().contains("https://site.example/de/about")
            && !map.text().contains("draft")
            && !map.text().contains("404")
    );
    assert!(rig.get(HOST, "/robots.txt", &[]).await.text().contains("Sitemap: https://site.example/sitemap.xml"));
    let found = rig.get(HOST, "/.holdfast/search?q=NEEDLE+haystack", &[]).await;
    assert!(found.text().contains("/posts/first"), "{}", found.text());
    assert_eq!(rig.get(HOST, "/.holdfast/search?q=secret+plans", &[]).await.text(), "[]");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_with_file_and_line_and_nothing_is_published() {
    let rig = Rig::new().await;
    rig.publish_example().await;
    let before = rig.get(HOST, "/en/about", &[]).await;
    for (file, text, expected) in [
        ("en/about.html", "---\ntitle: A\n---\n<p>\n{% include \"nowhere.html\" %}\n", "en/about.html:5: "),
        ("en/about.html", "---\ntitle: A\n---\n{{ page.titel }}\n", "en/about.html:4: "),
        ("_fragments/nav.html", "<nav>\n{% include \"nav.html\" %}</nav>", "_fragments/nav.html:2: "),
        ("_fragments/nav.html", "<nav>\n{% for x in %}</nav>", "_fragments/nav.html:2: "),
        (
            "_fragments/nav.html",
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            "takes too long",
        ),
        ("site.toml", "title = 'x'\nredirects = 1\n", "site.toml:2: "),
        ("posts/first.md", "---\ntitle: x\ntemplate: none.html\n---\n", "there is no template none.html"),
        ("posts/first.html", "plain", "becomes /posts/first.html as well"),
    ] {
        let path = format!("/example/{file}");
        let kept = rig.engine.walk(&rig.ana, &at("ana", &path)).await.expect("walks");
        let old = kept.node().map(|node| node.seq);
        rig.put(&path, text.as_bytes().to_vec()).await;
        let error = rig.publish("ex", "/example").await.expect_err(file);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.message().contains(expected), "{file}: {error}");
        match old {
            Some(seq) => {
                let back = rig.engine.restore_version(&rig.ana, &at("ana", &path), seq, Conditions::default()).await;
                back.expect("restores");
            }
            None => {
                rig.engine.remove(&rig.ana, &at("ana", &path), Conditions::default()).await.expect("removes");
            }
        }
    }
    assert_eq!(rig.get(HOST, "/en/about", &[]).await, before);
    assert_eq!(rig.sites.snapshots(&rig.ana, "ex").await.expect("lists").len(), 1);
    let check = Publication { check: true, ..Rig::publication("other", "/example") };
    let tried = rig.sites.publish(&rig.ana, check).await.expect("composes");
    assert!(tried.snapshot.is_none() && tried.routes.contains(&"/de/about.html".to_owned()), "{tried:?}");
    assert!(rig.sites.show(&rig.ana, "other").await.is_err(), "a check makes no site");
    rig.put("/bad/a.html", "---\ntitle: A\n---\n{{ nothing }}").await;
    assert!(rig.publish("fresh", "/bad").await.is_err());
    assert!(rig.sites.show(&rig.ana, "fresh").await.is_err(), "mistakes make no site");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_did_not_change_is_neither_read_nor_stored_again_and_keeps_its_date() {
    let rig = Rig::new().await;
    let first = rig.publish_example().await;
    let used = rig.engine.space(&rig.ana, "site.ex").await.expect("sees").usage;
    let tags = async |path: &str| {
        let answer = rig.get(HOST, path, &[]).await;
        (answer.header("etag").to_owned(), answer.header("last-modified").to_owned())
    };
    let before = (tags("/pictures/large.bin").await, tags("/posts/first").await);
    rig.clock.advance(60_000);
    rig.put("/example/posts/first.md", "---\ntitle: First post\ndate: 2026-01-31\n---\nChanged.\n").await;
    let second = rig.publish("ex", "/example").await.expect("publishes");
    assert_eq!((second.files, second.composed), (first.files, first.composed));
    // The post itself, and the feed: its summary went.
    assert_eq!(second.stored_files, 2, "{second:?}");
    let now = rig.engine.space(&rig.ana, "site.ex").await.expect("sees").usage;
    assert!(now.used_bytes - used.used_bytes < 200_000, "{} {}", now.used_bytes, used.used_bytes);
    let after = (tags("/pictures/large.bin").await, tags("/posts/first").await);
    assert_eq!(after.0, before.0);
    assert!(after.1.0 != before.1.0 && after.1.1 != before.1.1);
    assert_eq!(rig.get(HOST, "/pictures/large.bin", &[]).await.body, noise(2, 5 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_back_forth_and_later_and_the_history_says_who() {
    let rig = Rig::new().await;
    let page = async |rig: &Rig| {
        rig.serving.look().await.expect("looks");
        rig.get("any.example", "/s/", &[]).await.text().to_owned()
    };
    let mut names = Vec::new();
    for text in ["one", "two", "three"] {
        rig.put("/s/index.html", text).await;
        let publication = Publication { note: format!("says {text}"), ..Rig::publication("s", "/s") };
        names.push(rig.sites.publish(&rig.ana, publication).await.expect("publishes").snapshot.expect("has one"));
        rig.clock.advance(2_000);
    }
    assert_eq!(page(&rig).await, "three");
    rig.sites.roll_back(&rig.ana, "s", None, None, "oops").await.expect("rolls back");
    assert_eq!(page(&rig).await, "two");
    rig.sites.roll_back(&rig.ana, "s", Some(&names[0]), None, "").await.expect("rolls back");
    assert_eq!(page(&rig).await, "one");
    let soon = 1_800_000_000_000 + HOUR_MS;
    rig.sites.roll_back(&rig.ana, "s", Some(&names[2]), Some(soon), "").await.expect("schedules");
    assert_eq!(page(&rig).await, "one");
    rig.clock.advance(HOUR_MS);
    assert_eq!(page(&rig).await, "three", "every node switches by its own clock");
    assert_eq!(rig.sites.show(&rig.ana, "s").await.expect("shows").live.as_ref(), Some(&names[2]));
    rig.sites.unpublish(&rig.ana, "s", "holiday").await.expect("takes it off");
    assert!(page(&rig).await.contains("Nothing is published"));
    let history = rig.sites.history(&rig.ana, "s", 100).await.expect("reads");
    let seen: Vec<_> = history.iter().map(|entry| (entry.action.as_str(), entry.by.as_str())).collect();
    assert_eq!(seen.len(), 7);
    assert_eq!((seen[0], seen[6], history[0].note.as_str()), (("unpublish", "ana"), ("publish", "ana"), "holiday"));
    for wrong in ["nothing", "../live"] {
        assert!(rig.sites.roll_back(&rig.ana, "s", Some(wrong), None, "").await.is_err(), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_publishers_at_once_one_wins_and_the_other_is_told() {
    let rig = Rig::new().await;
    rig.put("/s/index.html", "start").await;
    rig.publish("s", "/s").await.expect("publishes");
    for round in 0..5 {
        for n in 0..20 {
            rig.put(&format!("/s/{n}.txt"), format!("{round} {n}")).await;
        }
        let one = rig.sites.publish(&rig.ana, Rig::publication("s", "/s"));
        let other = rig.sites.publish(&rig.ana, Rig::publication("s", "/s"));
        let (one, other) = tokio::join!(one, other);
        let won = [&one, &other].iter().filter(|done| done.is_ok()).count();
        assert!(won >= 1, "{one:?} {other:?}");
        for error in [one, other].into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.message().contains("somebody else published"), "{error}");
        }
        rig.serving.look().await.expect("looks");
        for n in 0..20 {
            assert_eq!(rig.get("any", &format!("/s/{n}.txt"), &[]).await.text(), format!("{round} {n}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_see_the_old_site_or_the_new_one_and_no_mixture() {
    let rig = Arc::new(Rig::new().await);
    let fill = async |rig: &Rig, version: usize| {
        for page in 0..8 {
            rig.put(&format!("/s/{page}.html"), format!("{version} ").repeat(5_000)).await;
        }
    };
    fill(&rig, 0).await;
    rig.publish("s", "/s").await.expect("publishes");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|reader| {
            let (rig, stop) = (rig.clone(), stop.clone());
            tokio::spawn(async move {
                let (mut last, mut read) = (0, 0);
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let answer = rig.get("any", &format!("/s/{}.html", (reader + read) % 8), &[]).await;
                    assert_eq!(answer.status, 200);
                    let words: std::collections::BTreeSet<&str> = answer.text().split_whitespace().collect();
                    assert_eq!(words.len(), 1, "a mixture");
                    let version: usize = words.first().expect("one").parse().expect("a number");
                    assert!(version >= last, "{version} came after {last}");
                    (last, read) = (version, read + 1);
                    tokio::task::yield_now().await;
                }
                read
            })
        })
        .collect();
    for version in 1..=6 {
        fill(&rig, version).await;
        rig.publish("s", "/s").await.expect("publishes");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("no mixture") > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_snapshots_and_what_nothing_names_are_swept_and_the_rest_stays() {
    let rig = Rig::new().await;
    for n in 0..4u64 {
        rig.put("/s/index.html", format!("page {n}")).await;
        rig.put("/s/big.bin", noise(n, 300_000)).await;
        let settings = SettingsChange { keep: Some(2), ..SettingsChange::default() };
        let publication = Publication { settings, ..Rig::publication("s", "/s") };
        rig.sites.publish(&rig.ana, publication).await.expect("publishes");
        rig.clock.advance(HOUR_MS);
    }
    assert_eq!(rig.sites.snapshots(&rig.ana, "s").await.expect("lists").len(), 2);
    // What a killed publish leaves: content nothing names, and a copy half-way.
    for stray in ["objects/stray", "incoming/stray"] {
        let body = Box::pin(futures_util::stream::once(std::future::ready(Ok(noise(9, 200_000).into()))));
        rig.engine.write(&rig.ana, &at("site.s", stray), WriteOptions::default(), body).await.expect("writes");
    }
    let full = rig.engine.space(&rig.ana, "site.s").await.expect("sees").usage.used_bytes;
    rig.publish("s", "/s").await.expect("publishes");
    assert!(rig.engine.walk(&rig.ana, &at("site.s", "objects/stray")).await.expect("walks").complete, "it is young");
    rig.clock.advance(7 * HOUR_MS);
    rig.publish("s", "/s").await.expect("publishes");
    for stray in ["objects/stray", "incoming/stray"] {
        assert!(!rig.engine.walk(&rig.ana, &at("site.s", stray)).await.expect("walks").complete, "{stray}");
    }
    let left = rig.engine.space(&rig.ana, "site.s").await.expect("sees").usage.used_bytes;
    assert!(left + 3 * 300_000 < full, "{left} of {full}");
    rig.serving.look().await.expect("looks");
    assert_eq!(rig.get("any", "/s/big.bin", &[]).await.body, noise(3, 300_000));
    rig.sites.roll_back(&rig.ana, "s", None, None, "").await.expect("the snapshot before is whole");
    let cold = rig.another_node();
    cold.look().await.expect("looks");
    assert_eq!(request(&cold, "GET", "any", "/s/", &[], "").await.text(), "page 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sites_key_opens_what_was_published_and_nothing_else() {
    let rig = Rig::new().await;
    rig.publish_example().await;
    let reader = rig.sites.reader().await.expect("opens").expect("is there");
    let spaces: Vec<String> =
        rig.engine.spaces(&reader).await.expect("lists").into_iter().map(|space| space.name).collect();
    assert_eq!(spaces, ["_sites", "site.ex"]);
    for space in ["ana", "ben"] {
        let error = rig.engine.walk(&reader, &at(space, "/")).await.expect_err(space);
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    // Even handed another space's wrapped key, it does not open it.
    let (space, membership) =
        rig.catalogue.space_by_name("ana", rig.ana.account).await.expect("reads").expect("is there");
    let stolen = holdfast_meta::Membership { account: reader.account, ..membership.expect("a member") };
    assert!(reader.space_key(space.uid, &stolen).is_err());
    let (site, membership) =
        rig.catalogue.space_by_name("site.ex", reader.account).await.expect("reads").expect("is there");
    assert!(reader.space_key(site.uid, &membership.expect("a member")).is_ok());
    let write = rig.engine.remove(&reader, &at("site.ex", "live.json"), Conditions::default()).await;
    assert_eq!(write.expect_err("reads only").kind(), ErrorKind::Forbidden);
    assert!(
        rig.accounts.create(holdfast_auth::NewPerson { name: "_sites".into(), ..Default::default() }).await.is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_first_come_first_served_and_never_the_drive_s() {
    let rig = Rig::new().await;
    rig.put("/s/index.html", "x").await;
    let with = |site: &str, hosts: &[&str], path: Option<&str>| {
        let hosts = Some(hosts.iter().map(|host| (*host).to_owned()).collect());
        let settings = SettingsChange { hosts, path: path.map(ToOwned::to_owned), ..SettingsChange::default() };
        Publication { settings, ..Rig::publication(site, "/s") }
    };
    rig.sites.publish(&rig.ana, with("one", &["a.example"], None)).await.expect("publishes");
    let refused = async |publication| rig.sites.publish(&rig.ana, publication).await.expect_err("refused").kind();
    assert_eq!(refused(with("two", &["a.example"], None)).await, ErrorKind::Conflict);
    assert_eq!(refused(with("two", &["drive.example"], None)).await, ErrorKind::Conflict);
    assert_eq!(refused(with("two", &["127.0.0.1"], None)).await, ErrorKind::InvalidInput);
    rig.sites.publish(&rig.ana, with("two", &["a.example"], Some("/two"))).await.expect("lies below");
    let private = SettingsChange { access: Some(Access::Members { space: "ana".into() }), ..SettingsChange::default() };
    let error = rig.sites.set(&rig.ana, "one", private).await.expect_err("shares its host");
    assert!(error.message().contains("host of its own"), "{error}");
    assert_eq!(
        rig.sites.publish(&rig.ben, with("one", &[], None)).await.expect_err("ana's").kind(),
        ErrorKind::NotFound
    );
    assert!(
        rig.sites.show(&rig.ben, "one").await.is_err() && rig.sites.list(&rig.ben).await.expect("lists").is_empty()
    );
    let short = rig.sites.password_access(&Secret::new("short")).await;
    assert_eq!(short.expect_err("short").kind(), ErrorKind::InvalidInput);
    rig.sites.remove(&rig.ana, "one").await.expect("removes");
    assert!(rig.sites.show(&rig.ana, "one").await.is_err());
}
