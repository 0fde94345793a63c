//! The body parsers: what clients send, what attackers send, and that kept properties read back the same.

use super::*;
use crate::limits::{PROPERTIES_NAMED_MAX, XML_ATTRIBUTES_MAX, XML_BODY_BYTES_MAX, XML_DEPTH_MAX};
use proptest::prelude::*;

fn name(namespace: &str, name: &str) -> PropName {
    PropName { namespace: namespace.into(), name: name.into() }
}

fn set(value: &str) -> Fragment {
    let body = format!("<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop>{value}</D:prop></D:set></D:propertyupdate>");
    match property_update(body.as_bytes()).expect(value).pop() {
        Some(PropPatch::Set(fragment)) => fragment,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_three_forms_of_propfind_are_read() {
    assert_eq!(prop_find(b" \n").expect("empty"), PropFind::All { include: vec![] });
    let body = br#"<?xml version="1.0" encoding="UTF-8"?><propfind xmlns="DAV:" xmlns:e="urn:e"><!-- x -->
        <prop><getetag/><e:a/><b xmlns=""/><getetag/></prop></propfind>"#;
    let named = vec![name("DAV:", "getetag"), name("urn:e", "a"), name("", "b")];
    assert_eq!(prop_find(body).expect("prop"), PropFind::Named(named));
    let body = br#"<D:propfind xmlns:D="DAV:"><D:allprop/><D:include><x xmlns="urn:x"/></D:include></D:propfind>"#;
    assert_eq!(prop_find(body).expect("allprop"), PropFind::All { include: vec![name("urn:x", "x")] });
    let body = br#"<D:propfind xmlns:D="DAV:"><E:later xmlns:E="urn:e"><E:y/></E:later><D:propname/></D:propfind>"#;
    assert_eq!(prop_find(body).expect("propname"), PropFind::Names);
}

#[test]
fn bodies_that_are_not_lawful_xml_are_refused() {
    let wrap = |inside: &str| format!("<D:propfind xmlns:D=\"DAV:\">{inside}</D:propfind>");
    let bad = [
        "<D:propfind xmlns:D=\"DAV:\"><D:prop>".to_owned(),
        "<D:propfind xmlns:D=\"DAV:\"><D:allprop></D:propfind>".into(),
        "<!DOCTYPE a [<!ENTITY b \"c\">]><D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>".into(),
        "<propfind><allprop/></propfind>".into(),
        "<D:propfind><D:allprop/></D:propfind>".into(),
        "<D:mkcol xmlns:D=\"DAV:\"/>".into(),
        "text".into(),
        "<?xml version=\"1.0\" encoding=\"utf-16\"?><D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>".into(),
        wrap(""),
        wrap("<D:allprop/><D:propname/>"),
        wrap("<D:prop><b:foo xmlns:b=\"\"/></D:prop>"),
        wrap("<D:prop><1a/></D:prop>"),
        wrap("<D:prop><a:b:c/></D:prop>"),
        wrap("<D:allprop/>&lol;"),
        wrap("<D:allprop/>&#0;"),
        wrap("<D:allprop/>&#x1;"),
        wrap("<D:allprop/>&#xffffffff;"),
        wrap("<D:allprop/>\u{1}"),
        wrap("<D:allprop a='1' a='2'/>"),
        wrap("<D:allprop xmlns:p='u' xmlns:q='u' p:a='1' q:a='2'/>"),
        wrap("<D:allprop xmlns:xml='urn:x'/>"),
        wrap("<D:allprop xmlns:xmlns='urn:x'/>"),
        wrap("<D:allprop a='<'/>"),
        wrap("<D:allprop a=b/>"),
        wrap("<D:allprop/>") + "<x/>",
        wrap("<D:allprop/>") + "text",
    ];
    for body in bad {
        assert!(prop_find(body.as_bytes()).is_err(), "{body}");
    }
    assert!(prop_find(b"<D:propfind xmlns:D=\"DAV:\">\xff<D:allprop/></D:propfind>").is_err());
    assert!(prop_find(&[0xff, 0xfe, b'<', 0]).is_err());
}

#[test]
fn depth_attributes_namespaces_and_names_have_limits() {
    let deep = format!("{}{}", "<a>".repeat(XML_DEPTH_MAX), "</a>".repeat(XML_DEPTH_MAX));
    let body = format!("<D:propfind xmlns:D=\"DAV:\">{deep}<D:allprop/></D:propfind>");
    assert!(prop_find(body.as_bytes()).is_err());
    let attributes = (0..=XML_ATTRIBUTES_MAX).map(|index| format!(" a{index}=''")).collect::<Vec<_>>().concat();
    let body = format!("<D:propfind xmlns:D=\"DAV:\"><D:allprop{attributes}/></D:propfind>");
    assert!(prop_find(body.as_bytes()).is_err());
    let names = (0..=PROPERTIES_NAMED_MAX).map(|index| format!("<a{index}/>")).collect::<Vec<_>>().concat();
    let body = format!("<D:propfind xmlns:D=\"DAV:\"><D:prop>{names}</D:prop></D:propfind>");
    assert!(prop_find(body.as_bytes()).is_err());
    let many = format!("<D:propfind xmlns:D=\"DAV:\">{}</D:propfind>", "<a/>".repeat(XML_BODY_BYTES_MAX / 4));
    assert!(prop_find(many.as_bytes()).is_err());
}

#[test]
fn a_property_keeps_its_namespaces_language_and_mixed_content() {
    let body = r#"<D:propertyupdate xmlns:D="DAV:" xmlns:u="urn:unused" xml:lang="de"><D:set><D:prop xmlns="urn:n">
        <p a="&quot;&#10;" xmlns:q="urn:q">x <q:b q:c="1"/>&amp;<d xmlns=""/><![CDATA[<]]> </p>
        </D:prop></D:set></D:propertyupdate>"#;
    let Some(PropPatch::Set(kept)) = property_update(body.as_bytes()).expect("reads").pop() else { panic!("a set") };
    assert_eq!((kept.namespace.as_str(), kept.name.as_str(), kept.text.as_str()), ("urn:n", "p", "x &< "));
    assert_eq!(
        kept.xml,
        "<p xmlns:q=\"urn:q\" xmlns=\"urn:n\" xmlns:u=\"urn:unused\" a=\"&quot;&#10;\" xml:lang=\"de\">\
         x <q:b q:c=\"1\"></q:b>&amp;<d xmlns=\"\"></d>&lt; </p>"
    );
    // Kept a second time, it is the same: nothing of it depends on where it stands.
    assert_eq!(set(&kept.xml).xml, kept.xml);
}

#[test]
fn properties_without_namespace_and_beyond_the_basic_plane_are_kept() {
    assert_eq!(set("<a xmlns=\"\">&#x10000;💾</a>").xml, "<a xmlns=\"\">\u{10000}💾</a>");
    assert_eq!(set("<a/>").xml, "<a/>");
    assert_eq!(set("<a>\r\n&#13;</a>").xml, "<a>\n&#13;</a>");
    assert_eq!(set("<D:x/>").xml, "<D:x xmlns:D=\"DAV:\"/>");
}

#[test]
fn properties_that_repeat_long_declarations_are_refused() {
    let long = "u".repeat(6_000);
    let body = format!(
        "<D:propertyupdate xmlns:D=\"DAV:\" xmlns:a=\"{long}\"><D:set><D:prop>{}</D:prop></D:set></D:propertyupdate>",
        "<b/>".repeat(PROPERTIES_NAMED_MAX)
    );
    let refused = property_update(body.as_bytes()).expect_err("over a megabyte");
    assert_eq!(refused.kind(), holdfast_base::ErrorKind::TooLarge);
}

#[test]
fn instructions_keep_their_order() {
    let body = br#"<D:propertyupdate xmlns:D="DAV:"><D:remove><D:prop><a/></D:prop></D:remove>
        <D:set><D:prop><a>1</a></D:prop></D:set><D:remove><D:prop><b/></D:prop></D:remove></D:propertyupdate>"#;
    let updates = property_update(body).expect("reads");
    assert_eq!(updates[0], PropPatch::Remove(name("", "a")));
    assert!(matches!(&updates[1], PropPatch::Set(fragment) if fragment.text == "1"));
    assert_eq!(updates[2], PropPatch::Remove(name("", "b")));
    assert!(property_update(br#"<D:propertyupdate xmlns:D="DAV:"/>"#).is_err());
}

#[test]
fn lock_bodies_are_read_with_their_owner() {
    let body = br"<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype>
        <D:owner><D:href>http://a/</D:href></D:owner></D:lockinfo>";
    let info = lock_info(body).expect("reads");
    assert!(!info.exclusive);
    assert_eq!(info.owner_xml, "<D:owner xmlns:D=\"DAV:\"><D:href>http://a/</D:href></D:owner>");
    let long = "x".repeat(crate::limits::LOCK_OWNER_BYTES_MAX);
    for bad in ["", "<D:lockscope><D:exclusive/></D:lockscope>", "<D:locktype><D:write/></D:locktype>"] {
        assert!(lock_info(format!("<D:lockinfo xmlns:D='DAV:'>{bad}</D:lockinfo>").as_bytes()).is_err(), "{bad}");
    }
    let long = String::from_utf8_lossy(body).replace("http://a/", &long);
    assert!(lock_info(long.as_bytes()).is_err());
}

fn element() -> impl Strategy<Value = String> {
    let name = "[a-z]{1,3}";
    let leaf = (name, "[ -~é💾&&[^<&]]{0,8}").prop_map(|(name, text)| format!("<{name}>{text}</{name}>"));
    leaf.prop_recursive(4, 16, 4, move |inner| {
        (name, prop::option::of("[a-z:]{1,6}"), prop::collection::vec(inner, 0..4)).prop_map(|(name, space, inside)| {
            let space = space.map_or(String::new(), |space| format!(" xmlns='{space}' b='&lt;'"));
            format!("<{name}{space}>{}</{name}>", inside.concat())
        })
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (prop_find(&bytes), property_update(&bytes), lock_info(&bytes));
    }

    #[test]
    fn any_markup_is_read_or_refused(text in r#"(<|>|/|!|\?|&|;|'|"|=|:|#|D:|xmlns|prop|\[CDATA\[|\]\]|--| |é){0,60}"#) {
        for body in [
            format!("<D:propfind xmlns:D='DAV:'>{text}</D:propfind>"),
            format!("<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop>{text}</D:prop></D:set></D:propertyupdate>"),
            format!("<D:lockinfo xmlns:D='DAV:'><D:owner>{text}</D:owner></D:lockinfo>"),
        ] {
            let _ = (prop_find(body.as_bytes()), property_update(body.as_bytes()), lock_info(body.as_bytes()));
        }
    }

    #[test]
    fn whatever_is_kept_reads_back_as_itself(element in element()) {
        let kept = set(&element);
        let again = set(&kept.xml);
        prop_assert_eq!(&again, &kept);
    }
}
