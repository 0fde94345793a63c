//! Plans as people have them, and as attackers make them.

use std::time::Duration;

use super::*;
use crate::load::plan::STEPS_MAX;
use crate::load::{Method, Think};

/// The file of that name beside the tests.
fn fixture(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_fixture(name: &str) -> Found {
    read(&fixture(name), &Properties::new()).unwrap_or_else(|error| panic!("{name}: {error:#}"))
}

/// A plan with these elements in its thread group.
fn with_elements(elements: &str) -> String {
    format!(
        "<jmeterTestPlan><hashTree><TestPlan testname=\"t\"/><hashTree><ThreadGroup><elementProp \
         name=\"ThreadGroup.main_controller\" elementType=\"LoopController\"><stringProp name=\"LoopController.loops\">1\
         </stringProp></elementProp></ThreadGroup><hashTree>{elements}</hashTree></hashTree></hashTree></jmeterTestPlan>"
    )
}

fn sampler(properties: &str) -> String {
    format!(
        "<HTTPSamplerProxy testname=\"page\"><stringProp name=\"HTTPSampler.domain\">h</stringProp>{properties}</HTTPSamplerProxy>"
    )
}

fn read_text(text: &str) -> anyhow::Result<Found> {
    read(text.as_bytes(), &Properties::new())
}

/// The error a thread group with these elements gives.
fn error_of(elements: &str) -> String {
    match read_text(&with_elements(elements)) {
        Ok(found) => panic!("{elements}: {found:?}"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn the_load_of_report_004_is_read() {
    let found = read_fixture("report-004.jmx");
    assert_eq!((found.name.as_str(), found.warnings.len()), ("Cluster test", 1), "{:?}", found.warnings);
    assert!(found.warnings[0].contains("Summary Report"), "listeners measure, and we do that ourselves");
    let plan = found.plan;
    assert_eq!((plan.users, plan.ramp_up, plan.loops), (10, Duration::from_secs(1), Some(1000)));
    assert_eq!((plan.duration, plan.fresh_loops, plan.steps.len()), (None, false, 1));
    assert_eq!(plan.steps[0].url.as_str(), "http://127.0.0.1:8080/yanel/yanel-website/");
    assert!(plan.steps[0].keep_alive && plan.steps[0].think.is_empty());
    plan.check().expect("it can be run");
}

#[test]
fn scopes_defaults_headers_credentials_timers_and_loops_hold_where_they_stand() {
    let found = read_fixture("shop.jmx");
    let plan = &found.plan;
    assert_eq!((plan.users, plan.loops, plan.duration), (25, None, Some(Duration::from_mins(1))));
    assert!(plan.fresh_loops);
    let names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(
        names,
        ["home", "search", "search", "search", "order"],
        "an inner loop of three; the disabled one is left out"
    );
    let [home, search, .., order] = &plan.steps[..] else { panic!("five steps") };
    assert_eq!(home.url.as_str(), "https://shop.example:8443/start");
    assert_eq!(home.think, [Think::Constant(Duration::from_millis(300))]);
    assert_eq!(&home.headers[..], [("Accept".to_owned(), "text/html".to_owned())]);
    assert_eq!(search.url.as_str(), "https://shop.example:8443/find?q=red+shoes%26more&page=2");
    let uniform = Think::Uniform { least: Duration::from_millis(100), range: Duration::from_millis(50) };
    assert_eq!(search.think, [Think::Constant(Duration::from_millis(300)), uniform]);
    assert_eq!(search.credentials, None);
    assert_eq!(order.method, Method::Post);
    assert_eq!(&*order.body, b"{\"item\": 7, \"note\": \"${kept}\"}");
    let headers: Vec<&str> = order.headers.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(headers, ["application/json"], "the inner Accept takes the place of the outer");
    assert_eq!(order.credentials, Some(("buyer".to_owned(), "from-property".to_owned())));
    let gaussian = Think::Gaussian { mean: Duration::from_millis(200), deviation: Duration::from_millis(20) };
    assert_eq!(order.think, [Think::Constant(Duration::from_millis(300)), gaussian]);
    assert!(!order.keep_alive && home.keep_alive);
}

#[test]
fn properties_take_the_place_of_defaults() {
    let properties = [("users".to_owned(), "3".to_owned()), ("host".to_owned(), "other.example".to_owned())].into();
    let found = read(&fixture("shop.jmx"), &properties).expect("a good plan");
    assert_eq!(found.plan.users, 3);
    assert_eq!(found.plan.steps[0].url.host_str(), Some("other.example"));
}

#[test]
fn a_form_is_encoded_and_says_what_it_is() {
    let argument = |name: &str, value: &str, encode: bool| {
        format!(
            "<elementProp name=\"x\" elementType=\"HTTPArgument\"><boolProp name=\"HTTPArgument.always_encode\">{encode}</boolProp>\
             <stringProp name=\"Argument.name\">{name}</stringProp><stringProp name=\"Argument.value\">{value}</stringProp></elementProp>"
        )
    };
    let arguments = argument("a", "1 2", true) + &argument("b", "x%20y", false);
    let text = with_elements(&sampler(&format!(
        "<stringProp name=\"HTTPSampler.method\">POST</stringProp><elementProp name=\"HTTPsampler.Arguments\" \
         elementType=\"Arguments\"><collectionProp name=\"Arguments.arguments\">{arguments}</collectionProp></elementProp>"
    )));
    let step = read_text(&text).expect("a good plan").plan.steps.remove(0);
    assert_eq!(&*step.body, b"a=1+2&b=x%20y");
    assert_eq!(step.headers[0].1, "application/x-www-form-urlencoded");
}

#[test]
fn what_would_change_the_load_and_is_not_understood_is_an_error_that_names_it() {
    for (elements, named) in [
        ("<CookieManager testname=\"jar\"/>".to_owned(), "jar (CookieManager)"),
        ("<IfController testname=\"when\"/>".to_owned(), "when (IfController)"),
        ("<ResponseAssertion testname=\"right\"/>".to_owned(), "right (ResponseAssertion)"),
        (sampler("") + "<hashTree><RegexExtractor testname=\"pick\"/></hashTree>", "pick (RegexExtractor)"),
        (sampler("<stringProp name=\"HTTPSampler.method\">PATCH</stringProp>"), "PATCH"),
        (sampler("<boolProp name=\"HTTPSampler.image_parser\">true</boolProp>"), "what a page embeds"),
        (sampler("<stringProp name=\"HTTPSampler.proxyHost\">p</stringProp>"), "a proxy"),
        (sampler("<stringProp name=\"HTTPSampler.port\">99999</stringProp>"), "its address"),
        (sampler("<stringProp name=\"HTTPSampler.protocol\">file</stringProp>"), "neither http nor https"),
        (sampler("<stringProp name=\"HTTPSampler.path\">/${nobody}</stringProp>"), "${nobody}"),
        (sampler("<stringProp name=\"HTTPSampler.path\">/${__Random(1,5)}</stringProp>"), "__Random"),
        (sampler("<boolProp name=\"HTTPSampler.use_keepalive\">perhaps</boolProp>"), "perhaps"),
        ("<ConstantTimer><stringProp name=\"ConstantTimer.delay\">soon</stringProp></ConstantTimer>".to_owned(), "soon"),
        ("<ConstantTimer><stringProp name=\"ConstantTimer.delay\">-5</stringProp></ConstantTimer>".to_owned(), "negative"),
        ("<ConfigTestElement guiclass=\"FtpConfigGui\"/>".to_owned(), "FtpConfigGui"),
        (
            "<LoopController testname=\"on\"><stringProp name=\"LoopController.loops\">-1</stringProp></LoopController>".to_owned(),
            "without an end",
        ),
    ] {
        let error = error_of(&elements);
        assert!(error.contains(named), "{error} should name {named}");
    }
}

#[test]
fn a_server_name_cannot_turn_into_another_address() {
    for domain in ["h/../x", "me:pw@h", "h?x", "h#x", "h\\x", ""] {
        let text = with_elements(&format!(
            "<HTTPSamplerProxy><stringProp name=\"HTTPSampler.domain\">{domain}</stringProp></HTTPSamplerProxy>"
        ));
        assert!(read_text(&text).is_err(), "{domain:?}");
    }
    let six =
        with_elements("<HTTPSamplerProxy><stringProp name=\"HTTPSampler.domain\">::1</stringProp></HTTPSamplerProxy>");
    assert_eq!(read_text(&six).expect("an address").plan.steps[0].url.as_str(), "http://[::1]/");
}

#[test]
fn what_is_no_plan_or_broken_is_refused() {
    let good = with_elements(&sampler(""));
    assert!(read_text(&good).is_ok());
    assert!(read_text(&format!("\u{feff}<?xml version=\"1.0\"?><!-- c -->{good}\n")).is_ok());
    for text in [
        String::new(),
        "no XML".to_owned(),
        "<html/>".to_owned(),
        "<jmeterTestPlan/>".to_owned(),
        "<jmeterTestPlan><hashTree/></jmeterTestPlan>".to_owned(),
        "<TestPlan><node><testelement class=\"x\"/></node></TestPlan>".to_owned(),
        good.replace("</jmeterTestPlan>", ""),
        good.replace("</hashTree>", "</hashtree>"),
        format!("{good}{good}"),
        format!("{good}text"),
        good.replace("testname=\"t\"", "testname=\"a\u{1}b\""),
        good.replace(">1<", ">1&#0;<"),
        good.replace(">h<", ">h\u{0}<"),
        good.replace("<ThreadGroup>", "<ThreadGroup enabled=\"false\">"),
        good.replace("<ThreadGroup>", "<SetupThreadGroup/><ThreadGroup>"),
        good.replace("testname=\"t\"", "testname=\"t\" testname=\"u\""),
    ] {
        assert!(read_text(&text).is_err(), "{text}");
    }
    assert!(read(b"\xff\xfe<\0", &Properties::new()).is_err(), "UTF-16");
}

#[test]
fn entities_are_not_resolved_and_not_fetched() {
    let good = with_elements(&sampler(""));
    for declaration in [
        "<!DOCTYPE x [<!ENTITY e \"value\">]>",
        "<!DOCTYPE x SYSTEM \"file:///etc/passwd\">",
        "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>",
    ] {
        let error = read_text(&format!("{declaration}{good}")).expect_err(declaration);
        assert!(error.to_string().contains("document type"), "{error}");
    }
    assert!(read_text(&with_elements(&sampler("<stringProp name=\"HTTPSampler.path\">&e;</stringProp>"))).is_err());
    let five = sampler("<stringProp name=\"HTTPSampler.path\">/a?b&amp;c&#38;d</stringProp>");
    assert_eq!(read_text(&with_elements(&five)).expect("good").plan.steps[0].url.query(), Some("b&c&d"));
}

#[test]
fn size_depth_elements_attributes_and_growth_are_bounded() {
    let deep = "<a>".repeat(DEPTH_MAX + 1) + &"</a>".repeat(DEPTH_MAX + 1);
    let attributes = (0..=ATTRIBUTES_MAX).fold(String::new(), |text, at| text + &format!(" a{at}=\"\""));
    for (elements, named) in [
        (deep, "deep"),
        ("<a/>".repeat(ELEMENTS_MAX), "elements"),
        (format!("<a{attributes}/>"), "attributes"),
        (
            format!(
                "<LoopController><stringProp name=\"LoopController.loops\">9999999999</stringProp></LoopController>\
                 <hashTree>{}</hashTree>",
                sampler("")
            ),
            "more than 1000 requests",
        ),
        (sampler("").repeat(STEPS_MAX + 1), "more than 1000 requests"),
        (sampler(&format!("<stringProp name=\"HTTPSampler.path\">{}</stringProp>", "x".repeat(70_000))), "longer than"),
    ] {
        let error = error_of(&elements);
        assert!(error.contains(named), "{error} should name {named}");
    }
    assert!(read(&vec![b' '; FILE_BYTES_MAX + 1], &Properties::new()).is_err());
    // A default body that each of many requests repeats.
    let argument =
        format!("<elementProp><stringProp name=\"Argument.value\">{}</stringProp></elementProp>", "x".repeat(60_000));
    let defaults = format!(
        "<ConfigTestElement guiclass=\"HttpDefaultsGui\"><elementProp name=\"HTTPsampler.Arguments\"><collectionProp \
         name=\"Arguments.arguments\">{}</collectionProp></elementProp></ConfigTestElement>",
        argument.repeat(20)
    );
    let error = error_of(&(defaults + &sampler("").repeat(200)));
    assert!(error.contains("all texts"), "{error}");
}

#[test]
fn a_written_plan_reads_back_the_same_whatever_its_texts_hold() {
    let mut plan = read_fixture("shop.jmx").plan;
    for step in &mut plan.steps {
        step.credentials = None;
        step.body = std::sync::Arc::from([]);
        "a<b>&\"'\\ ${name} \\${x} \u{e9}".clone_into(&mut step.name);
    }
    plan.steps[4].body = std::sync::Arc::from("${x}\\ \r\n<&>\"\ttext".as_bytes());
    plan.steps[0].headers = [("X-A".to_owned(), "${y} \\, \\".to_owned())].into();
    let (text, warnings) = write(&plan, "name & <more>").expect("it can be written");
    assert_eq!(warnings, Vec::<String>::new());
    let again = read_text(&text).expect("it can be read");
    assert_eq!((again.plan, again.name.as_str()), (plan.clone(), "name & <more>"));
    assert!(write(&Plan { rate: Some(1.0), ..plan }, "x").is_err());
}

#[test]
fn a_password_is_not_written() {
    let plan = read_fixture("shop.jmx").plan;
    let (text, warnings) = write(&plan, "x").expect("it can be written");
    assert!(!text.contains("from-property") && warnings.iter().any(|warning| warning.contains("password")));
    let properties = [("password".to_owned(), "again".to_owned())].into();
    let step = read(text.as_bytes(), &properties).expect("it can be read").plan.steps.remove(4);
    assert_eq!(step.credentials, Some(("buyer".to_owned(), "again".to_owned())));
}
