use super::*;
use crate::file::{Loaded, Set};
use proptest::prelude::*;

const SPECS: &str = r#"<?xml version="1.0"?><remoteSpecs><aliasSpecs/><daemons>
<daemon alias="Gfs Ftp" active="no">
  <runInfo firstRunDateTime="2007-11-27T00:00:00Z" period="3m" epsilon="20s" runOnReboot="yes"/>
  <propInfo dir="[HOME]/specs"><propFiles regExp="GFS\.xml" parser="a.b.DirStructXmlParser"/></propInfo>
  <dataInfo stagingArea="Gfs" renamingConv="[PARENT_FILENAME]_[FILENAME]" queryElement="Filename" deleteFromServer="yes"/>
</daemon>
<daemon alias="Gfs Ftp"><runInfo period="1y"/>
  <propInfo><downloadInfo alias="Mail"/><propFiles regExp=".*" parser="x.ClassNoaaEmailParser"/><afterUse moveToOnSuccess="d"/></propInfo>
  <dataInfo stagingArea="[HOME]/x" renamingConv="[GREP('a','b')]" allowAliasOverride="yes"/></daemon>
</daemons></remoteSpecs>"#;
const SOURCES: &str = r#"<sources><source host="ftp.example.org"><login type="ftp" alias="Gfs Ftp"><username>ann</username>
<password>hush&amp;hush</password><maxConn>3</maxConn><cdTestDir>a
password = 'x'</cdTestDir></login></source><source host="localhost"><login type="file" alias="here"><username>none</username></login></source></sources>"#;
const STRUCTURE: &str = r#"<root><dirstruct starting_path="/pub/gfs"><nofiles/><dir name="gfs\.\d{8}"><nodirs/><file name="t(00|12)z"/></dir>
<dir name="all"/></dirstruct></root>"#;

fn source(name: &str, text: &str) -> Source {
    (name.to_owned(), text.as_bytes().to_vec())
}

fn set(text: &str) -> Set {
    Set::of(&[Loaded::parse("/etc/jobs/old.toml".into(), text).expect(text)]).expect(text)
}

#[test]
fn what_can_be_said_is_said_and_the_rest_is_a_comment() {
    let out = import(&[source("a/RemoteSpecs.xml", SPECS), source("s.xml", SOURCES), source("x/GFS.xml", STRUCTURE)])
        .expect("imports");
    assert!(!out.contains("hush"), "{out}");
    let set = set(&out);
    let job = set.job("Gfs-Ftp").expect("is there");
    assert_eq!(job.text.from.0[0].text(), "Gfs-Ftp:pub/gfs/.");
    assert!(!job.text.active && job.text.delete_source && job.text.verify && job.text.run_on_start);
    assert_eq!(job.text.every.as_ref().expect("a period").text(), "3m");
    assert_eq!(job.text.rename.as_ref().expect("a name").text(), "{folder}_{name}");
    let takes = |path: &str| job.text.include_regex.0.iter().any(|expression| expression.is_match(path));
    assert!(
        takes("gfs.20260101/t00z")
            && !takes("gfs.20260101/t06z")
            && !takes("x")
            && takes("all/deep/x")
            && takes("all/x"),
        "{out}"
    );
    let site = &set.sites["Gfs-Ftp"].text;
    assert_eq!(
        (site.address.as_str(), site.connections, site.login.user.as_deref()),
        ("ftp://ftp.example.org/", Some(3), Some("ann"))
    );
    assert_eq!(set.sites["here"].text.address, "/");
    for said in [
        "# its period was 1y",
        "# its names were made so: [GREP('a','b')]",
        "Mail",
        "allowAliasOverride",
        "[HOME]/x",
        "ClassNoaaEmailParser",
    ] {
        assert!(out.contains(said), "{said}\n{out}");
    }
}

#[test]
fn other_files_broken_ones_and_bombs_are_refused() {
    for bad in [
        "",
        "<html/>",
        "<sources>",
        "<sources></daemon>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><sources/>",
        "<sources>&a;</sources>",
        "text",
    ] {
        assert!(import(&[source("x.xml", bad)]).is_err_and(|error| error.message().starts_with("x.xml")), "{bad}");
    }
    let deep = format!("{}{}", "<root>".repeat(100_000), "</root>".repeat(100_000));
    assert!(import(&[source("x.xml", &deep)]).is_err());
}

proptest! {
    #[test]
    fn what_comes_out_can_be_read_whatever_goes_in(alias in "[^<&\"]{0,8}", path in "[^<&\"]{0,12}", convention in r"[\[\]{}A-Z/.]{0,16}", period in "[0-9a-z]{0,4}") {
        let specs = format!(
            "<remoteSpecs><daemon alias=\"{alias}\"><runInfo period=\"{period}\" firstRunDateTime=\"{path}\" epsilon=\"{period}\"/><propInfo><propFiles regExp=\"s\" \
             parser=\"DirStructXmlParser\"/></propInfo><dataInfo stagingArea=\"{path}\" renamingConv=\"{convention}\"/></daemon></remoteSpecs>"
        );
        let sources = format!("<sources><source host=\"h\"><login alias=\"{alias}\" type=\"{period}\"><username>{path}</username></login></source></sources>");
        let spec = format!("<root><dirstruct starting_path=\"{path}\"><file name=\"{convention}\"/></dirstruct></root>");
        if let Ok(out) = import(&[source("r", &specs), source("e", &sources), source("s", &spec)]) {
            let read = Loaded::parse("/etc/jobs/old.toml".into(), &out);
            prop_assert!(read.is_ok(), "{:?}\n{}", read.err(), out);
        }
    }
}
